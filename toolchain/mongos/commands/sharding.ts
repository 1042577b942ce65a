/** Sharding of databases and collections, and their chunks. */

import { compareKeys } from "../bson/compare.ts";
import { type Doc, type Fields, Value } from "../bson/document.ts";
import type { CollectionRouting } from "../catalog/entries.ts";
import type { Chunk } from "../catalog/routing-table.ts";
import type { CommandContext } from "../context.ts";
import { CommandError, errorCode } from "../errors.ts";
import { keyValue, parseShardKey } from "../targeting/shard-key.ts";
import {
  askConfig,
  docArgument,
  freshRouting,
  given,
  governed,
  isDatabaseName,
  keyDocument,
  majority,
  type Namespace,
  parseNamespace,
  passOn,
  plainRefusal,
  stringArgument,
  targetNamespace,
} from "./arguments.ts";
import type { CommandTable } from "./registry.ts";

async function enableSharding(ctx: CommandContext): Promise<Fields> {
  const db = stringArgument(ctx, "enableSharding");
  if (!isDatabaseName(db)) throw new CommandError(errorCode.InvalidNamespace, `invalid db name specified: ${db}`);
  await askConfig(ctx, {
    _configsvrCreateDatabase: db,
    primaryShardId: ctx.body.find("primaryShard"),
    writeConcern: majority,
  });
  ctx.router.catalog.invalidateDatabase(db);
  return {};
}

async function shardCollection(ctx: CommandContext): Promise<Fields> {
  const target = targetNamespace(ctx);
  const key = docArgument(ctx, "key");
  if (
    (target.db === "config" && target.collection !== "system.sessions") ||
    target.db === "admin" ||
    target.db === "local"
  )
    throw new CommandError(
      errorCode.IllegalOperation,
      target.db === "config"
        ? "only special collections in the config db may be sharded"
        : `can't shard collections in database ${target.db}`,
    );
  const command: Fields = {
    _shardsvrCreateCollection: target.collection,
    shardKey: key,
    unique: ctx.body.bool("unique") ?? false,
    ...given(
      ctx,
      "numInitialChunks",
      "presplitHashedZones",
      "collation",
      "timeseries",
      "implicitlyCreateIndex",
      "enforceUniquenessCheck",
    ),
    writeConcern: majority,
  };
  await ctx.router.onPrimaryShard(ctx, target.db, command, { create: true, idempotent: true });
  ctx.router.catalog.invalidateCollection(target.ns);
  return { collectionsharded: target.ns };
}

async function refineCollectionShardKey(ctx: CommandContext): Promise<Fields> {
  const target = targetNamespace(ctx);
  const newShardKey = docArgument(ctx, "key");
  await freshRouting(ctx, target);
  const command: Fields = {
    _shardsvrRefineCollectionShardKey: target.collection,
    newShardKey,
    writeConcern: majority,
  };
  await ctx.router.onPrimaryShard(ctx, target.db, command, { idempotent: true });
  ctx.router.catalog.invalidateCollection(target.ns);
  return {};
}

async function reshardCollection(ctx: CommandContext): Promise<Fields> {
  const target = targetNamespace(ctx);
  const key = docArgument(ctx, "key");
  await freshRouting(ctx, target);
  const database = await ctx.router.catalog.database(ctx, target.db);
  if (database === undefined) throw new CommandError(errorCode.NamespaceNotFound, `database ${target.db} not found`);
  const shard = await ctx.router.shard(ctx, database.primary);
  await shard.run(
    ctx,
    "admin",
    {
      _shardsvrReshardCollection: target.ns,
      key,
      ...given(ctx, "unique", "collation", "zones", "numInitialChunks"),
      databaseVersion: database.version,
      writeConcern: majority,
    },
    { idempotent: true },
  );
  ctx.router.catalog.invalidateCollection(target.ns);
  return {};
}

