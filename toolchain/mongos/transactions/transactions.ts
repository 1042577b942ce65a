/** Multi-document transactions over several shards: who takes part, who coordinates, what was chosen as snapshot. */
import { bsonType, type Doc, type Fields, type Value } from "../bson/document.ts";
import { OperationContext, type SessionFields } from "../context.ts";
import { CommandError, errorCode } from "../errors.ts";

interface Participant {
  /** Said by the shard in each reply; undefined until it has answered. */
  readOnly: boolean | undefined;
  /** Number of the client's statement that first used the shard. */
  readonly since: number;
}

export class Transaction {
  readonly txnNumber: bigint;
  readonly participants = new Map<string, Participant>();
  coordinator: string | undefined;
  readonly readConcern: Doc | undefined;
  /** Cluster time of the snapshot, for read concern snapshot. */
  atClusterTime: Value | undefined;
  statement = 0;
  outcome: "open" | "committed" | "aborted" = "open";
  lastUsed = performance.now();
  /** Known from its end alone: another router, or this one before a restart, ran its statements. */
  recovering = false;
  readonly session: SessionFields | undefined;

  constructor(txnNumber: bigint, readConcern: Doc | undefined, session?: SessionFields) {
    this.txnNumber = txnNumber;
    this.session = session;
    this.readConcern = readConcern;
  }

  get isSnapshot(): boolean {
    return this.readConcern?.string("level") === "snapshot";
  }

  /** Fields that the next command to a shard carries. */
  fieldsFor(shardId: string): Fields {
    const known = this.participants.get(shardId);
    const fields: Record<string, Fields[string]> = { txnNumber: this.txnNumber, autocommit: false };
    if (known !== undefined) {
      if (this.coordinator === shardId) fields.coordinator = true;
      return fields;
    }
    this.participants.set(shardId, { readOnly: undefined, since: this.statement });
    this.coordinator ??= shardId;
    if (this.coordinator === shardId) fields.coordinator = true;
    fields.startTransaction = true;
    if (this.isSnapshot && this.atClusterTime !== undefined)
      fields.readConcern = { level: "snapshot", atClusterTime: this.atClusterTime };
    else if (this.readConcern !== undefined) fields.readConcern = this.readConcern;
    return fields;
  }

  onReply(shardId: string, reply: Doc): void {
    const participant = this.participants.get(shardId);
    if (participant === undefined) return;
    const readOnly = reply.bool("readOnly");
    if (readOnly !== undefined) participant.readOnly = readOnly;
    else if ((reply.number("ok") ?? 0) === 1) participant.readOnly = false;
  }

  /** Shards that this very statement used for the first time. */
  newParticipants(): string[] {
    return [...this.participants].filter(([, p]) => p.since === this.statement).map(([id]) => id);
  }

  forget(shardId: string): void {
    this.participants.delete(shardId);
    if (this.coordinator === shardId) this.coordinator = this.participants.keys().next().value;
  }
}

/** Sessions forget their last transaction after this time without use, milliseconds. */
const keptMs = 30 * 60_000;

export class Transactions {
  readonly #bySession = new Map<string, Transaction>();

