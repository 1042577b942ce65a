/** Databases, collections and indexes: made, changed, listed and measured. */

import { grantedTo } from "../auth/authorization.ts";
import { onDatabase, seesDatabase, visibleCollections } from "../auth/privileges.ts";
import { compareValues } from "../bson/compare.ts";
import { bsonType, type Doc, DocWriter, type Encodable, encode, type Fields, Value } from "../bson/document.ts";
import type { CommandContext } from "../context.ts";
import { isStale } from "../dispatch/retry.ts";
import { CommandError, errorCode } from "../errors.ts";
import type { RunOptions } from "../router.ts";
import {
  connectionStrings,
  governed,
  isDatabaseName,
  majority,
  mergeRaw,
  parseNamespace,
  passOn,
  stringArgument,
  sum,
  targetNamespace,
  whole,
} from "./arguments.ts";
import { routerOf } from "./find.ts";
import type { CommandTable } from "./registry.ts";

/** Databases whose collections live on the config servers. */
const onConfigServers = (db: string) => db === "admin" || db === "config";

async function databaseExists(ctx: CommandContext): Promise<boolean> {
  return (await ctx.router.catalog.database(ctx, ctx.db)) !== undefined;
}

/** Forgets what is cached of a collection that a command made, dropped or changed. */
function forget(ctx: CommandContext, ...namespaces: string[]): void {
  for (const ns of namespaces) ctx.router.catalog.invalidateCollection(ns);
}

async function create(ctx: CommandContext): Promise<Fields | Doc> {
  const ns = ctx.namespace();
  const reply = await ctx.router
    .onPrimaryShard(ctx, ctx.db, ctx.command(), {
      create: true,
      withWriteConcern: true,
      ...(ctx.inTransaction ? { ns } : {}),
    })
    .catch(async (error: unknown) => {
      if (!(error instanceof CommandError) || error.code !== errorCode.NamespaceExists || ctx.inTransaction)
        throw error;
      // A mongos lets a collection be made again as it is.
      const existing = await optionsOf(ctx, ctx.collection());
      if (existing !== undefined && sameOptions(ctx.command(), existing)) return undefined;
      throw error;
    });
  forget(ctx, ns);
  return reply === undefined ? {} : passOn(reply);
}

async function optionsOf(ctx: CommandContext, collection: string): Promise<Doc | undefined> {
  const reply = await ctx.router.onPrimaryShard(
    ctx,
    ctx.db,
    { listCollections: 1, filter: { name: collection }, cursor: {} },
    { idempotent: true },
  );
  return reply.doc("cursor")?.docs("firstBatch")[0]?.doc("options");
}

/** Options of `create` that make no other collection of it. */
const notStored: ReadonlySet<string> = new Set(["create", "comment", "idIndex", "autoIndexId"]);

/** Does `create` ask for the options that a collection has? Nested documents may leave out what the server fills in. */
function sameOptions(command: Doc, existing: Doc): boolean {
  const asked = command.elements().filter((element) => !notStored.has(element.name));
  if (existing.elements().some(({ name }) => !asked.some((element) => element.name === name))) return false;
  return asked.every((element) => {
    const found = existing.find(element.name);
    if (found === undefined) return element.type === bsonType.bool && !element.truthy();
    if (!element.isObject() || !found.isObject()) return compareValues(element, found) === 0;
    const inside = found.doc();
    return element
      .doc()
      .elements()
      .every((field) => {
        const other = inside.find(field.name);
        return other !== undefined && compareValues(field, other) === 0;
      });
  });
}

async function drop(ctx: CommandContext): Promise<Fields | Doc> {
  const collection = ctx.collection();
  if (onConfigServers(ctx.db))
    throw new CommandError(
      errorCode.IllegalOperation,
      `Cannot drop collection in '${ctx.db}' database in sharded cluster`,
    );
  ctx.router.catalog.invalidateDatabase(ctx.db);
  if (!(await databaseExists(ctx))) return { info: "database does not exist" };
  const reply = await ctx.router.onPrimaryShard(
    ctx,
    ctx.db,
    { _shardsvrDropCollection: collection, collectionUUID: ctx.body.find("collectionUUID"), writeConcern: majority },
    { idempotent: true },
  );
  forget(ctx, ctx.namespace());
  return passOn(reply);
}

