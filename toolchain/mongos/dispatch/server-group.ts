/** Sends commands to the members of one replica set. */

import { setTimeout as delay } from "node:timers/promises";
import { bsonType, type Doc, DocWriter, encode, type Fields, Value } from "../bson/document.ts";
import { type Deadline, maxTimeExpired, nearestRead, type OperationContext, primaryRead } from "../context.ts";
import { CommandError, errorCode } from "../errors.ts";
import type { ConfigServers, RunOptions, ServerGroup } from "../router.ts";
import { ReplicaSetMonitor, serverSelectionMs } from "../topology/monitor.ts";
import { type ConnectionOptions, NetworkError } from "../wire/connection.ts";
import { isNotPrimary, isRefusedBeforeStart, isRetryable } from "./retry.ts";

const noFields: ReadonlySet<string> = new Set();

/** What the groups need of the router. */
export interface Hooks {
  readonly clusterTime: () => Value | undefined;
  /** Looks at `$clusterTime` and `operationTime` of a reply. */
  readonly gossip: (ctx: OperationContext, reply: Doc) => void;
  /** Fields of the transaction that the operation belongs to, for this shard. */
  readonly transactionFields: (ctx: OperationContext, shardId: string) => Fields;
  readonly onTransactionReply: (ctx: OperationContext, shardId: string, reply: Doc) => void;
  /** Read and write concern to use when the client gave none (cluster-wide defaults). */
  readonly defaultReadConcern: () => Doc | undefined;
  readonly defaultWriteConcern: () => Doc | undefined;
}

/** How long past its deadline a server gets to answer for itself, milliseconds. */
const graceMs = 40;
const attempts = 4;

/**
 * What a mongos says when nobody says anything. Left out, a secondary would take "available": it would not check the
 * routing version, and answer with what a migration has left behind.
 */
const implicitReadConcern = { level: "local", provenance: "implicitDefault" };

export class ReplicaSetGroup implements ServerGroup {
  readonly id: string;
  readonly monitor: ReplicaSetMonitor;
  readonly #hooks: Hooks;
  /** Config servers take no part in clients' transactions. */
  readonly #isShard: boolean;

  constructor(
    id: string,
    setName: string,
    seeds: readonly string[],
    options: ConnectionOptions,
    hooks: Hooks,
    isShard: boolean,
  ) {
    this.id = id;
    this.monitor = new ReplicaSetMonitor(setName, seeds, options);
    this.#hooks = hooks;
    this.#isShard = isShard;
  }

  connectionString(): string {
    return `${this.monitor.setName}/${this.monitor.hosts.join(",")}`;
  }

