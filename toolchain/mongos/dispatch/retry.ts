/** Which errors of a server mean "ask again", and how. */
import { type CommandError, errorCode } from "../errors.ts";

const notPrimary: ReadonlySet<number> = new Set([
  errorCode.NotWritablePrimary,
  errorCode.NotPrimaryNoSecondaryOk,
  errorCode.NotPrimaryOrSecondary,
  errorCode.PrimarySteppedDown,
  errorCode.InterruptedDueToReplStateChange,
  errorCode.ShutdownInProgress,
  errorCode.InterruptedAtShutdown,
]);

/** The member is not primary, or not for long: look who is. */
export function isNotPrimary(code: number): boolean {
  return notPrimary.has(code);
}

const refusedBefore: ReadonlySet<number> = new Set([
  errorCode.NotWritablePrimary,
  errorCode.NotPrimaryNoSecondaryOk,
  errorCode.NotPrimaryOrSecondary,
]);

/** The member refused before it did anything: safe to send even a plain write again. */
export function isRefusedBeforeStart(code: number): boolean {
  return refusedBefore.has(code);
}

/** Errors after which a read or a retryable write may be sent again. */
export function isRetryable(code: number): boolean {
  return (
    isNotPrimary(code) ||
    code === errorCode.HostUnreachable ||
    code === errorCode.HostNotFound ||
    code === errorCode.NetworkTimeout ||
    code === 9001
  );
}

const stale: ReadonlySet<number> = new Set([
  errorCode.StaleConfig,
  errorCode.StaleDbVersion,
  errorCode.StaleEpoch,
  332, // StaleChunkHistory
  errorCode.ShardNotFound,
]);

/** The router's picture of the sharding metadata is old. */
export function isStale(error: CommandError): boolean {
  return stale.has(error.code);
}