async function dropDatabase(ctx: CommandContext): Promise<Fields | Doc> {
  if (onConfigServers(ctx.db)) throw new CommandError(errorCode.IllegalOperation, `Cannot drop the ${ctx.db} database`);
  if (ctx.body.number("dropDatabase") !== 1)
    throw new CommandError(errorCode.BadValue, "must pass 1 as the 'dropDatabase' parameter");
  ctx.router.catalog.invalidateDatabase(ctx.db);
  if (!(await databaseExists(ctx))) return { info: "database does not exist" };
  const reply = await ctx.router.onPrimaryShard(
    ctx,
    ctx.db,
    { _shardsvrDropDatabase: 1, writeConcern: majority },
    { idempotent: true },
  );
  ctx.router.catalog.invalidateDatabase(ctx.db);
  return passOn(reply);
}

async function renameCollection(ctx: CommandContext): Promise<Fields> {
  const from = targetNamespace(ctx);
  const to = parseNamespace(stringArgument(ctx, "to"));
  if (from.ns === to.ns) throw new CommandError(errorCode.IllegalOperation, "Can't rename a collection to itself");
  if (onConfigServers(from.db) || onConfigServers(to.db))
    throw new CommandError(errorCode.IllegalOperation, "Can't rename collections of the admin or config database");
  ctx.router.catalog.invalidateDatabase(from.db);
  const source = await ctx.router.catalog.database(ctx, from.db);
  if (source === undefined) throw new CommandError(errorCode.NamespaceNotFound, `database ${from.db} not found`);
  if (from.db !== to.db) {
    const target = await ctx.router.catalog.databaseOrCreate(ctx, to.db);
    if (target.primary !== source.primary)
      throw new CommandError(125, "Source and destination collections must be on same shard", {
        codeName: "CommandFailed",
      });
  }
  await ctx.router.onPrimaryShard(
    ctx,
    from.db,
    {
      _shardsvrRenameCollection: from.collection,
      to: to.ns,
      dropTarget: ctx.body.bool("dropTarget") === true,
      stayTemp: ctx.body.bool("stayTemp") === true,
      collectionUUID: ctx.body.find("collectionUUID"),
      writeConcern: majority,
    },
    { idempotent: true },
  );
  forget(ctx, from.ns, to.ns);
  return {};
}

/** The command under another name, acknowledged by a majority, on the primary shard, which asks the others itself. */
const coordinated = (internal: string) => async (ctx: CommandContext) => {
  const collection = ctx.collection();
  const command = new DocWriter().append(internal, collection);
  for (const element of ctx.command().elements()) if (element.name !== ctx.body.first()?.name) command.element(element);
  command.append("writeConcern", majority);
  if (onConfigServers(ctx.db)) return passOn(await ctx.router.onPrimaryShard(ctx, ctx.db, ctx.command()));
  if (!(await databaseExists(ctx)))
    throw new CommandError(errorCode.NamespaceNotFound, `ns not found ${ctx.namespace()}`);
  const reply = await ctx.router.onPrimaryShard(ctx, ctx.db, command.finish());
  forget(ctx, ctx.namespace());
  return passOn(reply);
};

async function createIndexes(ctx: CommandContext): Promise<Fields> {
  const ns = ctx.namespace();
  // Read anew: another router may have dropped the database, and then it is made again.
  ctx.router.catalog.invalidateDatabase(ctx.db);
  await ctx.router.catalog.databaseOrCreate(ctx, ctx.db);
  const replies = await routerOf(ctx).retryStale(ctx, ns, async () => {
    const answers = await ctx.router.onShardsOwning(ctx, ns, ctx.command(), {
      withWriteConcern: true,
      returnErrors: true,
    });
    // A collection that another router has sharded meanwhile shows itself by its version: not a refusal to pass on.
    for (const { reply } of answers) {
      if (reply.bool("ok") === true) continue;
      const error = CommandError.fromReply(reply);
      if (isStale(error)) throw error;
    }
    return answers;
  });
  return mergeRaw(ctx, replies);
}

/** One batch that holds everything: these lists are short. */
const wholeList = { batchSize: 0x7fffffff };

