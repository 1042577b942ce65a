/** Command errors as the server reports them: code, codeName, message, labels. */
import { type Doc, DocWriter, type Fields, Value } from "./bson/document.ts";

/** Error codes that the router itself raises or looks at (names as in the server's error_codes.yml). */
export const errorCode = {
  InternalError: 1,
  BadValue: 2,
  HostUnreachable: 6,
  HostNotFound: 7,
  FailedToParse: 9,
  UserNotFound: 11,
  Unauthorized: 13,
  TypeMismatch: 14,
  InvalidLength: 16,
  AuthenticationFailed: 18,
  IllegalOperation: 20,
  AlreadyInitialized: 23,
  NamespaceNotFound: 26,
  IndexNotFound: 27,
  CursorNotFound: 43,
  NamespaceExists: 48,
  MaxTimeMSExpired: 50,
  CommandNotFound: 59,
  ShardKeyNotFound: 61,
  WriteConcernFailed: 64,
  MultipleErrorsOccurred: 65,
  CannotCreateIndex: 67,
  ShardNotFound: 70,
  ReplicaSetNotFound: 71,
  InvalidOptions: 72,
  InvalidNamespace: 73,
  NodeNotFound: 74,
  WriteConcernLegacyOK: 75,
  NoReplicationEnabled: 76,
  UnknownReplWriteConcern: 79,
  NetworkTimeout: 89,
  CallbackCanceled: 90,
  ShutdownInProgress: 91,
  UnsatisfiableWriteConcern: 100,
  WriteConflict: 112,
  CommandNotSupported: 115,
  NamespaceNotSharded: 118,
  FailedToSatisfyReadPreference: 133,
  StaleEpoch: 150,
  CommandNotSupportedOnView: 166,
  CommandOnShardedViewNotSupportedOnMongod: 169,
  PrimarySteppedDown: 189,
  TransactionTooOld: 225,
  StaleDbVersion: 249,
  NoSuchTransaction: 251,
  TransactionCommitted: 256,
  OperationNotSupportedInTransaction: 263,
  ExceededTimeLimit: 262,
  WouldChangeOwningShard: 283,
  DocumentValidationFailure: 121,
  ImmutableField: 66,
  ConflictingUpdateOperators: 40,
  CannotImplicitlyCreateCollection: 227,
  ConflictingOperationInProgress: 117,
  NotWritablePrimary: 10107,
  DuplicateKey: 11000,
  InterruptedAtShutdown: 11600,
  Interrupted: 11601,
  InterruptedDueToReplStateChange: 11602,
  StaleConfig: 13388,
  NotPrimaryNoSecondaryOk: 13435,
  NotPrimaryOrSecondary: 13436,
  BSONObjectTooLarge: 10334,
  SnapshotTooOld: 239,
  SnapshotUnavailable: 246,
  LockTimeout: 24,
  StaleChunkHistory: 332,
} as const;

const names = new Map<number, string>(Object.entries(errorCode).map(([name, code]) => [code, name]));

/** The server's name of a code, when it has one that the router knows. */
export function knownCodeName(code: number): string | undefined {
  return names.get(code);
}

/** The server's name of a code; codes without a name are `Location<code>`. */
export function codeName(code: number): string {
  return names.get(code) ?? `Location${code}`;
}

export interface CommandErrorOptions {
  readonly codeName?: string | undefined;
  readonly labels?: readonly string[];
  /** Further fields of the error reply, such as keyPattern. */
  readonly extra?: Fields;
  readonly cause?: unknown;
}

/** An error that goes to the client as `{ok: 0, errmsg, code, codeName, errorLabels}`. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly code: number;
  readonly codeName: string;
  readonly labels: Set<string>;
  readonly extra: Fields;
  /** The server's own reply, when the error came from one: passed on with all its fields. */
  readonly reply: Doc | undefined;

  constructor(code: number, message: string, options: CommandErrorOptions & { reply?: Doc } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.codeName = options.codeName ?? codeName(code);
    this.labels = new Set(options.labels ?? []);
    this.extra = options.extra ?? {};
    this.reply = options.reply;
  }

  /** The error of a server's reply with `ok: 0`. */
  static fromReply(reply: Doc): CommandError {
    const code = reply.number("code") ?? errorCode.InternalError;
    return new CommandError(code, reply.string("errmsg") ?? "no message", {
      codeName: reply.string("codeName"),
      labels: (reply.array("errorLabels") ?? []).map((label) => label.text()),
      reply,
    });
  }

  toReply(): Doc {
    const doc = new DocWriter().append("ok", Value.double(0)).append("errmsg", this.message);
    if (this.code !== 0) doc.append("code", this.code).append("codeName", this.codeName);
    if (this.reply !== undefined) doc.all(this.reply, ownFields);
    for (const [name, value] of Object.entries(this.extra)) doc.append(name, value);
    if (this.labels.size > 0) doc.append("errorLabels", [...this.labels]);
    return doc.finish();
  }
}

/** Fields of a server's reply that are between router and shard only. */
export const gossip: readonly string[] = [
  "$clusterTime",
  "operationTime",
  "$configTime",
  "$topologyTime",
  "$configServerState",
  "$gleStats",
  "$replData",
  "$oplogQueryData",
  "lastCommittedOpTime",
  "electionId",
  "opTime",
];

const ownFields: ReadonlySet<string> = new Set(["ok", "errmsg", "code", "codeName", "errorLabels", ...gossip]);
