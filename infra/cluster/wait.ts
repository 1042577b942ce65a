import { setTimeout as delay } from "node:timers/promises";
import { AlfabravoError } from "../model/problem.ts";
import { describeError, UnreachableError } from "./errors.ts";

export interface WaitOptions<Seen> {
  /** Milliseconds from now until the wait fails. */
  readonly deadlineMillis: number;
  /** Milliseconds between the end of one probe and the start of the next. */
  readonly intervalMillis: number;
  readonly signal: AbortSignal;
  /** Turns what a probe last saw into words for the error. */
  readonly describe: (seen: Seen) => string;
  /** The next step when the wait fails. */
  readonly next?: string;
  /** Errors of a probe that end the wait at once; by default every other error counts as "not yet". */
  readonly fatal?: (error: unknown) => boolean;
}

/** What a probe says: done with a value, or not yet, with what it saw. */
export type Probe<T, Seen> = { readonly done: true; readonly value: T } | { readonly done: false; readonly seen: Seen };

/**
 * Polls until `probe` is done.
 *
 * @throws AlfabravoError after the deadline, with what was last seen or the last error; the signal's reason when aborted
 */
export async function waitFor<T, Seen>(
  label: string,
  probe: () => Promise<Probe<T, Seen>>,
  options: WaitOptions<Seen>,
): Promise<T> {
  const end = performance.now() + options.deadlineMillis;
  let last = "nothing yet";
  for (;;) {
    options.signal.throwIfAborted();
    try {
      const result = await probe();
      if (result.done) return result.value;
      last = options.describe(result.seen);
    } catch (error) {
      const final = error instanceof AlfabravoError && !(error instanceof UnreachableError);
      if (final || options.fatal?.(error)) throw error;
      last = describeError(error);
    }
    if (performance.now() >= end) {
      throw new AlfabravoError(
        `gave up waiting for ${label} after ${options.deadlineMillis / 1000} s; last seen: ${last}`,
        {
          next:
            options.next ?? "look at the logs of the servers named here, then run again: it goes on where it stopped",
        },
      );
    }
    await delay(options.intervalMillis, undefined, { signal: options.signal });
  }
}