  #body(ctx: OperationContext, db: string, command: Doc, options: RunOptions, deadline: Deadline): Doc {
    const out = new DocWriter(command.bytes.length + 512).all(command, noFields);
    const present = (name: string): boolean => command.has(name);
    const session = options.withoutSession === true ? undefined : ctx.session;
    const inTransaction = session?.inTransaction === true && this.#isShard;
    if (session !== undefined && !(session.inTransaction && !this.#isShard)) {
      out.append("lsid", session.lsid);
      if (inTransaction && options.recovering === true) {
        out.append("txnNumber", session.txnNumber).append("autocommit", false);
      } else if (inTransaction) {
        for (const [name, value] of Object.entries(this.#hooks.transactionFields(ctx, this.id)))
          out.append(name, value);
      } else if (session.txnNumber !== undefined && options.retryableWrite === true) {
        out.append("txnNumber", session.txnNumber);
        if (options.stmtIds !== undefined && !present("stmtIds")) out.append("stmtIds", options.stmtIds);
      }
    }
    for (const [name, value] of Object.entries(options.version ?? {})) out.append(name, value);
    if (!inTransaction) {
      const readConcern =
        options.readConcern ??
        (options.withReadConcern === true
          ? (withLevel(ctx.readConcern) ?? this.#hooks.defaultReadConcern() ?? implicitReadConcern)
          : undefined);
      if (readConcern !== undefined && !present("readConcern")) out.append("readConcern", readConcern);
      if (options.withWriteConcern === true && !present("writeConcern")) {
        const writeConcern = ctx.writeConcern ?? this.#hooks.defaultWriteConcern();
        if (writeConcern !== undefined) out.append("writeConcern", writeConcern);
      }
    }
    const preference = options.readPreference ?? primaryRead;
    if (preference.mode !== "primary")
      out.append("$readPreference", {
        mode: preference.mode,
        ...(preference.tags.length > 0 ? { tags: preference.tags } : {}),
        ...(preference.maxStalenessSeconds === undefined
          ? {}
          : { maxStalenessSeconds: preference.maxStalenessSeconds }),
      });
    if (deadline.bounded && options.withoutMaxTime !== true && !present("maxTimeMS"))
      out.append("maxTimeMS", Math.max(1, Math.ceil(deadline.left())));
    if (ctx.comment !== undefined && options.withComment === true && !present("comment"))
      out.append("comment", ctx.comment);
    const time = this.#hooks.clusterTime();
    if (time !== undefined) out.append("$clusterTime", time);
    return out.append("$db", db).finish();
  }

  /** One exchange with one member. The deadline also binds when the member hangs. */
  async #exchange(ctx: OperationContext, host: string, body: Doc, options: RunOptions): Promise<Doc> {
    const pool = this.monitor.pool(host);
    const connection = await bound(ctx.deadline, pool.acquire(), (late) => pool.release(late));
    let timer: NodeJS.Timeout | undefined;
    let expired = false;
    const onAbort = (): void => connection.close();
    if (ctx.deadline.bounded) {
      timer = setTimeout(() => {
        expired = true;
        connection.close();
      }, Math.max(0, ctx.deadline.left()) + graceMs);
    }
    ctx.signal?.addEventListener("abort", onAbort);
    try {
      return await connection.send(body, options.sequences);
    } catch (error) {
      if (expired) throw maxTimeExpired();
      if (ctx.signal?.aborted === true)
        throw new CommandError(279, "the client disconnected", { codeName: "ClientDisconnect" });
      throw error;
    } finally {
      clearTimeout(timer);
      ctx.signal?.removeEventListener("abort", onAbort);
      pool.release(connection);
    }
  }

  async run(ctx: OperationContext, db: string, fields: Fields | Doc, options: RunOptions = {}): Promise<Doc> {
    const command = encode(fields);
    const preference = options.readPreference ?? primaryRead;
    const mayRepeat = options.idempotent === true || (options.retryableWrite === true && isRetryableSession(ctx));
    const selectionEnd = performance.now() + serverSelectionMs;
    for (let attempt = 1; ; attempt++) {
      const host =
        options.host ?? (await this.monitor.select(ctx, preference, Math.max(1, selectionEnd - performance.now())));
      const body = this.#body(ctx, db, command, options, ctx.deadline);
      let reply: Doc;
      try {
        reply = await this.#exchange(ctx, host, body, options);
      } catch (error) {
        if (!(error instanceof NetworkError)) throw error;
        this.monitor.onNetworkError(host);
        // Statements of a transaction are never sent twice; its end may be.
        const inTransaction = ctx.inTransaction && this.#isShard && options.commit !== true;
        const again =
          options.host === undefined && (error.beforeSending || (mayRepeat && !inTransaction && attempt < attempts));
        if (again) ctx.deadline.check();
        if (again && performance.now() < selectionEnd) continue;
        throw new CommandError(errorCode.HostUnreachable, `${this.id}: ${error.message}`, {
          cause: error,
          labels: networkLabels(ctx, options),
        });
      }
      this.#hooks.gossip(ctx, reply);
      if (ctx.inTransaction && this.#isShard && options.withoutSession !== true && options.recovering !== true)
        this.#hooks.onTransactionReply(ctx, this.id, reply);
      if ((reply.number("ok") ?? 0) === 1 || reply.bool("ok") === true) {
        const concern = reply.doc("writeConcernError")?.number("code");
        if (concern !== undefined && isNotPrimary(concern)) this.monitor.onNotPrimary(host);
        return options.withHost === true ? reply.with({ $host: host }) : reply;
      }
      const code = reply.number("code") ?? 0;
      if (isNotPrimary(code)) {
        this.monitor.onNotPrimary(host);
        const again =
          options.host === undefined &&
          (!(ctx.inTransaction && this.#isShard) || options.commit === true) &&
          (isRefusedBeforeStart(code) || mayRepeat) &&
          attempt < attempts + 4;
        if (again && performance.now() < selectionEnd) {
          if (preference.mode !== "primary") await delay(20);
          continue;
        }
      } else if (isRetryable(code) && mayRepeat && attempt < attempts && !ctx.inTransaction) continue;
      if (options.returnErrors === true) return reply;
      throw CommandError.fromReply(reply);
    }
  }

  async readAll(ctx: OperationContext, db: string, command: Fields | Doc, options: RunOptions = {}): Promise<Doc[]> {
    const first = await this.run(ctx, db, command, { idempotent: true, ...options, withHost: true });
    const host = first.string("$host");
    const out: Doc[] = [];
    let cursor = first.doc("cursor");
    let batch = cursor?.docs("firstBatch") ?? [];
    for (;;) {
      for (const doc of batch) out.push(doc);
      const id = cursor?.find("id");
      if (id === undefined || id.bigint() === 0n) return out;
      const ns = cursor?.string("ns") ?? "";
      const reply = await this.run(
        ctx,
        db,
        { getMore: id, collection: ns.slice(ns.indexOf(".") + 1) },
        { ...(host === undefined ? {} : { host }), withoutSession: options.withoutSession === true },
      );
      cursor = reply.doc("cursor");
      batch = cursor?.docs("nextBatch") ?? [];
    }
  }

  close(): void {
    this.monitor.close();
  }
}

/** Waits for a promise no longer than the deadline; a result that comes later goes to `late`. */
export async function bound<T>(deadline: Deadline, promise: Promise<T>, late: (value: T) => void): Promise<T> {
  if (!deadline.bounded) return promise;
  let timer: NodeJS.Timeout | undefined;
  let over = false;
  const limit = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => {
        over = true;
        reject(maxTimeExpired());
      },
      Math.max(0, deadline.left()),
    );
  });
  promise.then(
    (value) => {
      if (over) late(value);
    },
    () => {},
  );
  try {
    return await Promise.race([promise, limit]);
  } finally {
    clearTimeout(timer);
  }
}

/** A client's read concern; one that names a time alone means level local. */
function withLevel(readConcern: Doc | undefined): Doc | undefined {
  return readConcern === undefined || readConcern.has("level") ? readConcern : readConcern.with({ level: "local" });
}

function isRetryableSession(ctx: OperationContext): boolean {
  return ctx.session?.txnNumber !== undefined && !ctx.session.inTransaction;
}

function networkLabels(ctx: OperationContext, options: RunOptions): string[] {
  if (ctx.inTransaction) return [options.commit === true ? "RetryableWriteError" : "TransientTransactionError"];
  return options.retryableWrite === true && isRetryableSession(ctx) ? ["RetryableWriteError"] : [];
}

/** The config servers: one replica set, read from its primary or, without one, from the nearest member. */
export class ConfigGroup extends ReplicaSetGroup implements ConfigServers {
  find(
    ctx: OperationContext,
    namespace: { db: string; collection: string },
    query: { filter?: Fields | Doc; sort?: Fields; projection?: Fields; limit?: number },
  ): Promise<Doc[]> {
    const command: Fields = {
      find: namespace.collection,
      filter: query.filter ?? {},
      sort: query.sort,
      projection: query.projection,
      limit: query.limit,
      batchSize: 100_000,
      readConcern: { level: "majority" },
    };
    return this.readAll(ctx, namespace.db, command, {
      withoutSession: true,
      readPreference: this.monitor.hasPrimary ? { mode: "primaryPreferred", tags: [] } : nearestRead,
    });
  }
}

/** `shardVersion` of an unsharded collection. */
export const unshardedVersion: Fields = {
  e: new Value(bsonType.objectId, Buffer.alloc(12), 0, 12),
  t: new Value(bsonType.timestamp, Buffer.alloc(8), 0, 8),
  v: new Value(bsonType.timestamp, Buffer.alloc(8), 0, 8),
};