  get open(): readonly Transaction[] {
    return [...this.#bySession.values()].filter((t) => t.outcome === "open");
  }

  /** The transaction of a command with `autocommit: false`; begins it with `startTransaction`. */
  begin(ctx: OperationContext, commandName: string): Transaction {
    const { session } = ctx;
    if (session?.txnNumber === undefined)
      throw new CommandError(
        errorCode.InvalidOptions,
        "'autocommit' field requires a transaction number to also be specified",
      );
    const known = this.#bySession.get(session.key);
    if (session.startTransaction) {
      if (known !== undefined && known.txnNumber > session.txnNumber) throw tooOld(session.txnNumber, known.txnNumber);
      if (known !== undefined && known.txnNumber === session.txnNumber && known.outcome === "open")
        throw new CommandError(117, `txnNumber ${session.txnNumber} for session ${session.key} already started`, {
          codeName: "ConflictingOperationInProgress",
        });
      const level = ctx.readConcern?.string("level");
      if (level !== undefined && !["local", "majority", "snapshot"].includes(level))
        throw new CommandError(
          errorCode.InvalidOptions,
          "The first command in a transaction must specify a readConcern level that is supported in transactions: local, majority or snapshot",
        );
      if (this.#bySession.size > 1000) this.#expire();
      const made = new Transaction(session.txnNumber, ctx.readConcern?.detached(), session);
      this.#bySession.set(session.key, made);
      if (made.isSnapshot) made.atClusterTime = snapshotTime(ctx);
      return made;
    }
    if (known !== undefined && known.txnNumber > session.txnNumber) throw tooOld(session.txnNumber, known.txnNumber);
    const ends = commandName === "commitTransaction" || commandName === "abortTransaction";
    if (known === undefined || known.txnNumber < session.txnNumber) {
      if (ends) {
        const unknown = new Transaction(session.txnNumber, undefined, session);
        unknown.recovering = true;
        this.#bySession.set(session.key, unknown);
        return unknown;
      }
      throw noSuchTransaction(
        `cannot continue txnId ${known === undefined ? "-1" : known.txnNumber} for session ${session.key} with txnId ${session.txnNumber}`,
      );
    }
    if (!ends && known.outcome === "committed")
      throw new CommandError(256, "Transaction has been committed", { codeName: "TransactionCommitted" });
    if (!ends && known.outcome === "aborted")
      throw noSuchTransaction(`Transaction ${known.txnNumber} has been aborted`);
    known.statement++;
    known.lastUsed = performance.now();
    return known;
  }

  of(ctx: OperationContext): Transaction | undefined {
    return ctx.session === undefined ? undefined : this.#bySession.get(ctx.session.key);
  }

  /** Puts a transaction in place of a retryable write's number (moving a document between shards). */
  startInternal(ctx: OperationContext, readConcern: Doc | undefined): Transaction {
    const { session } = ctx;
    if (session?.txnNumber === undefined) throw new CommandError(errorCode.IllegalOperation, "no transaction number");
    const made = new Transaction(session.txnNumber, readConcern, session);
    this.#bySession.set(session.key, made);
    return made;
  }

  /** Transactions of the sessions with this id. */
  matching(idPrefix: string): readonly (readonly [string, Transaction])[] {
    return [...this.#bySession].filter(([key]) => key.startsWith(`${idPrefix}-`));
  }

  forgetSession(key: string): void {
    this.#bySession.delete(key);
  }

  #expire(): void {
    const limit = performance.now() - keptMs;
    for (const [key, transaction] of this.#bySession) if (transaction.lastUsed < limit) this.#bySession.delete(key);
  }
}

function tooOld(given: bigint, last: bigint): CommandError {
  return new CommandError(
    errorCode.TransactionTooOld,
    `txnNumber ${given} is less than last txnNumber ${last} seen in this session`,
  );
}

export function noSuchTransaction(message: string): CommandError {
  return new CommandError(errorCode.NoSuchTransaction, message, { labels: ["TransientTransactionError"] });
}

/** Cluster time for a snapshot: what the client has seen at least, else the newest that the router knows. */
export function snapshotTime(ctx: OperationContext): Value | undefined {
  const asked = ctx.readConcern?.find("atClusterTime");
  if (asked !== undefined) return asked;
  const known = ctx.router.clusterTime?.doc().find("clusterTime")?.detached();
  const after = ctx.readConcern?.find("afterClusterTime");
  if (after === undefined) return known;
  if (known === undefined) return after;
  const raw = (value: Value): bigint =>
    value.type === bsonType.timestamp ? value.bytes.readBigUInt64LE(value.start) : 0n;
  return raw(after) > raw(known) ? after : known;
}

/** The same operation inside a transaction of its own session. */
export function inTransactionContext(ctx: OperationContext): OperationContext {
  const { session } = ctx;
  return new OperationContext(ctx.router, {
    deadline: ctx.deadline,
    session: session === undefined ? undefined : { ...session, inTransaction: true, startTransaction: false },
    writeConcern: ctx.writeConcern,
    signal: ctx.signal,
  });
}