function wholeCursor(ctx: CommandContext, ns: string, documents: readonly Encodable[]): Fields {
  const wanted = ctx.body.doc("cursor");
  if (ctx.body.has("cursor") && wanted === undefined)
    throw new CommandError(errorCode.TypeMismatch, "field 'cursor' must be of type Object");
  return { cursor: { id: 0n, ns, firstBatch: documents } };
}

async function listCollections(ctx: CommandContext): Promise<Fields> {
  const ns = `${ctx.db}.$cmd.listCollections`;
  let command = ctx.command().without("authorizedCollections").with({ cursor: wholeList });
  const granted = await grantedTo(ctx);
  if (!granted.covers([onDatabase(ctx.db, "listCollections")])) {
    const visible = visibleCollections(granted.privileges, ctx.db);
    const ownOnly = ctx.body.bool("authorizedCollections") === true && ctx.body.bool("nameOnly") === true;
    if (!ownOnly || visible.length === 0) throw granted.refusal(ctx);
    if (visible !== "all") {
      const filter = { name: { $in: visible } };
      const asked = ctx.body.doc("filter");
      command = command.with({ filter: asked === undefined ? filter : { $and: [filter, asked] } });
    }
  }
  if (!(await databaseExists(ctx))) return wholeCursor(ctx, ns, []);
  const reply = await ctx.router.onPrimaryShard(ctx, ctx.db, command, {
    idempotent: true,
    readPreference: ctx.readPreference,
  });
  return wholeCursor(ctx, ns, reply.doc("cursor")?.array("firstBatch") ?? []);
}

async function listIndexes(ctx: CommandContext): Promise<Fields> {
  const ns = ctx.namespace();
  const command = ctx.command().with({ cursor: wholeList });
  const options: RunOptions = { idempotent: true, readPreference: ctx.readPreference };
  const missing = () => new CommandError(errorCode.NamespaceNotFound, `ns does not exist: ${ns}`);
  if (!(await databaseExists(ctx))) throw missing();
  const routing = await ctx.router.catalog.collection(ctx, ns);
  // Every shard that owns a chunk has all indexes; the one with the chunk from MinKey on answers for them.
  const fromMinKey = new DocWriter();
  for (const field of routing?.key.elements() ?? []) fromMinKey.append(field.name, Value.minKey);
  const [first] = await ctx.router.onShardsOwning(ctx, ns, command, {
    ...options,
    ...(routing === undefined ? {} : { query: fromMinKey.finish(), collation: encode({ locale: "simple" }) }),
  });
  const reply = first?.reply;
  if (reply === undefined) throw missing();
  return wholeCursor(ctx, ns, reply.doc("cursor")?.array("firstBatch") ?? []);
}

async function listDatabases(ctx: CommandContext): Promise<Fields> {
  const nameOnly = ctx.body.bool("nameOnly") === true;
  const granted = await grantedTo(ctx);
  const mayListAll = granted.covers([{ resource: { cluster: true }, actions: ["listDatabases"] }]);
  const authorizedOnly = ctx.body.bool("authorizedDatabases") ?? !mayListAll;
  if (!authorizedOnly && !mayListAll) throw granted.refusal(ctx);

  const command = ctx.command().without("authorizedDatabases", "nameOnly");
  // A shard that another router added a moment ago has databases, too.
  ctx.router.catalog.invalidateShards();
  const replies = [
    { shard: "config", reply: await ctx.router.config.run(ctx, "admin", command, { idempotent: true }) },
    ...(await ctx.router.onAllShards(ctx, "admin", command, { idempotent: true })),
  ];
  const sizes = new Map<string, Record<string, number>>();
  for (const { shard, reply } of replies)
    for (const entry of reply.docs("databases")) {
      const name = entry.string("name") ?? "";
      if (name === "local" || (name === "admin" && shard !== "config")) continue;
      if (shard === "config" && name !== "admin" && name !== "config") continue;
      const shards = sizes.get(name) ?? {};
      shards[shard] = entry.number("sizeOnDisk") ?? 0;
      sizes.set(name, shards);
    }
  const databases: Fields[] = [];
  let total = 0;
  for (const name of [...sizes.keys()].sort()) {
    if (authorizedOnly && !seesDatabase(granted.privileges, name)) continue;
    const shards = sizes.get(name) ?? {};
    const size = Object.values(shards).reduce((a, b) => a + b, 0);
    total += size;
    if (nameOnly) databases.push({ name });
    else {
      const perShard = Object.fromEntries(Object.entries(shards).map(([shard, bytes]) => [shard, BigInt(bytes)]));
      databases.push({ name, sizeOnDisk: BigInt(size), empty: size === 1, shards: perShard });
    }
  }
  if (nameOnly) return { databases };
  return { databases, totalSize: BigInt(total), totalSizeMb: BigInt(Math.trunc(total / (1024 * 1024))) };
}