/** Abort, commit and cleanup of a running resharding are up to the config servers. */
const reshardingControl = (internal: string) => async (ctx: CommandContext) => {
  const target = targetNamespace(ctx);
  await askConfig(ctx, { [internal]: target.ns, writeConcern: majority });
  ctx.router.catalog.invalidateCollection(target.ns);
  return {};
};

/** The key that an equality query names in full; undefined when it does not. */
function keyOfQuery(routing: CollectionRouting, query: Doc): readonly Value[] | undefined {
  const key: Value[] = [];
  for (const field of parseShardKey(routing.key).fields) {
    let value = query.find(field.path) ?? query.path(field.path);
    if (value?.isObject()) {
      const inner = value.doc().first();
      if (inner?.name === "$eq") value = inner;
      else if (inner?.name.startsWith("$") === true) return undefined;
    }
    if (value === undefined || value.isArray()) return undefined;
    key.push(keyValue(field, value));
  }
  return key;
}

/** A key given as such (bounds, middle): the pattern's fields and no others, in any order. */
function exactKey(routing: CollectionRouting, doc: Doc): readonly Value[] | undefined {
  const fields = routing.key.elements();
  const key = fields.flatMap((field) => doc.find(field.name) ?? []);
  return key.length === fields.length && doc.elements().length === fields.length ? key : undefined;
}

const text = (routing: CollectionRouting, key: readonly Value[]) => keyDocument(routing.key, key).toString();

function boundsOf(ctx: CommandContext): readonly [Doc, Doc] | undefined {
  const [min, max, ...more] = ctx.body.docs("bounds");
  return min === undefined || max === undefined || more.length > 0 ? undefined : [min, max];
}

/** The chunk that `find` or `bounds` names, as moveChunk, split and clearJumboFlag take them. */
function namedChunk(ctx: CommandContext, routing: CollectionRouting): Chunk {
  const find = ctx.body.doc("find");
  if (find !== undefined) {
    const key = keyOfQuery(routing, find);
    if (key === undefined) throw plainRefusal(`no shard key found in chunk query ${find}`);
    return routing.table.chunkFor(key);
  }
  const bounds = boundsOf(ctx);
  const min = bounds === undefined ? undefined : exactKey(routing, bounds[0]);
  const max = bounds === undefined ? undefined : exactKey(routing, bounds[1]);
  if (min === undefined || max === undefined)
    throw plainRefusal(
      `shard key bounds ${ctx.body.docs("bounds").join(", ")} are not valid for shard key pattern ${routing.key}`,
    );
  const chunk = routing.table.chunkFor(min);
  if (compareKeys(chunk.min, min) !== 0 || compareKeys(chunk.max, max) !== 0)
    throw plainRefusal(`no chunk found with the shard key bounds [${text(routing, min)}, ${text(routing, max)})`);
  return chunk;
}

const hasFind = (ctx: CommandContext) => ctx.body.doc("find")?.isEmpty() === false;
const hasBounds = (ctx: CommandContext) => (ctx.body.array("bounds")?.length ?? 0) > 0;

async function split(ctx: CommandContext): Promise<Fields> {
  const target = targetNamespace(ctx);
  const routing = await freshRouting(ctx, target);
  const middleGiven = ctx.body.doc("middle");
  const ways = [hasFind(ctx), hasBounds(ctx), middleGiven !== undefined && !middleGiven.isEmpty()].filter(
    Boolean,
  ).length;
  if (ways > 1) throw plainRefusal("cannot specify more than one of find, bounds, or middle when splitting");
  if (ways === 0) throw plainRefusal("need to specify find, bounds, or middle when splitting");
  if (hasBounds(ctx) && boundsOf(ctx) === undefined)
    throw plainRefusal("the bounds to split must be an array of two documents, the lower and the upper bound");

  let chunk: Chunk;
  let middle: readonly Value[];
  if (ways === 1 && middleGiven !== undefined && !hasFind(ctx) && !hasBounds(ctx)) {
    const key = exactKey(routing, middleGiven);
    if (key === undefined)
      throw plainRefusal(`new split key ${middleGiven} is not valid for shard key pattern ${routing.key}`);
    chunk = routing.table.chunkFor(key);
    middle = key;
    if (compareKeys(chunk.min, key) === 0 || compareKeys(chunk.max, key) === 0)
      throw plainRefusal(
        `new split key ${middleGiven} is a boundary key of existing chunk [${text(routing, chunk.min)},${text(routing, chunk.max)})`,
      );
  } else {
    chunk = namedChunk(ctx, routing);
    middle = await medianKey(ctx, target, routing, chunk);
  }

  const shard = await ctx.router.shard(ctx, chunk.shard);
  await shard.run(ctx, "admin", {
    splitChunk: target.ns,
    from: chunk.shard,
    keyPattern: routing.key,
    epoch: routing.table.version.epoch,
    timestamp: routing.table.version.timestamp,
    min: keyDocument(routing.key, chunk.min),
    max: keyDocument(routing.key, chunk.max),
    splitKeys: [keyDocument(routing.key, middle)],
  });
  ctx.router.catalog.invalidateCollection(target.ns);
  return {};
}

