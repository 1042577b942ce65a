/** find, getMore, killCursors, count, distinct. */
import { compareValues } from "../bson/compare.ts";
import { bsonType, Doc, DocWriter, encode, type Fields, Value } from "../bson/document.ts";
import type { CollectionRouting } from "../catalog/entries.ts";
import type { ClusterRouter } from "../cluster-router.ts";
import { type AuthenticatedUser, type CommandContext, OperationContext, type Reply, typeName } from "../context.ts";
import { MergedCursor, RemoteCursor, SingleCursor, sortDirections } from "../cursors/remote.ts";
import { cursorNotFound, cursorReply, type RouterCursor } from "../cursors/store.ts";
import { CommandError, errorCode } from "../errors.ts";
import type { RunOptions } from "../router.ts";
import { snapshotTime } from "../transactions/transactions.ts";
import type { CommandTable } from "./registry.ts";
import { runViewAggregate } from "./views.ts";

export const routerOf = (ctx: CommandContext): ClusterRouter => ctx.router as ClusterRouter;

/** First batch without a size. */
const defaultBatch = 101;

/** Options of a routed read. */
export function readOptions(ctx: CommandContext): RunOptions {
  return {
    idempotent: true,
    readPreference: ctx.readPreference,
    withReadConcern: true,
    withHost: true,
  };
}

/** The point in time of a snapshot read, as the reply's cursor names it. */
export function snapshotExtra(options: RunOptions): Readonly<Record<string, Value>> | undefined {
  const time = options.readConcern === undefined ? undefined : encode(options.readConcern).find("atClusterTime");
  return time === undefined ? undefined : { atClusterTime: time };
}

/** Read concern snapshot over several shards needs one point in time for all. */
export function withSnapshot(ctx: CommandContext, options: RunOptions): RunOptions {
  if (ctx.inTransaction || ctx.readConcern?.string("level") !== "snapshot") return options;
  if (ctx.readConcern.has("atClusterTime")) return options;
  const time = snapshotTime(ctx);
  return time === undefined
    ? options
    : { ...options, readConcern: ctx.readConcern.without("afterClusterTime").with({ atClusterTime: time }) };
}

function integer(body: Doc, name: string, command: string): number {
  const value = body.find(name);
  if (value === undefined) return 0;
  if (!value.isNumber())
    throw new CommandError(
      errorCode.TypeMismatch,
      `BSON field '${command}.${name}' is the wrong type '${typeName(value.type)}', expected types '[long, int, decimal, double']`,
    );
  const n = value.number();
  if (n < 0) throw new CommandError(51024, `BSON field '${name}' value must be >= 0, actual value '${n}'`);
  return Math.trunc(n);
}

function objectField(body: Doc, name: string, command: string): Doc | undefined {
  const value = body.find(name);
  if (value === undefined || value.type === bsonType.null) return undefined;
  if (!value.isObject())
    throw new CommandError(
      errorCode.TypeMismatch,
      `BSON field '${command}.${name}' is the wrong type '${typeName(value.type)}', expected type 'object'`,
    );
  return value.doc();
}

/** Registers a cursor unless it is exhausted after its first batch, and makes the reply. */
export async function firstBatch(
  ctx: CommandContext,
  ns: string,
  cursor: RouterCursor,
  size: number | undefined,
  options: { single?: boolean; noTimeout?: boolean } = {},
): Promise<Doc> {
  const batch =
    size === 0 ? { docs: [], exhausted: false } : await cursor.next(ctx, size === undefined ? defaultBatch : size);
  if (options.single === true && !batch.exhausted) {
    await cursor.kill();
    return cursorReply(0n, ns, "firstBatch", batch);
  }
  if (batch.exhausted) return cursorReply(0n, ns, "firstBatch", batch);
  const id = routerOf(ctx).cursors.add(ctx, ns, cursor, options.noTimeout === true);
  return cursorReply(id, ns, "firstBatch", batch);
}

