/** What a command handler gets: who asks, what, until when, and the way to the servers. */
import { bsonType, type Doc, type Fields, type Value } from "./bson/document.ts";
import { CommandError, errorCode } from "./errors.ts";
import type { Router } from "./router.ts";

/** A point in time until which an operation may run (maxTimeMS). */
export class Deadline {
  /** Milliseconds of `performance.now()`, or Infinity. */
  readonly at: number;

  constructor(at: number) {
    this.at = at;
  }

  static readonly none = new Deadline(Number.POSITIVE_INFINITY);

  static in(ms: number): Deadline {
    return new Deadline(performance.now() + ms);
  }

  get bounded(): boolean {
    return this.at !== Number.POSITIVE_INFINITY;
  }

  /** Milliseconds left; Infinity without a limit. */
  left(): number {
    return this.at - performance.now();
  }

  /** Throws MaxTimeMSExpired (50) when the time is over. */
  check(): void {
    if (this.left() <= 0) throw maxTimeExpired();
  }
}

export function maxTimeExpired(): CommandError {
  return new CommandError(errorCode.MaxTimeMSExpired, "operation exceeded time limit");
}

export type ReadMode = "primary" | "primaryPreferred" | "secondary" | "secondaryPreferred" | "nearest";

export interface ReadPreference {
  readonly mode: ReadMode;
  readonly tags: readonly Readonly<Record<string, string>>[];
  readonly maxStalenessSeconds?: number;
}

export const primaryRead: ReadPreference = { mode: "primary", tags: [] };
export const nearestRead: ReadPreference = { mode: "nearest", tags: [] };

/** A user that a connection has logged in as. */
export interface AuthenticatedUser {
  readonly user: string;
  readonly db: string;
}

/** One client connection. */
export interface ClientConnection {
  readonly id: number;
  readonly remote: string;
  /** True for a connection from this machine (the localhost exception). */
  readonly loopback: boolean;
  /** Logged-in users, by authentication database. */
  readonly users: Map<string, AuthenticatedUser>;
  /** Document `client` of the first hello (driver, application name). */
  metadata: Doc | undefined;
  readonly since: Date;
}

/** Session fields of a command. */
export interface SessionFields {
  /** `lsid` as it goes to the servers: `{id, uid}`. */
  readonly lsid: Doc;
  /** Text that identifies the session in maps. */
  readonly key: string;
  readonly txnNumber: bigint | undefined;
  /** True when `autocommit: false` is there: the command belongs to a transaction. */
  readonly inTransaction: boolean;
  readonly startTransaction: boolean;
}

/**
 * One operation: carries what every request to a server needs (session, deadline, gossip of cluster time). Background
 * work uses `router.background()`.
 */
export class OperationContext {
  readonly router: Router;
  readonly deadline: Deadline;
  readonly session: SessionFields | undefined;
  readonly readPreference: ReadPreference;
  readonly readConcern: Doc | undefined;
  readonly writeConcern: Doc | undefined;
  /** Highest operationTime of the replies so far. */
  operationTime: Value | undefined;
  /** Field `comment` of the command, passed on. */
  readonly comment: Value | undefined;
  /** Aborted when nobody waits for the answer any more (the client is gone). */
  readonly signal: AbortSignal | undefined;

  constructor(
    router: Router,
    options: {
      deadline?: Deadline;
      session?: SessionFields | undefined;
      readPreference?: ReadPreference;
      readConcern?: Doc | undefined;
      writeConcern?: Doc | undefined;
      comment?: Value | undefined;
      signal?: AbortSignal | undefined;
    } = {},
  ) {
    this.router = router;
    this.deadline = options.deadline ?? Deadline.none;
    this.session = options.session;
    this.readPreference = options.readPreference ?? primaryRead;
    this.readConcern = options.readConcern;
    this.writeConcern = options.writeConcern;
    this.comment = options.comment;
    this.signal = options.signal;
  }

  /** Is the command part of a multi-document transaction? */
  get inTransaction(): boolean {
    return this.session?.inTransaction === true;
  }
}

/** One command of a client. */
export class CommandContext extends OperationContext {
  readonly client: ClientConnection;
  /** Name as in the registry (an alias is resolved). */
  readonly name: string;
  readonly db: string;
  /** The command as it came, with generic fields; document sequences are not in it. */
  readonly body: Doc;
  /** Document sequences (OP_MSG kind 1 sections) by field name. */
  readonly sequences: ReadonlyMap<string, readonly Doc[]>;

  constructor(
    router: Router,
    options: ConstructorParameters<typeof OperationContext>[1] & {
      client: ClientConnection;
      name: string;
      db: string;
      body: Doc;
      sequences: ReadonlyMap<string, readonly Doc[]>;
    },
  ) {
    super(router, options);
    this.client = options.client;
    this.name = options.name;
    this.db = options.db;
    this.body = options.body;
    this.sequences = options.sequences;
  }

  /** Documents of an array field, wherever they came from (body or document sequence). */
  documents(field: string): readonly Doc[] {
    return this.sequences.get(field) ?? this.body.docs(field);
  }

  /** The command's first value as a collection name; TypeMismatch or InvalidNamespace otherwise. */
  collection(): string {
    const value = this.body.first();
    if (value?.type !== bsonType.string)
      throw new CommandError(
        value === undefined || value.isNumber() ? errorCode.InvalidNamespace : errorCode.TypeMismatch,
        `collection name has invalid type ${value === undefined ? "missing" : typeName(value.type)}`,
        value !== undefined && !value.isNumber() ? {} : { codeName: "InvalidNamespace" },
      );
    const name = value.text();
    if (name === "" || name.startsWith(".") || name.includes("\0"))
      throw new CommandError(errorCode.InvalidNamespace, `Invalid namespace specified '${this.db}.${name}'`);
    return name;
  }

  /** Full namespace of `collection()`. */
  namespace(): string {
    return `${this.db}.${this.collection()}`;
  }

  /**
   * The command without generic fields (session, `$db`, read preference, maxTimeMS, read and write concern), ready to be
   * sent on: `run` adds them again as each server needs them.
   */
  command(): Doc {
    return this.body.without(...genericFields);
  }
}

/** Fields that any command may carry; `Router` writes them anew for each server. */
export const genericFields: readonly string[] = [
  "$db",
  "lsid",
  "txnNumber",
  "autocommit",
  "startTransaction",
  "$clusterTime",
  "$readPreference",
  "$audit",
  "$client",
  "$configTime",
  "$topologyTime",
  "maxTimeMS",
  "readConcern",
  "writeConcern",
  "databaseVersion",
  "shardVersion",
  "stmtId",
  "stmtIds",
  "apiVersion",
  "apiStrict",
  "apiDeprecationErrors",
  "coordinator",
  "recoveryToken",
];

const typeNames: Readonly<Record<number, string>> = {
  1: "double",
  2: "string",
  3: "object",
  4: "array",
  5: "binData",
  6: "undefined",
  7: "objectId",
  8: "bool",
  9: "date",
  10: "null",
  11: "regex",
  13: "javascript",
  14: "symbol",
  16: "int",
  17: "timestamp",
  18: "long",
  19: "decimal",
  255: "minKey",
  127: "maxKey",
};

/** Name of a BSON type as in the server's messages. */
export function typeName(type: number): string {
  return typeNames[type] ?? `type ${type}`;
}

/** Reply of a handler: fields or a raw document; `ok: 1` is added when missing. */
export type Reply = Fields | Doc;
