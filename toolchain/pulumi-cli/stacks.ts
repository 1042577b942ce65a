/** The commands that work on a stack and would say no more than "no stack named ... found" where it has no state yet. */
const ON_A_STACK = new Set(["up", "update", "preview", "pre", "refresh", "import", "destroy"]);

/**
 * The stack that a command names and that is to be created before it runs: a fresh clone declares its stacks and has no
 * state of them.
 * @param isNew whether a stack is declared and has no state
 */
export function stackToCreate(args: readonly string[], isNew: (name: string) => boolean): string | undefined {
  // Another folder may hold another project.
  if (args.some((argument) => argument === "-C" || argument.startsWith("--cwd"))) return undefined;
  const command = args.find((argument) => !argument.startsWith("-"));
  if (!command || !ON_A_STACK.has(command)) return undefined;
  const at = args.findIndex((argument) => argument === "-s" || argument === "--stack");
  const joined = args.find((argument) => argument.startsWith("--stack="))?.slice("--stack=".length);
  const name = joined ?? (at < 0 ? undefined : args[at + 1]);
  return name && isNew(name) ? name : undefined;
}
