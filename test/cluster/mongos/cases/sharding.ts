// Sharding administration and the rules for unique indexes, as a real mongos answered them.
import { MaxKey, MinKey } from "mongodb";
import {
  admin,
  type CaseContext,
  config,
  db,
  fields,
  ok,
  type RouterCase,
  refused,
  routerCase,
  value,
  writeErrors,
} from "./case.ts";

const enable = admin((c) => ({ enableSharding: c.db.databaseName }), ok);

/** What the cases read of an entry of `config.collections`. */
interface ShardedEntry {
  readonly _id: string;
  readonly uuid?: unknown;
  readonly key?: unknown;
}

/** The chunks of a collection in the order of their ranges, on any version's metadata. */
export async function chunksOf(c: CaseContext, collection: string) {
  const entry = await c.config.collection<ShardedEntry>("collections").findOne({ _id: c.ns(collection) });
  const owner = { $or: [{ uuid: entry?.uuid }, { ns: c.ns(collection) }] };
  return c.config.collection("chunks").find(owner).sort({ min: 1 }).toArray();
}

const rangesOf = (c: CaseContext, collection: string) =>
  c.config
    .collection("tags")
    .find({ ns: c.ns(collection) }, { projection: { _id: 0, min: 1, max: 1, tag: 1 } })
    .sort({ min: 1 })
    .toArray();

const indexesOf = (c: CaseContext, collection: string) =>
  c.db
    .collection(collection)
    .indexes()
    .then((list) => list.map((i) => ({ key: i.key, unique: i.unique === true })));

const shard = (collection: string, key: object, more: object = {}) =>
  ((c) => ({ shardCollection: c.ns(collection), key, ...more })) as (c: CaseContext) => object;

const range = (collection: string, min: object, max: object, zone: string | null) =>
  ((c) => ({ updateZoneKeyRange: c.ns(collection), min, max, zone })) as (c: CaseContext) => object;