/** The reply of the only shard, with the router's cursor id in place of the shard's. */
export function passThrough(ctx: CommandContext, reply: Doc, remote: () => RouterCursor, ns?: string): Doc {
  const cursor = reply.doc("cursor");
  const id = cursor?.find("id");
  if (cursor === undefined || id === undefined) return reply;
  const open = id.bigint() !== 0n;
  if (!open && ns === undefined) return reply;
  const name = ns ?? cursor.string("ns") ?? "";
  const own = open ? routerOf(ctx).cursors.add(ctx, name, remote(), ctx.body.bool("noCursorTimeout") === true) : 0n;
  return reply.with({ cursor: cursor.with({ id: own, ns: name }) });
}

async function find(ctx: CommandContext): Promise<Reply> {
  const router = routerOf(ctx);
  const ns = ctx.namespace();
  const filter = objectField(ctx.body, "filter", "FindCommandRequest") ?? Doc.empty;
  const sort = objectField(ctx.body, "sort", "FindCommandRequest");
  const collation = objectField(ctx.body, "collation", "FindCommandRequest");
  const skip = integer(ctx.body, "skip", "FindCommandRequest");
  const limit = integer(ctx.body, "limit", "FindCommandRequest");
  const batchSize = ctx.body.has("batchSize") ? integer(ctx.body, "batchSize", "FindCommandRequest") : undefined;
  const singleBatch = ctx.body.bool("singleBatch") === true;
  const command = ctx.command();
  try {
    return await router.retryStale(ctx, ns, async () => {
      const database = await router.catalog.database(ctx, ctx.db);
      if (database === undefined) return emptyCursor(ns);
      const routing = await router.catalog.collection(ctx, ns);
      const shards = router.shardsOf(routing, database, filter, collation);
      const options = readOptions(ctx);
      if (shards.length === 1) {
        const id = shards[0] as string;
        const shard = await router.shard(ctx, id);
        const version = router.versionOf(routing, id, database);
        const reply = await shard.run(ctx, ctx.db, command, { ...options, version });
        return passThrough(ctx, reply, () => {
          const remote = new RemoteCursor(ctx, shard, ctx.db, reply);
          while (remote.shift() !== undefined);
          return new SingleCursor(remote);
        });
      }
      const sorted = sort !== undefined && !sort.isEmpty() && !sort.has("$natural");
      const wanted = limit > 0 ? limit + skip : 0;
      const fields: Record<string, Fields[string]> = {
        skip: undefined,
        singleBatch: undefined,
        limit: wanted > 0 ? Value.of(BigInt(wanted)) : undefined,
        batchSize: singleBatch && wanted > 0 ? wanted : batchSize === undefined ? undefined : batchSize + skip,
      };
      if (sorted) fields.projection = sortKeyProjection(ctx.body.doc("projection"));
      const toShards = command.with(fields);
      const snapshot = withSnapshot(ctx, options);
      const partialAllowed = ctx.body.bool("allowPartialResults") === true;
      const { cursors, partial } = await openOn(ctx, routing, shards, toShards, snapshot, partialAllowed);
      const cursor = new MergedCursor(cursors, {
        directions: sorted ? sortDirections(sort) : undefined,
        extra: snapshotExtra(snapshot),
        skip,
        limit,
        partial,
      });
      return firstBatch(ctx, ns, cursor, batchSize, {
        single: singleBatch,
        noTimeout: ctx.body.bool("noCursorTimeout") === true,
      });
    });
  } catch (error) {
    const view = viewOf(error);
    if (view === undefined) throw error;
    return runViewAggregate(ctx, view, findAsPipeline(ctx, filter, sort, skip, limit), {
      collation,
      batchSize,
      singleBatch,
    });
  }
}

function sortKeyProjection(projection: Doc | undefined): Doc {
  const out = new DocWriter();
  if (projection !== undefined) out.all(projection);
  return out.append("$sortKey", { $meta: "sortKey" }).finish();
}

/** The stages that do what a find does. */
function findAsPipeline(ctx: CommandContext, filter: Doc, sort: Doc | undefined, skip: number, limit: number): Doc[] {
  const stages: Fields[] = [{ $match: filter }];
  if (sort !== undefined && !sort.isEmpty()) stages.push({ $sort: sort });
  if (skip > 0) stages.push({ $skip: skip });
  if (limit > 0) stages.push({ $limit: limit });
  const projection = ctx.body.doc("projection");
  if (projection !== undefined && !projection.isEmpty()) stages.push({ $project: projection });
  return stages.map(encode);
}

