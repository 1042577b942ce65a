/** The router: config servers, shards, catalog, cluster time, and dispatch with versions. */
import type { Doc, Fields, Value } from "./bson/document.ts";
import { Value as BsonValue, bsonType, encode } from "./bson/document.ts";
import { ClusterCatalog } from "./catalog/catalog.ts";
import type { CollectionRouting, DatabaseEntry } from "./catalog/entries.ts";
import { allCommands } from "./commands/index.ts";
import type { CommandRegistry, PrivilegeCheck } from "./commands/registry.ts";
import { type ClientConnection, Deadline, OperationContext } from "./context.ts";
import { CursorStore } from "./cursors/store.ts";
import { isStale } from "./dispatch/retry.ts";
import { ConfigGroup, type Hooks, ReplicaSetGroup, unshardedVersion } from "./dispatch/server-group.ts";
import { CommandError, errorCode } from "./errors.ts";
import { log } from "./log.ts";
import type { Router, RouterInfo, RunOptions, ShardReply } from "./router.ts";
import { queryRanges } from "./targeting/query-ranges.ts";
import { parseShardKey } from "./targeting/shard-key.ts";
import { Transactions } from "./transactions/transactions.ts";
import type { ConnectionOptions } from "./wire/connection.ts";

/** How often an operation is sent again after its routing was found to be old. */
const staleRetries = 12;

export class ClusterRouter implements Router {
  readonly config: ConfigGroup;
  readonly catalog: ClusterCatalog;
  readonly commands: CommandRegistry = allCommands();
  readonly cursors = new CursorStore();
  readonly transactions = new Transactions();
  readonly info: RouterInfo;
  readonly connections = new Map<number, ClientConnection>();
  #clusterTime: Value | undefined;
  #onShutdown: () => void = () => {};
  #privilegeCheck: PrivilegeCheck | undefined;
  readonly #userListeners = new Set<() => void>();
  readonly #shards = new Map<string, { readonly host: string; readonly group: ReplicaSetGroup }>();
  readonly #options: ConnectionOptions;
  readonly #hooks: Hooks;
  #defaults: { readonly loaded: Promise<void>; readonly since: number; loading: boolean } | undefined;
  #defaultReadConcern: Doc | undefined;
  #defaultWriteConcern: Doc | undefined;

  constructor(info: RouterInfo, options: ConnectionOptions) {
    this.info = info;
    this.#options = options;
    this.#hooks = {
      clusterTime: () => this.#clusterTime,
      gossip: (ctx, reply) => this.#gossip(ctx, reply),
      transactionFields: (ctx, shardId) => this.transactions.of(ctx)?.fieldsFor(shardId) ?? {},
      onTransactionReply: (ctx, shardId, reply) => this.transactions.of(ctx)?.onReply(shardId, reply),
      defaultReadConcern: () => this.#defaultReadConcern,
      defaultWriteConcern: () => this.#defaultWriteConcern,
    };
    const { setName, hosts } = parseConnectionString(info.configdb);
    this.config = new ConfigGroup("config", setName, hosts, options, this.#hooks, false);
    this.catalog = new ClusterCatalog(this.config, () => this.background());
  }

  get clusterTime(): Value | undefined {
    return this.#clusterTime;
  }