export const shardingCases: readonly RouterCase[] = [
  routerCase("hello", () => [
    admin(
      { hello: 1 },
      fields({
        msg: "isdbgrid",
        isWritablePrimary: true,
        maxBsonObjectSize: 16_777_216,
        maxWriteBatchSize: 100_000,
        setName: null,
        logicalSessionTimeoutMinutes: 30,
      }),
    ),
    admin({ isMaster: 1 }, fields({ msg: "isdbgrid", ismaster: true })),
    admin({ ping: 1 }, ok),
    admin({ isdbgrid: 1 }, fields({ isdbgrid: 1 })),
  ]),
  routerCase("not for mongos", () => [
    admin({ replSetGetStatus: 1 }, refused(null, null)),
    admin({ replSetGetConfig: 1 }, refused(59, "CommandNotFound")),
    admin({ noSuchCommandAtAll: 1 }, refused(59, "CommandNotFound")),
    db({ listShards: 1 }, refused(13, "Unauthorized")),
  ]),
  routerCase("listShards", ({ shards }) => [
    value(
      "listShards",
      async (c) => {
        const reply = await c.admin.command({ listShards: 1 });
        return reply.shards.map((s: { _id: string; state: number }) => ({ id: s._id, state: s.state }));
      },
      shards.map((id) => ({ id, state: 1 })),
    ),
    value("getShardMap", async (c) => Object.keys((await c.admin.command({ getShardMap: 1 })).map).sort(), [
      "config",
      ...shards,
    ]),
  ]),
  routerCase("enableSharding", () => [
    enable,
    enable,
    admin({ enableSharding: "admin" }, refused(72, "InvalidOptions")),
    admin({ enableSharding: "config" }, ok),
    admin({ enableSharding: "" }, refused(73, "InvalidNamespace")),
  ]),
  routerCase("shardCollection basics", (c0) => [
    enable,
    admin(shard("a", { k: 1 }), fields({ collectionsharded: c0.ns("a") })),
    admin(shard("a", { k: 1 }), fields({ collectionsharded: c0.ns("a") })),
    admin(shard("a", { k: 1, j: 1 }), refused(23, "AlreadyInitialized")),
    admin(shard("a", { k: 1 }, { unique: true }), refused(23, "AlreadyInitialized")),
    admin(shard("b", {}), refused(2, "BadValue")),
    admin(shard("b", { k: -1 }), refused(2, "BadValue")),
    admin(shard("b", { k: "text" }), refused(2, "BadValue")),
    admin(shard("b", { k: "hashed" }), fields({ collectionsharded: c0.ns("b") })),
    admin(shard("d", { k: "hashed" }, { unique: true }), refused(72, "InvalidOptions")),
    admin({ shardCollection: "config.x", key: { k: 1 } }, refused(20, "IllegalOperation")),
    admin({ shardCollection: "nodots", key: { k: 1 } }, refused(73, "InvalidNamespace")),
  ]),
  routerCase("shardCollection existing data", (c0) => [
    enable,
    value(
      "insertMany",
      (c) =>
        c.db
          .collection("a")
          .insertMany([{ k: 1 }, { k: 1 }, { k: 2 }])
          .then((r) => r.insertedCount),
      3,
    ),
    admin(shard("a", { k: 1 }), refused(72, "InvalidOptions")),
    db({ createIndexes: "a", indexes: [{ key: { k: 1 }, name: "k_1" }] }, fields({ ok: 1 })),
    admin(shard("a", { k: 1 }, { unique: true }), refused(72, "InvalidOptions")),
    admin(shard("a", { k: 1 }), fields({ collectionsharded: c0.ns("a") })),
    value(
      "find",
      (c) =>
        c.db
          .collection("a")
          .find({}, { projection: { _id: 0 } })
          .sort({ k: 1 })
          .toArray(),
      [{ k: 1 }, { k: 1 }, { k: 2 }],
    ),
  ]),
  routerCase("shardCollection with other unique index", (c0) => [
    enable,
    db({ create: "a" }, ok),
    db({ createIndexes: "a", indexes: [{ key: { email: 1 }, name: "email_1", unique: true }] }, fields({ ok: 1 })),
    admin(shard("a", { k: 1 }), refused(72, "InvalidOptions")),
    admin(shard("a", { email: 1 }, { unique: true }), fields({ collectionsharded: c0.ns("a") })),
  ]),
  routerCase("shardCollection unique prefix index", (c0) => [
    enable,
    db({ createIndexes: "a", indexes: [{ key: { k: 1, e: 1 }, name: "k_e", unique: true }] }, fields({ ok: 1 })),
    admin(shard("a", { k: 1 }), fields({ collectionsharded: c0.ns("a") })),
    value("indexes", (c) => indexesOf(c, "a"), [
      { key: { _id: 1 }, unique: false },
      { key: { k: 1, e: 1 }, unique: true },
    ]),
  ]),
  routerCase("unique indexes on sharded collection", () => {
    const unique = (key: object, name: string) => ({ createIndexes: "a", indexes: [{ key, name, unique: true }] });
    return [
      enable,
      admin(shard("a", { k: 1, j: 1 }), ok),
      db(unique({ e: 1 }, "e"), refused(67, "CannotCreateIndex")),
      db(unique({ k: 1, e: 1 }, "ke"), refused(67, "CannotCreateIndex")),
      db(unique({ k: 1, j: 1, e: 1 }, "kje"), fields({ ok: 1 })),
      db(unique({ k: 1, j: 1 }, "kj"), ok),
      db(unique({ e: "hashed" }, "eh"), refused(67, "CannotCreateIndex")),
      db({ dropIndexes: "a", index: "k_1_j_1" }, ok),
      db({ collMod: "a", index: { name: "k_1_j_1", hidden: true } }, refused(27, "IndexNotFound")),
    ];
  }),
  routerCase("unique shard key enforced", () => {
    const insert = (documents: readonly object[], more: object = {}) => ({ insert: "a", documents, ...more });
    return [
      enable,
      admin(shard("a", { k: 1, j: 1 }, { unique: true }), ok),
      value("indexes", (c) => indexesOf(c, "a"), [
        { key: { _id: 1 }, unique: false },
        { key: { k: 1, j: 1 }, unique: true },
      ]),
      db(insert([{ k: 1, j: 1 }, { k: 1, j: 2 }, { k: 1 }]), fields({ n: 3 })),
      db(
        insert([{ k: 1, j: 1 }]),
        writeErrors([[0, 11000]], {
          n: 0,
          "writeErrors.0.keyPattern": { k: 1, j: 1 },
          "writeErrors.0.keyValue": { k: 1, j: 1 },
        }),
      ),
      db(insert([{ k: 1, j: null }]), writeErrors([[0, 11000]], { n: 0 })),
      db(
        insert(
          [
            { k: 1, j: 9 },
            { k: 1, j: 1 },
            { k: 1, j: 10 },
          ],
          { ordered: true },
        ),
        writeErrors([[1, 11000]], { n: 1 }),
      ),
      db(
        insert(
          [
            { k: 1, j: 11 },
            { k: 1, j: 1 },
            { k: 1, j: 12 },
          ],
          { ordered: false },
        ),
        writeErrors([[1, 11000]], { n: 2 }),
      ),
    ];
  }),
  routerCase("zones", ({ shards }) => [
    admin({ addShardToZone: "nosuchshard", zone: "z" }, refused(70, "ShardNotFound")),
    admin({ addShardToZone: shards[0], zone: "za" }, ok),
    admin({ addShardToZone: shards[0], zone: "za" }, ok),
    admin({ addShardToZone: shards[1], zone: "zb" }, ok),
    admin(range("a", { k: "a" }, { k: "b" }, "nozone"), refused(177, "ZoneNotFound")),
    admin(range("a", { k: "a" }, { k: "b" }, "za"), ok),
    admin(range("a", { k: "a" }, { k: "b" }, "za"), ok),
    admin(range("a", { k: "aa" }, { k: "c" }, "zb"), refused(178, "RangeOverlapConflict")),
    admin(range("a", { k: "d" }, { k: "c" }, "zb"), refused(9, "FailedToParse")),
    admin(range("a", { k: "c" }, { k: "c" }, "zb"), refused(9, "FailedToParse")),
    admin(range("a", { k: "c" }, { j: "d" }, "zb"), refused(9, "FailedToParse")),
    admin(range("a", { k: "b" }, { k: "c" }, "zb"), ok),
    value("config.tags", (c) => rangesOf(c, "a"), [
      { min: { k: "a" }, max: { k: "b" }, tag: "za" },
      { min: { k: "b" }, max: { k: "c" }, tag: "zb" },
    ]),
    admin({ removeShardFromZone: shards[0], zone: "za" }, refused(163, "ZoneStillInUse")),
    admin(range("a", { k: "a" }, { k: "b" }, null), ok),
    admin({ removeShardFromZone: shards[0], zone: "za" }, ok),
    admin({ removeShardFromZone: shards[0], zone: "za" }, ok),
    admin(range("a", { k: "b" }, { k: "c" }, null), ok),
    admin({ removeShardFromZone: shards[1], zone: "zb" }, ok),
  ]),
  routerCase("zone ranges and the shard key", ({ shards }) => [
    enable,
    admin({ addShardToZone: shards[0], zone: "za" }, ok),
    admin(shard("a", { d: 1, u: 1 }), ok),
    admin(range("a", { d: "x" }, { d: "y" }, "za"), ok),
    admin(range("a", { u: 1 }, { u: 2 }, "za"), refused(61, "ShardKeyNotFound")),
    admin(range("a", { d: "y", u: 1, z: 1 }, { d: "y", u: 2, z: 1 }, "za"), refused(61, "ShardKeyNotFound")),
    value("config.tags", (c) => rangesOf(c, "a"), [
      { min: { d: "x", u: new MinKey() }, max: { d: "y", u: new MinKey() }, tag: "za" },
    ]),
    admin(range("a", { d: "x" }, { d: "y" }, null), ok),
    admin({ removeShardFromZone: shards[0], zone: "za" }, ok),
  ]),
  routerCase(
    "zones before sharding place chunks",
    (c0) => {
      const whole = (d: string, zone: string) => range("m", { d, u: new MinKey() }, { d, u: new MaxKey() }, zone);
      const explained = (filter: object) => async (c: CaseContext) => {
        const reply = await c.db.command({ explain: { find: "m", filter }, verbosity: "queryPlanner" });
        const { stage, shards } = reply.queryPlanner.winningPlan;
        return { stage, shards: shards.map((s: { shardName: string }) => s.shardName).sort() };
      };
      return [
        enable,
        admin({ addShardToZone: c0.shards[0], zone: "za" }, ok),
        admin({ addShardToZone: c0.shards[1], zone: "zb" }, ok),
        admin(whole("alfa", "za"), ok),
        admin(whole("bravo", "zb"), ok),
        admin(shard("m", { d: 1, u: 1 }), fields({ collectionsharded: c0.ns("m") })),
        value(
          "chunks of the ranges",
          async (c) =>
            (await chunksOf(c, "m"))
              .filter((x) => typeof x.min.d === "string" && x.min.u instanceof MinKey)
              .map((x) => ({ d: x.min.d, shard: x.shard })),
          [
            { d: "alfa", shard: c0.shards[0] },
            { d: "bravo", shard: c0.shards[1] },
          ],
        ),
        db(
          {
            insert: "m",
            documents: [
              { d: "alfa", u: 1 },
              { d: "bravo", u: 1 },
              { d: "alfa", u: 2 },
            ],
          },
          fields({ n: 3 }),
        ),
        value("explain {d}", explained({ d: "alfa" }), { stage: "SHARD_MERGE", shards: c0.shards }),
        value("explain {u}", explained({ u: 1 }), { stage: "SHARD_MERGE", shards: c0.shards }),
        admin((c) => ({ balancerCollectionStatus: c.ns("m") }), fields({ balancerCompliant: true })),
      ];
    },
    {
      cleanup: async (c) => {
        await c.db.dropDatabase();
        await c.admin.command({ removeShardFromZone: c.shards[0], zone: "za" });
        await c.admin.command({ removeShardFromZone: c.shards[1], zone: "zb" });
      },
    },
  ),
  routerCase("drop clears zones ranges", ({ shards }) => [
    enable,
    admin({ addShardToZone: shards[0], zone: "za" }, ok),
    admin(shard("a", { k: 1 }), ok),
    admin(range("a", { k: 1 }, { k: 2 }, "za"), ok),
    value("drop", (c) => c.db.collection("a").drop(), true),
    value("config.tags", (c) => c.config.collection("tags").countDocuments({ ns: c.ns("a") }), 0),
    value(
      "config.collections",
      (c) => c.config.collection<ShardedEntry>("collections").countDocuments({ _id: c.ns("a") }),
      0,
    ),
    admin({ removeShardFromZone: shards[0], zone: "za" }, ok),
  ]),
  routerCase("moveChunk and split", ({ shards }) => [
    admin((c) => ({ enableSharding: c.db.databaseName, primaryShard: shards[0] }), ok),
    admin(shard("a", { k: 1 }), ok),
    admin((c) => ({ split: c.ns("a"), middle: { k: 10 } }), ok),
    admin((c) => ({ split: c.ns("a"), middle: { k: 10 } }), refused(null, null)),
    admin((c) => ({ split: c.ns("nosuch"), middle: { k: 10 } }), refused(118, "NamespaceNotSharded")),
    admin((c) => ({ moveChunk: c.ns("a"), find: { k: 20 }, to: "nosuchshard" }), refused(70, "ShardNotFound")),
    admin((c) => ({ moveChunk: c.ns("a"), find: { k: 20 }, to: shards[1] }), ok),
    value(
      "chunks",
      async (c) =>
        (await chunksOf(c, "a")).map((x) => ({ max: Number(x.max.k) === 10 ? 10 : "MaxKey", shard: x.shard })),
      [
        { max: 10, shard: shards[0] },
        { max: "MaxKey", shard: shards[1] },
      ],
    ),
    db({ insert: "a", documents: [{ k: 1 }, { k: 11 }, { k: 12 }] }, fields({ n: 3 })),
    db({ count: "a" }, fields({ n: 3 })),
    admin((c) => ({ moveChunk: c.ns("nosuch"), find: { k: 20 }, to: shards[1] }), refused(118, "NamespaceNotSharded")),
  ]),
  routerCase("balancer", () => [
    admin({ balancerStatus: 1 }, fields({ mode: "full" })),
    admin({ balancerStop: 1 }, ok),
    admin({ balancerStatus: 1 }, fields({ mode: "off" })),
    admin({ balancerStart: 1 }, ok),
    admin({ balancerStatus: 1 }, fields({ mode: "full" })),
    admin((c) => ({ balancerCollectionStatus: c.ns("nosuch") }), refused(26, "NamespaceNotFound")),
  ]),
  routerCase("addShard removeShard refusals", () => [
    admin({ addShard: "nosuchset/127.0.0.1:1" }, refused(133, "FailedToSatisfyReadPreference")),
    admin({ removeShard: "nosuchshard" }, refused(70, "ShardNotFound")),
  ]),
  routerCase("refine and reshard", () => {
    const refine = (collection: string, key: object) => (c: CaseContext) => ({
      refineCollectionShardKey: c.ns(collection),
      key,
    });
    return [
      enable,
      admin(shard("a", { k: 1 }), ok),
      admin(refine("a", { k: 1, j: 1 }), refused(72, "InvalidOptions")),
      db({ createIndexes: "a", indexes: [{ key: { k: 1, j: 1 }, name: "kj" }] }, fields({ ok: 1 })),
      admin(refine("a", { j: 1 }), refused(72, "InvalidOptions")),
      admin(refine("a", { k: 1, j: 1 }), fields({ ok: 1 })),
      value(
        "config.collections",
        (c) =>
          c.config
            .collection<ShardedEntry>("collections")
            .findOne({ _id: c.ns("a") })
            .then((x) => x?.key),
        { k: 1, j: 1 },
      ),
      admin(refine("nosuch", { k: 1, j: 1 }), refused(118, "NamespaceNotSharded")),
    ];
  }),
  routerCase("config writes", () => {
    const change = (u: object, more: object = {}) => ({
      update: "settings",
      updates: [{ q: { _id: "balancer" }, u, ...more }],
    });
    return [
      config(change({ $set: { activeWindow: { start: "23:00", stop: "06:00" } } }, { upsert: true }), fields({ n: 1 })),
      value(
        "config.settings",
        (c) =>
          c.config
            .collection<{ _id: string; activeWindow?: unknown }>("settings")
            .findOne({ _id: "balancer" })
            .then((x) => x?.activeWindow),
        { start: "23:00", stop: "06:00" },
      ),
      config(change({ $unset: { activeWindow: 1 } }), fields({ n: 1, nModified: 1 })),
    ];
  }),
];
