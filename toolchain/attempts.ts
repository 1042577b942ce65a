import { CacheError } from "./cache.ts";
import { reasonOf, ToolchainError } from "./errors.ts";

export interface Attempt<T> {
  /** Shown in errors: "official release". */
  readonly source: string;
  readonly obtain: () => Promise<T>;
}

/**
 * The result of the first source that has it.
 * @throws ToolchainError that names every source with its reason when none has; a cache that cannot be written stops it
 * at once, since it would stop every source
 */
export async function firstOf<T>(what: string, next: string, attempts: readonly Attempt<T>[]): Promise<T> {
  const reasons: string[] = [];
  for (const { source, obtain } of attempts) {
    try {
      return await obtain();
    } catch (error) {
      if (error instanceof CacheError) throw error;
      reasons.push(
        `${source}: ${error instanceof ToolchainError ? `${error.message} (${error.next})` : reasonOf(error)}`,
      );
    }
  }
  throw new ToolchainError({
    what: `${what} could not be obtained from any source`,
    where: attempts.map(({ source }) => source).join(", "),
    why: reasons.map((reason) => `\n    - ${reason}`).join(""),
    next,
  });
}