  #gossip(ctx: OperationContext, reply: Doc): void {
    const time = reply.find("$clusterTime");
    if (time !== undefined) this.advanceClusterTime(time);
    const operationTime = reply.find("operationTime");
    if (
      operationTime?.type === bsonType.timestamp &&
      (ctx.operationTime === undefined || rawTime(operationTime) > rawTime(ctx.operationTime))
    )
      ctx.operationTime = operationTime;
  }

  /** Takes over a cluster time (`{clusterTime, signature}`) that is higher than the known one. */
  advanceClusterTime(time: Value): void {
    if (!time.isObject()) return;
    const stamp = time.doc().find("clusterTime");
    if (stamp?.type !== bsonType.timestamp) return;
    // A time more than a year ahead is refused by every server: never spread one.
    if (rawTime(stamp) >> 32n > BigInt(Math.floor(Date.now() / 1000) + 31_536_000)) return;
    const known = this.#clusterTime?.doc().find("clusterTime");
    if (known === undefined || rawTime(stamp) > rawTime(known)) this.#clusterTime = time.detached();
  }

  background(): OperationContext {
    return new OperationContext(this);
  }

  /** Cluster-wide read and write concern (setDefaultRWConcern), looked up every 30 s. */
  async loadDefaults(ctx: OperationContext): Promise<void> {
    const known = this.#defaults;
    if (known !== undefined && performance.now() - known.since < 30_000) {
      if (known.loading) await known.loaded;
      return;
    }
    const loaded = this.#loadDefaults(ctx);
    const entry = { loaded, since: performance.now(), loading: known === undefined };
    this.#defaults = entry;
    // Only the first command waits: later ones go on with what is known while the config servers are asked.
    if (entry.loading) await loaded;
    entry.loading = false;
  }

  async #loadDefaults(ctx: OperationContext): Promise<void> {
    const asking = new OperationContext(this, { deadline: ctx.deadline });
    const doc = this.config
      .find(asking, { db: "config", collection: "settings" }, { filter: { _id: "ReadWriteConcernDefaults" } })
      .then(
        (docs) => docs[0],
        () => undefined,
      );
    const found = await doc;
    this.#defaultReadConcern = found?.doc("defaultReadConcern")?.detached();
    this.#defaultWriteConcern = found?.doc("defaultWriteConcern")?.detached();
  }

  /** Makes the next command look the cluster-wide defaults up again. */
  invalidateDefaults(): void {
    this.#defaults = undefined;
  }

  async shard(ctx: OperationContext, id: string): Promise<ReplicaSetGroup> {
    if (id === "config") return this.config;
    let entry = (await this.catalog.shards(ctx)).find((shard) => shard.id === id);
    if (entry === undefined) {
      this.catalog.invalidateShards();
      entry = (await this.catalog.shards(ctx)).find((shard) => shard.id === id);
    }
    if (entry === undefined) throw new CommandError(errorCode.ShardNotFound, `Shard ${id} not found`);
    const known = this.#shards.get(id);
    const { setName, hosts } = parseConnectionString(entry.host);
    if (known !== undefined && (known.host === entry.host || known.group.monitor.setName === setName))
      return known.group;
    known?.group.close();
    const group = new ReplicaSetGroup(id, setName, hosts, this.#options, this.#hooks, true);
    this.#shards.set(id, { host: entry.host, group });
    return group;
  }

  /** Connects to all shards ahead of the first command. */
  async warm(): Promise<void> {
    const ctx = this.background();
    for (const shard of await this.catalog.shards(ctx)) await this.shard(ctx, shard.id);
  }

  versionOf(routing: CollectionRouting | undefined, shard: string, database: DatabaseEntry | undefined): Fields {
    if (routing !== undefined) {
      const v = Buffer.alloc(8);
      v.writeBigInt64LE(routing.table.shardVersions.get(shard) ?? 0n);
      return {
        shardVersion: {
          e: routing.table.version.epoch,
          t: routing.table.version.timestamp,
          v: new BsonValue(bsonType.timestamp, v, 0, 8),
        },
      };
    }
    if (database?.version === undefined) return {};
    return { shardVersion: unshardedVersion, databaseVersion: database.version };
  }

  /**
   * Runs `attempt` again after an error that says that the router's metadata is old. Inside a transaction only shards that
   * this statement brought in may be asked again; otherwise the transaction is over (TransientTransactionError).
   */
  async retryStale<T>(ctx: OperationContext, ns: string, attempt: () => Promise<T>): Promise<T> {
    for (let round = 1; ; round++) {
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof CommandError)) throw error;
        const transaction = ctx.inTransaction ? this.transactions.of(ctx) : undefined;
        const snapshot =
          transaction !== undefined &&
          transaction.statement === 0 &&
          (error.code === errorCode.SnapshotTooOld || error.code === errorCode.SnapshotUnavailable);
        if ((!isStale(error) && !snapshot) || round > staleRetries) throw error;
        this.noteStale(error, ns);
        if (transaction !== undefined) {
          const fresh = transaction.newParticipants();
          if (transaction.statement > 0 && fresh.length === 0) {
            error.labels.add("TransientTransactionError");
            throw error;
          }
          await this.abortOn(ctx, fresh);
          for (const shard of fresh) transaction.forget(shard);
        }
        if (round > 3) await new Promise((resolve) => setTimeout(resolve, Math.min(50 * round, 500)));
        ctx.deadline.check();
      }
    }
  }

  /** Aborts the transaction on some shards, whatever they answer; waits no longer than two seconds. */
  async abortOn(of: OperationContext, shards: readonly string[]): Promise<void> {
    const ctx = new OperationContext(this, { session: of.session, deadline: Deadline.in(2_000) });
    await Promise.all(
      shards.map(async (id) => {
        try {
          const shard = await this.shard(ctx, id);
          await shard.run(ctx, "admin", { abortTransaction: 1 }, { returnErrors: true });
        } catch (error) {
          log("D1", "TXN", "Abort on a shard failed", { shard: id, error: String(error) });
        }
      }),
    );
  }

  /** Forgets what a stale error is about. */
  noteStale(error: CommandError, ns: string): void {
    const wanted = error.reply?.string("ns") ?? (typeof error.extra.ns === "string" ? error.extra.ns : ns);
    const db = error.reply?.string("db") ?? dbOf(wanted);
    if (error.code === errorCode.StaleDbVersion) this.catalog.invalidateDatabase(db);
    else if (error.code === errorCode.ShardNotFound) {
      this.catalog.invalidateShards();
      this.catalog.invalidateDatabase(dbOf(ns));
      this.catalog.invalidateCollection(ns);
    } else {
      this.catalog.invalidateCollection(wanted);
      if (wanted !== ns) this.catalog.invalidateCollection(ns);
      // A collection that lives on another primary shard now answers with StaleConfig as well.
      this.catalog.invalidateDatabase(dbOf(ns));
    }
  }

  async onPrimaryShard(
    ctx: OperationContext,
    db: string,
    command: Fields | Doc,
    options: RunOptions & { ns?: string; create?: boolean } = {},
  ): Promise<Doc> {
    return this.retryStale(ctx, options.ns ?? `${db}.`, async () => {
      const database =
        options.create === true ? await this.catalog.databaseOrCreate(ctx, db) : await this.catalog.database(ctx, db);
      if (database === undefined) throw new CommandError(errorCode.NamespaceNotFound, `database ${db} not found`);
      const shard = await this.shard(ctx, database.primary);
      const version: Fields =
        database.version === undefined
          ? {}
          : options.ns === undefined
            ? { databaseVersion: database.version }
            : { shardVersion: unshardedVersion, databaseVersion: database.version };
      return shard.run(ctx, db, command, { ...options, version: { ...version, ...options.version } });
    });
  }

  async onShardsOwning(
    ctx: OperationContext,
    ns: string,
    command: Fields | Doc,
    options: RunOptions & { query?: Doc; collation?: Doc | undefined } = {},
  ): Promise<readonly ShardReply[]> {
    const db = dbOf(ns);
    const body = encode(command);
    return this.retryStale(ctx, ns, async () => {
      const routing = await this.catalog.collection(ctx, ns);
      const database = await this.catalog.database(ctx, db);
      if (database === undefined) throw new CommandError(errorCode.NamespaceNotFound, `database ${db} not found`);
      const shards = this.shardsOf(routing, database, options.query, options.collation);
      return this.#onEach(shards, async (id) => {
        const shard = await this.shard(ctx, id);
        return shard.run(ctx, db, body, { ...options, version: this.versionOf(routing, id, database) });
      });
    });
  }

  async onAllShards(
    ctx: OperationContext,
    db: string,
    command: Fields | Doc,
    options: RunOptions = {},
  ): Promise<readonly ShardReply[]> {
    const body = encode(command);
    const shards = (await this.catalog.shards(ctx)).map((shard) => shard.id);
    return this.#onEach(shards, async (id) => (await this.shard(ctx, id)).run(ctx, db, body, options));
  }

  async #onEach(shards: readonly string[], run: (shard: string) => Promise<Doc>): Promise<readonly ShardReply[]> {
    const settled = await Promise.allSettled(shards.map((shard) => run(shard)));
    const out: ShardReply[] = [];
    let failed: unknown;
    settled.forEach((result, i) => {
      const shard = shards[i] as string;
      if (result.status === "fulfilled") out.push({ shard, reply: result.value });
      else if (failed === undefined || (result.reason instanceof CommandError && isStale(result.reason)))
        failed = result.reason;
    });
    if (failed !== undefined) throw failed;
    return out;
  }

  /** Shards that a query may find documents on; all owners without one. Never empty. */
  shardsOf(
    routing: CollectionRouting | undefined,
    database: DatabaseEntry,
    query: Doc | undefined,
    collation?: Doc | undefined,
  ): string[] {
    if (routing === undefined) return [database.primary];
    if (query === undefined) return routing.table.shards();
    const ranges = queryRanges(parseShardKey(routing.key), query, targetingCollation(routing, collation));
    const all = routing.table.shards();
    if (ranges === undefined) return all;
    const found = routing.table.shardsFor(ranges);
    // A query that nothing can match still goes to one shard, whose answer has the right form.
    return found.length > 0 ? found : all.slice(0, 1);
  }

  async targets(ctx: OperationContext, ns: string, query: Doc, collation?: Doc): Promise<readonly string[]> {
    const routing = await this.catalog.collection(ctx, ns);
    const database = await this.catalog.database(ctx, dbOf(ns));
    return database === undefined ? [] : this.shardsOf(routing, database, query, collation);
  }

  setPrivilegeCheck(check: PrivilegeCheck): void {
    this.#privilegeCheck = check;
  }

  get privilegeCheck(): PrivilegeCheck | undefined {
    return this.#privilegeCheck;
  }

  usersChanged(): void {
    for (const listener of this.#userListeners) listener();
  }

  onUsersChanged(listener: () => void): void {
    this.#userListeners.add(listener);
  }

  /** Aborts the transaction that a command belongs to, after an error in it. */
  async abortImplicitly(ctx: OperationContext): Promise<void> {
    const transaction = this.transactions.of(ctx);
    if (transaction === undefined || transaction.outcome !== "open" || transaction.txnNumber !== ctx.session?.txnNumber)
      return;
    transaction.outcome = "aborted";
    await this.abortOn(new OperationContext(this, { session: ctx.session }), [...transaction.participants.keys()]);
  }

  /** Ends sessions by id: aborts what they left open. */
  async endSession(idPrefix: string): Promise<void> {
    for (const [key, transaction] of this.transactions.matching(idPrefix)) {
      if (transaction.outcome === "open" && transaction.participants.size > 0 && transaction.session !== undefined) {
        const session = { ...transaction.session, txnNumber: transaction.txnNumber, inTransaction: true };
        await this.abortImplicitly(new OperationContext(this, { session }));
      }
      this.transactions.forgetSession(key);
    }
  }

  onClientGone(client: ClientConnection): void {
    this.connections.delete(client.id);
  }

  onShutdown(listener: () => void): void {
    this.#onShutdown = listener;
  }

  shutdown(): void {
    setImmediate(() => this.#onShutdown());
  }

  close(): void {
    this.config.close();
    for (const { group } of this.#shards.values()) group.close();
  }
}

const rawTime = (value: Value): bigint => value.bytes.readBigUInt64LE(value.start);

export function dbOf(ns: string): string {
  const dot = ns.indexOf(".");
  return dot < 0 ? ns : ns.slice(0, dot);
}

export function collOf(ns: string): string {
  return ns.slice(ns.indexOf(".") + 1);
}

/** Splits `set/host,host`. */
export function parseConnectionString(text: string): { setName: string; hosts: string[] } {
  const slash = text.indexOf("/");
  return { setName: text.slice(0, Math.max(0, slash)), hosts: text.slice(slash + 1).split(",") };
}

/** Is the collation that a query uses another than the simple one? */
export function targetingCollation(routing: CollectionRouting, collation: Doc | undefined): boolean {
  const used = collation === undefined || collation.isEmpty() ? routing.defaultCollation : collation;
  return used !== undefined && used.string("locale") !== "simple";
}
