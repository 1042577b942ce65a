import { AlfabravoError } from "../model/problem.ts";

/** Server error codes on which this code decides, by the names that the server gives them. */
export const Code = {
  Unauthorized: 13,
  AuthenticationFailed: 18,
  InvalidReplicaSetConfig: 93,
  NotYetInitialized: 94,
  AlreadyInitialized: 23,
  NodeNotFound: 74,
  NewReplicaSetConfigurationIncompatible: 103,
  ConfigurationInProgress: 109,
  CurrentConfigNotCommittedYet: 338,
  NotWritablePrimary: 10107,
  PrimarySteppedDown: 189,
  InterruptedDueToReplStateChange: 11602,
  MaxTimeMSExpired: 50,
  FailedToSatisfyReadPreference: 133,
  CommandNotFound: 59,
  CommandNotSupported: 115,
  NamespaceNotFound: 26,
  NamespaceNotSharded: 118,
  ShardNotFound: 70,
  DuplicateKey: 11000,
  IndexOptionsConflict: 85,
  IndexKeySpecsConflict: 86,
  IndexNotFound: 27,
  UserNotFound: 11,
  UserAlreadyExists: 51003,
  ConflictingOperationInProgress: 117,
  LockBusy: 46,
  NoSuchTransaction: 251,
  StaleConfig: 13388,
  BackgroundOperationInProgressForNamespace: 12587,
} as const;

/** A server that cannot be reached now. A wait goes on asking; other errors for people end it. */
export class UnreachableError extends AlfabravoError {
  override readonly name = "UnreachableError";
}

/** The server's error code, or undefined when the error did not come from a server. */
export function codeOf(error: unknown): number | undefined {
  if (error === null || typeof error !== "object" || !("code" in error)) return undefined;
  return typeof error.code === "number" ? error.code : undefined;
}

export function hasCode(error: unknown, ...codes: readonly number[]): boolean {
  const code = codeOf(error);
  return code !== undefined && codes.includes(code);
}

/** One line about any error, with the server's code and its name when there are. Never holds a password: drivers and servers put none in messages. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = codeOf(error);
  const codeName = "codeName" in error && typeof error.codeName === "string" ? error.codeName : undefined;
  const suffix = code === undefined ? "" : ` (${code}${codeName ? ` ${codeName}` : ""})`;
  return `${error.message.split("\n", 1)[0]}${suffix}`;
}

/** Runs `act`; an error that is not yet one for people becomes one, which says what was tried, where, and the next step. */
export async function told<T>(
  what: string,
  where: string,
  act: () => Promise<T>,
  next: string | ((error: unknown) => string | undefined) = defaultNext,
): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw asAlfabravoError(error, what, where, next);
  }
}

/** See `told`. An AlfabravoError and an abort pass unchanged. */
export function asAlfabravoError(
  error: unknown,
  what: string,
  where: string,
  next: string | ((error: unknown) => string | undefined) = defaultNext,
): Error {
  if (error instanceof AlfabravoError) return error;
  if (error instanceof Error && error.name === "AbortError") return error;
  const step = typeof next === "string" ? next : next(error);
  return new AlfabravoError(`could not ${what} at ${where}: ${describeError(error)}`, {
    where,
    ...(step === undefined ? {} : { next: step }),
    cause: error,
  });
}

/** The next step that fits the kind of error, when nothing more special is known. */
export function defaultNext(error: unknown): string {
  if (hasCode(error, Code.AuthenticationFailed)) {
    return "check that the keyfile or password is the one this server was started with";
  }
  if (hasCode(error, Code.Unauthorized))
    return "grant the user the missing privilege that the message names, then run again";
  if (hasCode(error, Code.FailedToSatisfyReadPreference, Code.MaxTimeMSExpired)) {
    return "a replica set has no reachable primary: bring its members back, then run again";
  }
  if (
    error instanceof Error &&
    /ServerSelection|Network|ECONNREFUSED|ENOTFOUND|ETIMEDOUT/.test(`${error.name} ${error.message}`)
  ) {
    return "check that the process runs and that this machine reaches its host and port";
  }
  return "correct the cause that the message names, then run again: what is already done is kept";
}