/** `resolvedView` of the error that a shard gives for a view it cannot resolve alone. */
export function viewOf(error: unknown): Doc | undefined {
  return error instanceof CommandError && error.code === errorCode.CommandOnShardedViewNotSupportedOnMongod
    ? error.reply?.doc("resolvedView")
    : undefined;
}

export function emptyCursor(ns: string): Doc {
  return cursorReply(0n, ns, "firstBatch", { docs: [], exhausted: true });
}

/** Opens cursors on several shards. When one fails the others are closed and its error is thrown. */
export async function openOn(
  ctx: CommandContext,
  routing: CollectionRouting | undefined,
  shards: readonly string[],
  command: Doc,
  options: RunOptions,
  partialAllowed = false,
): Promise<{ cursors: RemoteCursor[]; partial: boolean }> {
  const router = routerOf(ctx);
  const settled = await Promise.allSettled(
    shards.map(async (id) => {
      const shard = await router.shard(ctx, id);
      const database = routing === undefined ? await router.catalog.database(ctx, ctx.db) : undefined;
      const version = router.versionOf(routing, id, database);
      const reply = await shard.run(ctx, ctx.db, command, { ...options, version });
      return new RemoteCursor(ctx, shard, ctx.db, reply);
    }),
  );
  const cursors: RemoteCursor[] = [];
  const errors: unknown[] = [];
  for (const result of settled)
    if (result.status === "fulfilled") cursors.push(result.value);
    else errors.push(result.reason);
  const isDown = (error: unknown): boolean =>
    error instanceof CommandError &&
    (error.code === errorCode.FailedToSatisfyReadPreference ||
      error.code === errorCode.HostUnreachable ||
      error.code === errorCode.MaxTimeMSExpired);
  if (errors.length > 0 && !(partialAllowed && errors.every(isDown))) {
    await Promise.all(cursors.map((cursor) => cursor.kill()));
    throw errors.find((error) => !(error instanceof CommandError && error.code === 0)) ?? errors[0];
  }
  return { cursors, partial: errors.length > 0 };
}

async function getMore(ctx: CommandContext): Promise<Reply> {
  const router = routerOf(ctx);
  const value = ctx.body.find("getMore");
  if (value?.type !== bsonType.long && !(value?.isNumber() === true && value.type === bsonType.int))
    throw new CommandError(
      errorCode.TypeMismatch,
      `BSON field 'getMore.getMore' is the wrong type '${typeName(value?.type ?? 0)}', expected type 'long'`,
    );
  const collection = ctx.body.find("collection");
  if (collection === undefined)
    throw new CommandError(40414, "BSON field 'getMore.collection' is missing but a required field");
  if (collection.type !== bsonType.string)
    throw new CommandError(
      errorCode.TypeMismatch,
      `BSON field 'getMore.collection' is the wrong type '${typeName(collection.type)}', expected type 'string'`,
    );
  const id = value.bigint();
  const batchSize = integer(ctx.body, "batchSize", "GetMoreCommandRequest");
  const entry = router.cursors.find(id);
  if (entry === undefined) throw cursorNotFound(id);
  const ns = `${ctx.db}.${collection.text()}`;
  if (entry.ns !== ns)
    throw new CommandError(
      errorCode.Unauthorized,
      `Requested getMore on namespace '${ns}', but cursor belongs to a different namespace ${entry.ns}`,
    );
  if (!sameUsers(entry.users, ctx.client.users.values()))
    throw new CommandError(errorCode.Unauthorized, `cursor id ${id} was not created by the authenticated user`);
  if (entry.sessionKey !== ctx.session?.key)
    throw new CommandError(
      50738,
      `Cannot run getMore on cursor ${id}, which was ${entry.sessionKey === undefined ? "not created" : "created"} in ${
        entry.sessionKey === undefined ? "a" : "another"
      } session`,
    );
  if (entry.txnNumber !== (ctx.inTransaction ? ctx.session?.txnNumber : undefined))
    throw new CommandError(
      entry.txnNumber === undefined ? 50740 : 50741,
      `Cannot run getMore on cursor ${id} ${entry.txnNumber === undefined ? "inside" : "outside"} a transaction`,
    );
  if (entry.busy) throw new CommandError(12051, `cursor id ${id} is already in use`, { codeName: "CursorInUse" });
  entry.busy = true;
  try {
    const { cursor } = entry;
    if (cursor instanceof SingleCursor) cursor.awaitMs = ctx.body.number("maxTimeMS");
    const batch = await cursor.next(ctx, batchSize);
    if (batch.exhausted) router.cursors.remove(id);
    return cursorReply(batch.exhausted ? 0n : id, ns, "nextBatch", batch);
  } catch (error) {
    if (!(error instanceof CommandError && error.code === errorCode.MaxTimeMSExpired)) {
      router.cursors.remove(id);
      await entry.cursor.kill();
    }
    throw error;
  } finally {
    entry.busy = false;
    entry.lastUsed = performance.now();
  }
}