/** The key in the middle of a chunk's documents, as its shard finds it. */
async function medianKey(
  ctx: CommandContext,
  target: Namespace,
  routing: CollectionRouting,
  chunk: Chunk,
): Promise<readonly Value[]> {
  const shard = await ctx.router.shard(ctx, chunk.shard);
  const reply = await shard.run(
    ctx,
    "admin",
    {
      splitVector: target.ns,
      keyPattern: routing.key,
      min: keyDocument(routing.key, chunk.min),
      max: keyDocument(routing.key, chunk.max),
      force: true,
    },
    { idempotent: true },
  );
  const [first] = reply.docs("splitKeys");
  const key = first === undefined ? undefined : exactKey(routing, first);
  if (key === undefined)
    throw new CommandError(87, "Unable to find median in chunk because chunk is indivisible.", {
      codeName: "CannotSplit",
    });
  return key;
}

async function moveChunk(ctx: CommandContext): Promise<Fields> {
  const started = performance.now();
  const target = targetNamespace(ctx);
  const routing = await freshRouting(ctx, target);
  const to = ctx.body.string("to") ?? "";
  if (to === "") throw plainRefusal("you have to specify where you want to move the chunk");
  const toShard = await shardNamed(ctx, to);
  if (toShard === undefined)
    throw new CommandError(
      errorCode.ShardNotFound,
      `Could not move chunk in '${target.ns}' to shard '${to}' because that shard does not exist`,
    );
  if (hasFind(ctx) === hasBounds(ctx))
    throw plainRefusal("need to specify either a find query, or both lower and upper bounds.");
  const chunk = namedChunk(ctx, routing);
  await askConfig(ctx, {
    _configsvrMoveRange: target.ns,
    toShard,
    min: keyDocument(routing.key, chunk.min),
    max: keyDocument(routing.key, chunk.max),
    waitForDelete: ctx.body.bool("_waitForDelete") === true || ctx.body.bool("waitForDelete") === true,
    ...(ctx.body.has("forceJumbo") ? { forceJumbo: ctx.body.bool("forceJumbo") === true } : {}),
    writeConcern: majority,
  });
  ctx.router.catalog.invalidateCollection(target.ns);
  return { millis: Math.round(performance.now() - started) };
}

/** A shard's name from its name or its connection string, as `to` takes both. */
async function shardNamed(ctx: CommandContext, given: string): Promise<string | undefined> {
  const match = async () =>
    (await ctx.router.catalog.shards(ctx)).find((shard) => shard.id === given || shard.host === given)?.id;
  const known = await match();
  if (known !== undefined) return known;
  ctx.router.catalog.invalidateShards();
  return match();
}

