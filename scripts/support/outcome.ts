import type { Problem } from "../../infra/model/problem.ts";

/** What the exit codes mean, for every command. */
export const exitCode = { fine: 0, couldNotTell: 1, notAsDeclared: 2 } as const;

/** The parts of an error that are meant for people; every error class of the project has them. */
interface Explained {
  readonly message: string;
  readonly where?: string | undefined;
  readonly next?: string | undefined;
  readonly problems?: readonly Problem[] | undefined;
  readonly cause?: unknown;
}

/** Prints one clear error: what, where, why, and the next step. Returns the exit code. */
export function reportFailure(error: unknown, options: { json?: boolean; verbose?: boolean }): number {
  const explained = explain(error);
  if (options.json) {
    const { message, where, next, problems } = explained;
    console.log(JSON.stringify({ error: { message, where, next, problems, why: causes(explained) } }, null, 2));
  } else {
    console.error(formatFailure(explained));
  }
  if (options.verbose && error instanceof Error) console.error(error.stack);
  return exitCode.couldNotTell;
}

export function formatFailure(error: Explained): string {
  const lines = [`error: ${error.message}`];
  if (error.where && !error.message.includes(error.where)) lines.push(`  where: ${error.where}`);
  const why = causes(error).filter((cause) => !error.message.includes(cause));
  for (const cause of why) lines.push(`  why:   ${cause}`);
  if (error.next) lines.push(`  next:  ${error.next}`);
  return lines.join("\n");
}

/** The messages of the errors beneath this one, outermost first. */
function causes(error: Explained): string[] {
  const messages: string[] = [];
  let cause = error.cause;
  while (cause instanceof Error) {
    messages.push(cause.message);
    cause = cause.cause;
  }
  return messages;
}

function explain(error: unknown): Explained {
  return error instanceof Error ? (error as Explained) : { message: String(error) };
}