function sameUsers(a: Iterable<AuthenticatedUser>, b: Iterable<AuthenticatedUser>): boolean {
  const names = (users: Iterable<AuthenticatedUser>): string =>
    JSON.stringify([...users].map((user) => [user.user, user.db]).sort());
  return names(a) === names(b);
}

async function killCursors(ctx: CommandContext): Promise<Reply> {
  const collection = ctx.collection();
  const ids = ctx.body.array("cursors");
  if (ids === undefined)
    throw new CommandError(40414, "BSON field 'killCursors.cursors' is missing but a required field");
  const killed: bigint[] = [];
  const notFound: bigint[] = [];
  for (const value of ids) {
    const id = value.bigint();
    const entry = routerOf(ctx).cursors.find(id);
    const own = entry !== undefined && sameUsers(entry.users, ctx.client.users.values());
    if (own && entry.ns === `${ctx.db}.${collection}` && (await routerOf(ctx).cursors.kill(id))) killed.push(id);
    else notFound.push(id);
  }
  return { cursorsKilled: killed, cursorsNotFound: notFound, cursorsAlive: [], cursorsUnknown: [] };
}

async function count(ctx: CommandContext): Promise<Reply> {
  const router = routerOf(ctx);
  const ns = ctx.namespace();
  const query = objectField(ctx.body, "query", "CountCommandRequest") ?? Doc.empty;
  const collation = objectField(ctx.body, "collation", "CountCommandRequest");
  const limitValue = ctx.body.find("limit");
  const limit = limitValue === undefined ? 0 : Math.abs(Math.trunc(limitValue.number()));
  const skip = integer(ctx.body, "skip", "CountCommandRequest");
  const command = ctx.command();
  try {
    return await router.retryStale(ctx, ns, async () => {
      const database = await router.catalog.database(ctx, ctx.db);
      if (database === undefined) return { n: 0 };
      const routing = await router.catalog.collection(ctx, ns);
      const shards = router.shardsOf(routing, database, query, collation);
      const single = shards.length === 1;
      const toShards = single
        ? command
        : command.with({ skip: undefined, limit: limit > 0 ? Value.of(BigInt(limit + skip)) : undefined });
      const replies = await each(ctx, routing, shards, toShards, withSnapshot(ctx, readOptions(ctx)));
      let n = 0;
      for (const { reply } of replies) n += reply.number("n") ?? 0;
      if (!single) {
        n = Math.max(0, n - skip);
        if (limit > 0) n = Math.min(n, limit);
      }
      return { n };
    });
  } catch (error) {
    const view = viewOf(error);
    if (view === undefined) throw error;
    const stages: Fields[] = [{ $match: query }];
    if (skip > 0) stages.push({ $skip: skip });
    if (limit > 0) stages.push({ $limit: limit });
    stages.push({ $count: "n" });
    const reply = await runViewAggregate(ctx, view, stages.map(encode), { collation });
    return { n: reply.doc("cursor")?.docs("firstBatch")[0]?.number("n") ?? 0 };
  }
}

