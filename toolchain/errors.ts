export interface ToolchainErrorParts {
  /** What failed, as a clause: "the cache folder cannot be written". */
  readonly what: string;
  /** The file, folder or address concerned. */
  readonly where: string;
  readonly why: string;
  /** What the user does next. */
  readonly next: string;
  readonly cause?: unknown;
}

/** A failure that a person can mend. The message says what and why; `where` and `next` are printed beneath it. */
export class ToolchainError extends Error {
  override readonly name = "ToolchainError";
  readonly where: string;
  readonly next: string;

  constructor({ what, where, why, next, cause }: ToolchainErrorParts) {
    super(`${what}: ${why}`, cause === undefined ? undefined : { cause });
    this.where = where;
    this.next = next;
  }
}

/** An error as it is shown to people: what and why, where, the next step. */
export function formatToolchainError(error: unknown): string {
  if (!(error instanceof ToolchainError)) return `error: ${error instanceof Error ? error.message : String(error)}`;
  return `error: ${error.message}\n  where: ${error.where}\n  next:  ${error.next}`;
}

/** The text of an error in one line, its cause included: Node.js hides the reason of a failed fetch in `cause`. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  const own = error.message.split("\n")[0] ?? "";
  const cause = error.cause === undefined ? "" : reasonOf(error.cause);
  return [own || code, cause].filter((part) => part !== "").join(": ");
}
