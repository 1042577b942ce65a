/** What every command is told. */
export interface CommandOptions {
  readonly stack: string;
  /** The result as JSON on standard output, and no progress. */
  readonly json: boolean;
  /** Do not ask. */
  readonly yes: boolean;
  readonly verbose: boolean;
}