async function moveRange(ctx: CommandContext): Promise<Fields> {
  const target = targetNamespace(ctx);
  const toShard = stringArgument(ctx, "toShard");
  if (!ctx.body.has("min") && !ctx.body.has("max"))
    throw new CommandError(errorCode.InvalidOptions, "moveRange needs min, max or both");
  await freshRouting(ctx, target);
  await askConfig(ctx, {
    _configsvrMoveRange: target.ns,
    toShard,
    ...given(ctx, "min", "max", "forceJumbo", "waitForDelete", "secondaryThrottle"),
    writeConcern: majority,
  });
  ctx.router.catalog.invalidateCollection(target.ns);
  return {};
}

async function mergeChunks(ctx: CommandContext): Promise<Doc> {
  const target = targetNamespace(ctx);
  const bounds = boundsOf(ctx);
  if (bounds === undefined)
    throw new CommandError(errorCode.BadValue, "The bounds argument for the mergeChunks command must have length 2");
  const routing = await freshRouting(ctx, target);
  const min = exactKey(routing, bounds[0]);
  const max = exactKey(routing, bounds[1]);
  if (min === undefined || max === undefined)
    throw plainRefusal(
      `shard key bounds [${bounds[0]},${bounds[1]}) are not valid for shard key pattern ${routing.key}`,
    );
  const shard = await ctx.router.shard(ctx, routing.table.chunkFor(min).shard);
  const reply = await shard.run(ctx, "admin", {
    mergeChunks: target.ns,
    bounds: [keyDocument(routing.key, min), keyDocument(routing.key, max)],
    epoch: routing.table.version.epoch,
    timestamp: routing.table.version.timestamp,
  });
  ctx.router.catalog.invalidateCollection(target.ns);
  return passOn(reply);
}

async function splitVector(ctx: CommandContext): Promise<Doc> {
  const target = targetNamespace(ctx);
  ctx.router.catalog.invalidateCollection(target.ns);
  if ((await ctx.router.catalog.collection(ctx, target.ns)) !== undefined)
    throw new CommandError(errorCode.IllegalOperation, "can't do command: splitVector on sharded collection");
  return passOn(await ctx.router.onPrimaryShard(ctx, target.db, ctx.command(), { ns: target.ns, idempotent: true }));
}

async function clearJumboFlag(ctx: CommandContext): Promise<Fields> {
  const target = targetNamespace(ctx);
  const routing = await freshRouting(ctx, target);
  if (hasFind(ctx) === hasBounds(ctx))
    throw new CommandError(
      errorCode.InvalidOptions,
      `need to specify either a find query, or both lower and upper bounds.`,
    );
  const chunk = namedChunk(ctx, routing);
  await askConfig(ctx, {
    _configsvrClearJumboFlag: target.ns,
    epoch: routing.table.version.epoch,
    minKey: keyDocument(routing.key, chunk.min),
    maxKey: keyDocument(routing.key, chunk.max),
    writeConcern: majority,
  });
  ctx.router.catalog.invalidateCollection(target.ns);
  return {};
}

async function setAllowMigrations(ctx: CommandContext): Promise<Fields> {
  const target = targetNamespace(ctx);
  await freshRouting(ctx, target);
  const command: Fields = {
    _shardsvrSetAllowMigrations: target.collection,
    allowMigrations: ctx.body.bool("allowMigrations") === true,
    writeConcern: majority,
  };
  await ctx.router.onPrimaryShard(ctx, target.db, command, { idempotent: true });
  ctx.router.catalog.invalidateCollection(target.ns);
  return {};
}

async function getShardVersion(ctx: CommandContext): Promise<Fields> {
  const given = stringArgument(ctx, ctx.body.first()?.name ?? "getShardVersion");
  if (!given.includes(".")) {
    const database = await ctx.router.catalog.database(ctx, given);
    if (database === undefined) throw new CommandError(errorCode.NamespaceNotFound, `database ${given} not found`);
    return { primaryShard: database.primary, version: database.version };
  }
  const { ns } = parseNamespace(given);
  const routing = await ctx.router.catalog.collection(ctx, ns);
  if (routing === undefined) throw new CommandError(errorCode.NamespaceNotSharded, `Collection ${ns} is not sharded.`);
  const version = Buffer.alloc(8);
  version.writeBigUInt64LE(routing.table.collectionVersion);
  const bounds = routing.table.chunks.map(({ min, max }) => [
    keyDocument(routing.key, min),
    keyDocument(routing.key, max),
  ]);
  return {
    version: new Value(0x11, version, 0, 8),
    versionEpoch: routing.table.version.epoch,
    versionTimestamp: routing.table.version.timestamp,
    ...(ctx.body.bool("fullMetadata") === true ? { chunks: bounds } : {}),
  };
}

