/** One thing that is wrong with what a user gave us. Problems are collected and told all at once. */
export interface Problem {
  /** Where: the path in the declaration, e.g. `shards[1].members[0].priority`, or a resource, host or file. */
  readonly path: string;
  /** What is wrong, as a sentence. */
  readonly message: string;
  /** Why it is so: the rule behind it. */
  readonly rule?: string | undefined;
  /** The way out. */
  readonly fix?: string | undefined;
}

/** Base of all errors that are meant for people: what, where, why and the next step, without a stack trace. */
export class AlfabravoError extends Error {
  override readonly name: string = "AlfabravoError";
  /** Where it happened: a path, a resource, a host, a file. */
  readonly where: string | undefined;
  /** What to do next. */
  readonly next: string | undefined;

  constructor(message: string, options: { where?: string; next?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.where = options.where;
    this.next = options.next;
  }
}

/** A declaration with mistakes: all of them, each with its path. */
export class InvalidDeclarationError extends AlfabravoError {
  override readonly name = "InvalidDeclarationError";
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(
      `the declaration has ${problems.length} mistake${problems.length === 1 ? "" : "s"}:\n${formatProblems(problems)}`,
    );
    this.problems = problems;
  }
}

/** A bullet list, one problem a bullet, its rule and its way out beneath. */
export function formatProblems(problems: readonly Problem[]): string {
  return problems
    .map(({ path, message, rule, fix }) =>
      [`  - ${path}: ${message}`, rule && `      why: ${rule}`, fix && `      fix: ${fix}`].filter(Boolean).join("\n"),
    )
    .join("\n");
}