/** Sizes that `scale` divides, and counts that it does not, in collStats. */
const scaledSizes = ["size", "storageSize", "freeStorageSize", "totalIndexSize", "totalSize"];
const counts = ["count", "numOrphanDocs"];
/** Fields of a shard's collStats that the merged reply takes from one shard, since they are alike on all. */
const sameEverywhere = ["userFlags", "systemFlags", "capped", "max", "wiredTiger", "clustered", "timeseries"];

function scaleOf(ctx: CommandContext): number {
  const scale = ctx.body.number("scale");
  if (scale === undefined) return 1;
  if (!(scale >= 1)) throw new CommandError(errorCode.BadValue, "scale has to be >= 1");
  return Math.trunc(scale);
}

async function collStats(ctx: CommandContext): Promise<Fields> {
  const ns = ctx.namespace();
  const scale = scaleOf(ctx);
  const database = await ctx.router.catalog.database(ctx, ctx.db);
  if (database === undefined)
    return {
      ...{ sharded: false, ns, size: 0, count: 0, storageSize: 0, totalSize: 0, nindexes: 0, totalIndexSize: 0 },
      ...{ indexDetails: {}, indexSizes: {}, scaleFactor: scale },
    };
  const replies = await ctx.router.onShardsOwning(ctx, ns, ctx.command().without("scale"), {
    idempotent: true,
    readPreference: ctx.readPreference,
  });
  // After the replies: they may have shown that what was known of the collection is old.
  const routing = await ctx.router.catalog.collection(ctx, ns);
  const stats = replies.map(({ reply }) => reply);
  const merged: Record<string, Encodable> =
    routing === undefined ? { sharded: false, primary: database.primary } : { sharded: true };
  for (const field of sameEverywhere) {
    const value = stats.find((one) => one.has(field))?.find(field);
    if (value !== undefined) merged[field] = value;
  }
  merged.ns = ns;
  for (const field of scaledSizes)
    if (stats.some((one) => one.has(field))) merged[field] = whole(Math.trunc(sum(stats, field) / scale));
  for (const field of counts) if (stats.some((one) => one.has(field))) merged[field] = whole(sum(stats, field));
  const indexSizes: Record<string, number> = {};
  for (const one of stats)
    for (const index of one.doc("indexSizes")?.elements() ?? [])
      indexSizes[index.name] = (indexSizes[index.name] ?? 0) + index.number();
  merged.indexSizes = Object.fromEntries(
    Object.entries(indexSizes).map(([name, bytes]) => [name, whole(Math.trunc(bytes / scale))]),
  );
  const count = sum(stats, "count");
  merged.avgObjSize = Value.double(count > 0 ? sum(stats, "size") / count : 0);
  merged.maxSize = Math.max(0, ...stats.map((one) => one.number("maxSize") ?? 0));
  merged.nindexes = Math.max(0, ...stats.map((one) => one.number("nindexes") ?? 0));
  merged.scaleFactor = scale;
  merged.nchunks = routing?.table.chunks.length ?? 1;
  merged.shards = Object.fromEntries(replies.map(({ shard, reply }) => [shard, passOn(reply)]));
  return merged;
}

const summed = [
  ...["collections", "views", "objects", "dataSize", "storageSize", "freeStorageSize", "totalFreeStorageSize"],
  ...["indexes", "indexSize", "indexFreeStorageSize", "totalSize", "fsUsedSize", "fsTotalSize"],
];