/** Runs a command on several shards at once; throws the first error. */
export async function each(
  ctx: CommandContext,
  routing: CollectionRouting | undefined,
  shards: readonly string[],
  command: Doc,
  options: RunOptions,
): Promise<readonly { shard: string; reply: Doc }[]> {
  const router = routerOf(ctx);
  const database = await router.catalog.database(ctx, ctx.db);
  const settled = await Promise.allSettled(
    shards.map(async (id) => {
      const shard = await router.shard(ctx, id);
      const version = router.versionOf(routing, id, database);
      return { shard: id, reply: await shard.run(ctx, ctx.db, command, { ...options, version }) };
    }),
  );
  for (const result of settled) if (result.status === "rejected") throw result.reason;
  return settled.map((result) => (result as PromiseFulfilledResult<{ shard: string; reply: Doc }>).value);
}

async function distinct(ctx: CommandContext): Promise<Reply> {
  const router = routerOf(ctx);
  const ns = ctx.namespace();
  const query = objectField(ctx.body, "query", "distinct") ?? Doc.empty;
  const collation = objectField(ctx.body, "collation", "distinct");
  const command = ctx.command();
  try {
    return await router.retryStale(ctx, ns, async () => {
      const database = await router.catalog.database(ctx, ctx.db);
      if (database === undefined) return { values: [] };
      const routing = await router.catalog.collection(ctx, ns);
      const shards = router.shardsOf(routing, database, query, collation);
      const replies = await each(ctx, routing, shards, command, withSnapshot(ctx, readOptions(ctx)));
      if (replies.length === 1) return (replies[0] as { reply: Doc }).reply;
      const values = replies.flatMap(({ reply }) => [...(reply.array("values") ?? [])]);
      const effective = collation ?? routing?.defaultCollation;
      if (effective !== undefined && effective.string("locale") !== "simple")
        return { values: await distinctCollated(ctx, values, effective) };
      values.sort(compareValues);
      return { values: values.filter((value, i) => i === 0 || compareValues(values[i - 1] as Value, value) !== 0) };
    });
  } catch (error) {
    const view = viewOf(error);
    if (view === undefined) throw error;
    const key = ctx.body.string("key") ?? "";
    const stages: Fields[] = [
      { $match: query },
      { $unwind: { path: `$${key}`, preserveNullAndEmptyArrays: false } },
      { $group: { _id: null, values: { $addToSet: `$${key}` } } },
    ];
    const reply = await runViewAggregate(ctx, view, stages.map(encode), { collation });
    return { values: reply.doc("cursor")?.docs("firstBatch")[0]?.find("values") ?? [] };
  }
}

/** Equality under a collation is a server's business: one shard makes the set. */
async function distinctCollated(ctx: CommandContext, values: readonly Value[], collation: Doc): Promise<Value[]> {
  const router = routerOf(ctx);
  const database = await router.catalog.databaseOrCreate(ctx, ctx.db);
  const shard = await router.shard(ctx, database.primary);
  const docs = values.map((v) => encode({ v: encode({ $literal: v }) }));
  const plain = new OperationContext(router, { deadline: ctx.deadline });
  const rows = await shard.readAll(plain, ctx.db, {
    aggregate: 1,
    pipeline: [{ $documents: docs }, { $group: { _id: "$v" } }, { $sort: { _id: 1 } }],
    collation,
    cursor: {},
  });
  return rows.map((row) => row.find("_id") ?? Value.null);
}

const onCollection = (actions: readonly string[]) => (ctx: CommandContext) => [
  { resource: { db: ctx.db, collection: ctx.collection() }, actions },
];

export const findCommands: CommandTable = {
  find: { requires: onCollection(["find"]), inTransaction: true, read: true, handler: find },
  getMore: { requires: "authenticated", inTransaction: true, read: true, handler: getMore },
  killCursors: { requires: "authenticated", inTransaction: true, handler: killCursors },
  count: { requires: onCollection(["find"]), read: true, handler: count },
  distinct: { requires: onCollection(["find"]), inTransaction: true, read: true, handler: distinct },
};