async function movePrimary(ctx: CommandContext): Promise<Fields> {
  const db = stringArgument(ctx, ctx.body.first()?.name ?? "movePrimary");
  if (!isDatabaseName(db)) throw new CommandError(errorCode.InvalidNamespace, `invalid db name specified: ${db}`);
  if (db === "admin" || db === "config" || db === "local")
    throw new CommandError(errorCode.InvalidOptions, `Can't move primary for ${db} database`);
  const to = ctx.body.string("to") ?? "";
  if (to === "") throw new CommandError(errorCode.InvalidOptions, "you have to specify where you want to move it");
  ctx.router.catalog.invalidateDatabase(db);
  const database = await ctx.router.catalog.database(ctx, db);
  if (database === undefined) throw new CommandError(errorCode.NamespaceNotFound, `database ${db} not found`);
  const toShard = await shardNamed(ctx, to);
  if (toShard === undefined)
    throw new CommandError(
      errorCode.ShardNotFound,
      `Could not move database '${db}' to shard '${to}' because the shard does not exist`,
    );
  const shard = await ctx.router.shard(ctx, database.primary);
  await shard.run(
    ctx,
    "admin",
    { _shardsvrMovePrimary: db, to: toShard, databaseVersion: database.version, writeConcern: majority },
    { idempotent: true },
  );
  ctx.router.catalog.invalidateDatabase(db);
  return {};
}

async function flushRouterConfig(ctx: CommandContext): Promise<Fields> {
  const what = ctx.body.first();
  const named = what !== undefined && !what.isNumber() && what.type === 0x02 ? what.text() : undefined;
  if (named === undefined) ctx.router.catalog.clear();
  else if (named.includes(".")) ctx.router.catalog.invalidateCollection(named);
  else ctx.router.catalog.invalidateDatabase(named);
  return { flushed: true };
}

const admin = (name: string, handler: (ctx: CommandContext) => Promise<Fields | Doc>, ...aliases: string[]) =>
  governed(name, { adminOnly: true, handler, ...(aliases.length > 0 ? { aliases } : {}) });

export const shardingCommands: CommandTable = {
  enableSharding: admin("enableSharding", enableSharding, "enablesharding"),
  shardCollection: admin("shardCollection", shardCollection, "shardcollection"),
  refineCollectionShardKey: admin("refineCollectionShardKey", refineCollectionShardKey),
  reshardCollection: admin("reshardCollection", reshardCollection),
  abortReshardCollection: admin("abortReshardCollection", reshardingControl("_configsvrAbortReshardCollection")),
  commitReshardCollection: admin("commitReshardCollection", reshardingControl("_configsvrCommitReshardCollection")),
  cleanupReshardCollection: admin("cleanupReshardCollection", reshardingControl("_configsvrCleanupReshardCollection")),
  split: admin("split", split),
  moveChunk: admin("moveChunk", moveChunk, "movechunk"),
  moveRange: admin("moveRange", moveRange),
  mergeChunks: admin("mergeChunks", mergeChunks),
  splitVector: governed("splitVector", { handler: splitVector }),
  clearJumboFlag: admin("clearJumboFlag", clearJumboFlag),
  setAllowMigrations: admin("setAllowMigrations", setAllowMigrations),
  getShardVersion: admin("getShardVersion", getShardVersion, "getshardversion"),
  movePrimary: admin("movePrimary", movePrimary, "moveprimary"),
  flushRouterConfig: admin("flushRouterConfig", flushRouterConfig, "flushrouterconfig"),
};