async function dbStats(ctx: CommandContext): Promise<Fields> {
  if (!isDatabaseName(ctx.db)) throw new CommandError(errorCode.InvalidNamespace, `Invalid database name: '${ctx.db}'`);
  const options: RunOptions = { idempotent: true, readPreference: ctx.readPreference };
  const replies = onConfigServers(ctx.db)
    ? [{ shard: "config", reply: await ctx.router.config.run(ctx, ctx.db, ctx.command(), options) }]
    : await ctx.router.onAllShards(ctx, ctx.db, ctx.command(), options);
  const hosts = await connectionStrings(ctx);
  const stats = replies.map(({ reply }) => reply);
  const objects = sum(stats, "objects");
  const merged: Record<string, Encodable> = {
    raw: Object.fromEntries(replies.map(({ shard, reply }) => [hosts.get(shard) ?? shard, passOn(reply)])),
    db: ctx.db,
  };
  for (const field of summed) if (stats.some((one) => one.has(field))) merged[field] = whole(sum(stats, field));
  merged.avgObjSize = Value.double(objects > 0 ? (sum(stats, "dataSize") * scaleOf(ctx)) / objects : 0);
  merged.scaleFactor = scaleOf(ctx);
  return merged;
}

async function dataSize(ctx: CommandContext): Promise<Fields> {
  const { ns } = targetNamespace(ctx);
  const started = performance.now();
  const replies = await ctx.router.onShardsOwning(ctx, ns, ctx.command(), { idempotent: true });
  const stats = replies.map(({ reply }) => reply);
  return {
    size: whole(sum(stats, "size")),
    numObjects: whole(sum(stats, "numObjects")),
    millis: Math.round(performance.now() - started),
    ...(stats.some((one) => one.has("estimate")) ? { estimate: stats[0]?.find("estimate") } : {}),
  };
}

async function validate(ctx: CommandContext): Promise<Fields> {
  const ns = ctx.namespace();
  if (!(await databaseExists(ctx)))
    throw new CommandError(errorCode.NamespaceNotFound, `Collection '${ns}' does not exist to validate.`);
  // Shards validate whatever the version: only what is known now says which of them have a part.
  forget(ctx, ns);
  const replies = await ctx.router.onShardsOwning(ctx, ns, ctx.command(), { idempotent: true });
  return {
    valid: replies.every(({ reply }) => reply.bool("valid") === true),
    raw: Object.fromEntries(replies.map(({ shard, reply }) => [shard, passOn(reply)])),
  };
}

async function convertToCapped(ctx: CommandContext): Promise<Doc> {
  const ns = ctx.namespace();
  forget(ctx, ns);
  if ((await ctx.router.catalog.collection(ctx, ns)) !== undefined)
    throw new CommandError(errorCode.IllegalOperation, `You can't convertToCapped a sharded collection`);
  return passOn(await ctx.router.onPrimaryShard(ctx, ctx.db, ctx.command(), { ns, withWriteConcern: true }));
}

async function compact(): Promise<never> {
  throw new CommandError(errorCode.CommandNotSupported, "compact not allowed through mongos");
}

/** Handlers check their collection's name by themselves; `listCollections` and `dropDatabase` have none. */
export const ddlCommands: CommandTable = {
  create: governed("create", { handler: create, write: true, inTransaction: true }),
  drop: governed("drop", { handler: drop, write: true }),
  dropDatabase: governed("dropDatabase", { handler: dropDatabase, write: true }),
  renameCollection: governed("renameCollection", { handler: renameCollection, adminOnly: true, write: true }),
  collMod: governed("collMod", { handler: coordinated("_shardsvrCollMod"), write: true }),
  createIndexes: governed("createIndexes", { handler: createIndexes, write: true, inTransaction: true }),
  dropIndexes: governed("dropIndexes", {
    handler: coordinated("_shardsvrDropIndexes"),
    aliases: ["deleteIndexes"],
    write: true,
  }),
  listCollections: { requires: "authenticated", handler: listCollections },
  listIndexes: governed("listIndexes", { handler: listIndexes }),
  listDatabases: { requires: "authenticated", handler: listDatabases, adminOnly: true },
  collStats: governed("collStats", { handler: collStats, aliases: ["collstats"] }),
  dbStats: governed("dbStats", { handler: dbStats, aliases: ["dbstats"] }),
  dataSize: governed("dataSize", { handler: dataSize, aliases: ["datasize"] }),
  validate: governed("validate", { handler: validate }),
  convertToCapped: governed("convertToCapped", { handler: convertToCapped, write: true }),
  compact: governed("compact", { handler: compact }),
};
