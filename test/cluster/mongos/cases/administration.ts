// More of the administration: each command's success and its refusals, as documented for a mongos of 6.0 and later.
import { type Document, MaxKey, MinKey } from "mongodb";
import { admin, type CaseContext, db, fields, ok, type RouterCase, refused, routerCase, value } from "./case.ts";
import { chunksOf } from "./sharding.ts";

const enable = admin((c) => ({ enableSharding: c.db.databaseName, primaryShard: c.shards[0] }), ok);

/** Admin commands whose first value is a namespace of the case's database. */
const on =
  (name: string, collection: string, more: object = {}) =>
  (c: CaseContext): object => ({ [name]: c.ns(collection), ...more });

const placement = (collection: string, field: string, wanted: unknown) =>
  value(
    `chunks of ${collection}`,
    async (c) => (await chunksOf(c, collection)).map((x) => [x.min[field], x.shard]),
    wanted,
  );

const since = { since: 6 };

export const administrationCases: readonly RouterCase[] = [
  routerCase(
    "databases and their primary shards",
    ({ shards }) => [
      admin((c) => ({ enableSharding: c.db.databaseName, primaryShard: "nosuchshard" }), refused(70, "ShardNotFound")),
      admin((c) => ({ enableSharding: c.db.databaseName, primaryShard: shards[1] }), ok),
      admin((c) => ({ enableSharding: c.db.databaseName, primaryShard: shards[0] }), refused(48, "NamespaceExists")),
      admin({ enableSharding: "with.dot" }, refused(73, "InvalidNamespace")),
      admin({ enableSharding: 7 }, refused(14, "TypeMismatch")),
      db({ enableSharding: "x" }, refused(13, "Unauthorized")),
      value(
        "config.databases",
        (c) =>
          c.config
            .collection<{ _id: string; primary: string }>("databases")
            .findOne({ _id: c.db.databaseName })
            .then((x) => x?.primary),
        shards[1],
      ),
      value(
        "a second database that differs by case only",
        (c) =>
          c.admin.command({ enableSharding: c.db.databaseName.toUpperCase() }).catch((e: { code?: unknown }) => e.code),
        13297,
      ),
      value(
        "documents before",
        (c) =>
          c.db
            .collection("plain")
            .insertOne({ a: 1 })
            .then((r) => r.acknowledged),
        true,
      ),
      admin((c) => ({ movePrimary: c.db.databaseName, to: "nosuchshard" }), refused(70, "ShardNotFound")),
      admin((c) => ({ movePrimary: c.db.databaseName }), refused(72, "InvalidOptions")),
      admin({ movePrimary: "config", to: shards[0] }, refused(72, "InvalidOptions")),
      admin({ movePrimary: "admin", to: shards[0] }, refused(72, "InvalidOptions")),
      admin({ movePrimary: "c_no_such_database", to: shards[0] }, refused(26, "NamespaceNotFound")),
      admin((c) => ({ movePrimary: c.db.databaseName, to: shards[0] }), ok),
      value("documents after", (c) => c.db.collection("plain").countDocuments(), 1),
      value(
        "getShardVersion of the database",
        (c) => c.admin.command({ getShardVersion: c.db.databaseName }).then((r) => r.primaryShard),
        shards[0],
      ),
    ],
    since,
  ),
  routerCase(
    "shardCollection, more of it",
    ({ shards }) => [
      // Since 6.0 a database needs no enableSharding.
      admin(on("shardCollection", "implicit", { key: { k: 1 } }), ok),
      admin(on("shardCollection", "nokey"), refused(40414, "Location40414")),
      admin(on("shardCollection", "nokey", { key: "k" }), refused(14, "TypeMismatch")),
      admin(on("shardCollection", "twohashed", { key: { a: "hashed", b: "hashed" } }), refused(2, "BadValue")),
      admin(on("shardCollection", "compoundhashed", { key: { a: 1, b: "hashed" } }), ok),
      db({ create: "view", viewOn: "implicit", pipeline: [] }, ok),
      admin(on("shardCollection", "view", { key: { k: 1 } }), refused(166, "CommandNotSupportedOnView")),
      db({ create: "capped", capped: true, size: 4096 }, ok),
      admin(on("shardCollection", "capped", { key: { k: 1 } }), refused(72, "InvalidOptions")),
      admin({ shardCollection: "admin.x", key: { k: 1 } }, refused(20, "IllegalOperation")),
      admin({ shardCollection: "", key: { k: 1 } }, refused(73, "InvalidNamespace")),
      db((c) => ({ shardCollection: c.ns("a"), key: { k: 1 } }), refused(13, "Unauthorized")),
      admin(on("shardCollection", "hashed", { key: { k: "hashed" }, numInitialChunks: 4 }), ok),
      value("hashed chunks", async (c) => (await chunksOf(c, "hashed")).length, 4),
      value(
        "hashed chunks by shard",
        async (c) => [...new Set((await chunksOf(c, "hashed")).map((x) => x.shard))].sort(),
        shards,
      ),
      value(
        "a sparse or partial index is no index for a shard key",
        async (c) => {
          await c.db.collection("partial").insertOne({ k: 1 });
          await c.db.collection("partial").createIndex({ k: 1 }, { partialFilterExpression: { k: { $gt: 0 } } });
          return c.admin
            .command({ shardCollection: c.ns("partial"), key: { k: 1 } })
            .catch((e: { codeName?: unknown }) => e.codeName);
        },
        "InvalidOptions",
      ),
      value(
        "arrays in the shard key of existing documents",
        async (c) => {
          await c.db.collection("arrays").insertOne({ k: [1, 2] });
          return c.db
            .collection("arrays")
            .createIndex({ k: 1 })
            .then(() => c.admin.command({ shardCollection: c.ns("arrays"), key: { k: 1 } }))
            .catch((e: { codeName?: unknown }) => e.codeName);
        },
        "InvalidOptions",
      ),
    ],
    since,
  ),
  routerCase(
    "split, more of it",
    () => [
      enable,
      admin(on("shardCollection", "a", { key: { k: 1 } }), ok),
      admin(on("split", "a"), refused(null, null)),
      admin(on("split", "a", { find: { k: 1 }, middle: { k: 1 } }), refused(null, null)),
      admin(on("split", "a", { middle: { x: 1 } }), refused(null, null)),
      admin(on("split", "a", { find: { x: 1 } }), refused(null, null)),
      admin(on("split", "a", { find: { k: 1 } }), refused(72, "InvalidOptions")),
      admin(on("split", "a", { middle: { k: new MinKey() } }), refused(null, null)),
      value(
        "insertMany",
        (c) =>
          c.db
            .collection("a")
            .insertMany([1, 2, 3, 4].map((k) => ({ k })))
            .then((r) => r.insertedCount),
        4,
      ),
      admin(on("split", "a", { find: { k: 1 } }), ok),
      value("two chunks", async (c) => (await chunksOf(c, "a")).length, 2),
      admin(on("split", "a", { bounds: [{ k: 77 }, { k: 78 }] }), refused(null, null)),
      admin(on("split", "a", { middle: { k: "text" } }), ok),
      value("three chunks", async (c) => (await chunksOf(c, "a")).length, 3),
      admin(on("split", "nosuch", { middle: { k: 1 } }), refused(118, "NamespaceNotSharded")),
      admin({ split: "c_no_such_database.a", middle: { k: 1 } }, refused(26, "NamespaceNotFound")),
    ],
    since,
  ),
  routerCase(
    "merging and moving chunks",
    ({ shards }) => [
      enable,
      admin(on("shardCollection", "a", { key: { k: 1 } }), ok),
      admin(on("split", "a", { middle: { k: 0 } }), ok),
      admin(on("split", "a", { middle: { k: 10 } }), ok),
      admin(on("mergeChunks", "a", { bounds: [{ k: 0 }] }), refused(2, "BadValue")),
      admin(on("mergeChunks", "a", { bounds: [{ k: new MinKey() }, { k: 10 }] }), ok),
      placement("a", "k", [
        [new MinKey(), shards[0]],
        [10, shards[0]],
      ]),
      admin(on("moveChunk", "a", { find: { k: 20 } }), refused(null, null)),
      admin(on("moveChunk", "a", { to: shards[1] }), refused(null, null)),
      admin(on("moveChunk", "a", { find: { x: 20 }, to: shards[1] }), refused(null, null)),
      admin(on("moveChunk", "a", { bounds: [{ k: 10 }, { k: 11 }], to: shards[1] }), refused(null, null)),
      admin(
        on("moveChunk", "a", { bounds: [{ k: 10 }, { k: new MaxKey() }], to: shards[1], _waitForDelete: true }),
        ok,
      ),
      placement("a", "k", [
        [new MinKey(), shards[0]],
        [10, shards[1]],
      ]),
      // A chunk that is there already stays.
      admin(on("moveChunk", "a", { find: { k: 20 }, to: shards[1] }), ok),
      admin(on("moveRange", "a", { min: { k: 10 }, max: { k: 15 }, toShard: shards[0] }), ok),
      placement("a", "k", [
        [new MinKey(), shards[0]],
        [10, shards[0]],
        [15, shards[1]],
      ]),
      admin(
        on("moveRange", "a", { min: { k: 10 }, max: { k: 15 }, toShard: "nosuchshard" }),
        refused(70, "ShardNotFound"),
      ),
      admin(on("moveRange", "a", { min: { k: 10 } }), refused(40414, "Location40414")),
      admin(on("moveRange", "nosuch", { min: { k: 1 }, toShard: shards[1] }), refused(118, "NamespaceNotSharded")),
      admin(on("clearJumboFlag", "a", { find: { k: 20 } }), ok),
      admin(on("clearJumboFlag", "nosuch", { find: { k: 20 } }), refused(118, "NamespaceNotSharded")),
      value(
        "getShardVersion",
        (c) =>
          c.admin
            .command({ getShardVersion: c.ns("a"), fullMetadata: true })
            .then((r) => [Object.keys(r).includes("versionEpoch"), r.chunks.length]),
        [true, 3],
      ),
      admin(on("getShardVersion", "nosuch"), refused(118, "NamespaceNotSharded")),
    ],
    since,
  ),
  routerCase(
    "a range moves while its zone forbids it",
    ({ shards }) => [
      enable,
      admin({ addShardToZone: shards[0], zone: "only" }, ok),
      admin(on("shardCollection", "a", { key: { k: 1 } }), ok),
      admin(on("updateZoneKeyRange", "a", { min: { k: 0 }, max: { k: 10 }, zone: "only" }), ok),
      admin(
        on("updateZoneKeyRange", "a", { min: { k: 5 }, max: { k: 20 }, zone: "only" }),
        refused(178, "RangeOverlapConflict"),
      ),
      admin(on("updateZoneKeyRange", "a", { min: { k: 0 }, max: { k: 10 } }), refused(4, "NoSuchKey")),
      admin(
        { updateZoneKeyRange: "nodots", min: { k: 0 }, max: { k: 10 }, zone: null },
        refused(73, "InvalidNamespace"),
      ),
      // Removing a range that is not there, or is there with other bounds, changes nothing.
      admin(on("updateZoneKeyRange", "a", { min: { k: 100 }, max: { k: 110 }, zone: null }), ok),
      value("config.tags", (c) => c.config.collection("tags").countDocuments({ ns: c.ns("a") }), 1),
      admin({ removeShardFromZone: shards[0], zone: "only" }, refused(163, "ZoneStillInUse")),
      admin({ removeShardFromZone: "nosuchshard", zone: "only" }, refused(70, "ShardNotFound")),
      admin({ addShardToZone: shards[0] }, refused(4, "NoSuchKey")),
      admin(on("updateZoneKeyRange", "a", { min: { k: 0 }, max: { k: 10 }, zone: null }), ok),
      admin({ removeShardFromZone: shards[0], zone: "only" }, ok),
    ],
    since,
  ),
  routerCase(
    "refining and resharding",
    () => [
      enable,
      admin(on("shardCollection", "a", { key: { k: 1 } }), ok),
      value(
        "insertMany",
        (c) =>
          c.db
            .collection("a")
            .insertMany([1, 2, 3, 4].map((k) => ({ k, j: -k })))
            .then((r) => r.insertedCount),
        4,
      ),
      admin(on("refineCollectionShardKey", "a"), refused(40414, "Location40414")),
      admin(on("reshardCollection", "nosuch", { key: { j: 1 } }), refused(118, "NamespaceNotSharded")),
      admin(on("abortReshardCollection", "a"), refused(339, "NoSuchReshardCollection")),
      admin(on("commitReshardCollection", "a"), refused(339, "NoSuchReshardCollection")),
      admin(on("reshardCollection", "a", { key: { j: 1 } }), ok),
      value(
        "config.collections",
        (c) =>
          c.config
            .collection<{ _id: string; key?: unknown }>("collections")
            .findOne({ _id: c.ns("a") })
            .then((x) => x?.key),
        { j: 1 },
      ),
      value("documents", (c) => c.db.collection("a").countDocuments(), 4),
      value("by the new key", (c) => c.db.collection("a").countDocuments({ j: -3 }), 1),
    ],
    since,
  ),
  routerCase(
    "balancing of one collection",
    () => [
      enable,
      admin(on("shardCollection", "a", { key: { k: 1 } }), ok),
      admin(on("balancerCollectionStatus", "a"), fields({ balancerCompliant: true })),
      admin(on("configureCollectionBalancing", "a", { chunkSize: 64 }), ok),
      admin(on("balancerCollectionStatus", "a"), fields({ chunkSize: 64 })),
      admin(on("configureCollectionBalancing", "a"), refused(72, "InvalidOptions")),
      admin(on("configureCollectionBalancing", "nosuch", { chunkSize: 64 }), refused(118, "NamespaceNotSharded")),
      admin(on("setAllowMigrations", "a", { allowMigrations: false }), ok),
      value(
        "a move is refused",
        (c) =>
          c.admin
            .command({ moveChunk: c.ns("a"), find: { k: 1 }, to: c.shards[1] })
            .then(() => "moved")
            .catch(() => "refused"),
        "refused",
      ),
      admin(on("setAllowMigrations", "a", { allowMigrations: true }), ok),
      admin(on("setAllowMigrations", "nosuch", { allowMigrations: true }), refused(118, "NamespaceNotSharded")),
      db({ balancerStart: 1 }, refused(13, "Unauthorized")),
      db({ balancerStatus: 1 }, refused(13, "Unauthorized")),
    ],
    since,
  ),
  routerCase(
    "collections, more of it",
    ({ shards }) => [
      enable,
      db({ create: "" }, refused(73, "InvalidNamespace")),
      db({ create: "a" }, ok),
      db({ create: "a", capped: true, size: 4096 }, refused(48, "NamespaceExists")),
      db({ drop: 7 }, refused(73, "InvalidNamespace")),
      value(
        "drop in config",
        (c) => c.config.command({ drop: "x" }).catch((e: { codeName?: unknown }) => e.codeName),
        "IllegalOperation",
      ),
      value(
        "drop of config",
        (c) => c.config.command({ dropDatabase: 1 }).catch((e: { codeName?: unknown }) => e.codeName),
        // Even root has no dropDatabase on config.
        "Unauthorized",
      ),
      db({ dropDatabase: 2 }, refused(2, "BadValue")),
      value(
        "drop in a database that is not there",
        (c) =>
          c.client
            .db("c_no_such_database")
            .command({ drop: "a" })
            .then((r) => r.info),
        "database does not exist",
      ),
      value(
        "dropDatabase of one that is not there",
        (c) =>
          c.client
            .db("c_no_such_database")
            .command({ dropDatabase: 1 })
            .then((r) => r.info),
        "database does not exist",
      ),
      admin((c) => ({ renameCollection: c.ns("a"), to: c.ns("a") }), refused(20, "IllegalOperation")),
      admin((c) => ({ renameCollection: c.ns("nosuch"), to: c.ns("b") }), refused(26, "NamespaceNotFound")),
      db({ create: "b" }, ok),
      admin((c) => ({ renameCollection: c.ns("a"), to: c.ns("b") }), refused(48, "NamespaceExists")),
      admin((c) => ({ renameCollection: c.ns("a"), to: c.ns("b"), dropTarget: true }), ok),
      admin(on("shardCollection", "s", { key: { k: 1 } }), ok),
      admin((c) => ({ renameCollection: c.ns("s"), to: c.ns("t") }), ok),
      value(
        "config.collections after the rename",
        (c) =>
          c.config
            .collection<{ _id: string }>("collections")
            .find({ _id: { $in: [c.ns("s"), c.ns("t")] } })
            .toArray()
            .then((x) => x.map((y) => y._id.split(".")[1])),
        ["t"],
      ),
      db({ convertToCapped: "t", size: 4096 }, refused(20, "IllegalOperation")),
      db({ convertToCapped: "b", size: 4096 }, ok),
      db({ compact: "b" }, refused(115, "CommandNotSupported")),
      db({ validate: "t" }, fields({ valid: true })),
      db({ validate: "nosuch" }, refused(26, "NamespaceNotFound")),
      db({ collMod: "nosuch", validator: {} }, refused(26, "NamespaceNotFound")),
      db({ collMod: "b", validationLevel: "nonsense" }, refused(2, "BadValue")),
      db({ dropIndexes: "nosuch", index: "*" }, refused(26, "NamespaceNotFound")),
      db({ dropIndexes: "b", index: "_id_" }, refused(72, "InvalidOptions")),
      db({ createIndexes: "b", indexes: [] }, refused(2, "BadValue")),
      db({ createIndexes: "b", indexes: [{ key: { a: 1 } }] }, refused(9, "FailedToParse")),
      value(
        "dataSize",
        async (c) => {
          await c.db.collection("t").insertMany([{ k: 1 }, { k: 2 }]);
          return c.db.command({ dataSize: c.ns("t") }).then((r) => r.numObjects);
        },
        2,
      ),
      db({ collStats: "t", scale: 0 }, refused(2, "BadValue")),
      db({ collStats: "b" }, fields({ sharded: false, primary: shards[0], nchunks: 1 })),
      value(
        "listDatabases",
        (c) =>
          c.admin
            .command({ listDatabases: 1, filter: { name: c.db.databaseName } })
            .then((r) => r.databases.map((d: { name: string; shards: object }) => Object.keys(d.shards))),
        [[shards[0]]],
      ),
      value(
        "$listCatalog over all shards",
        (c) =>
          c.admin
            .aggregate([
              { $listCatalog: {} },
              { $match: { db: c.db.databaseName } },
              { $project: { _id: 0, name: 1, shard: 1, indexes: { $size: "$md.indexes" } } },
              { $sort: { name: 1, shard: 1 } },
            ])
            .toArray(),
        [
          { name: "b", shard: shards[0], indexes: 1 },
          { name: "t", shard: shards[0], indexes: 2 },
        ],
      ),
      value(
        "$shardedDataDistribution",
        (c) =>
          c.admin
            .aggregate([{ $shardedDataDistribution: {} }, { $match: { ns: c.ns("t") } }])
            .toArray()
            .then((x) => x.map((y) => [y.ns, y.shards.map((s: Document) => s.numOwnedDocuments)])),
        [["c_collections__more_of_it.t", [2]]],
      ),
      db({ listDatabases: 1 }, refused(13, "Unauthorized")),
      value(
        "splitVector",
        (c) =>
          c.admin
            .command({ splitVector: c.ns("t"), keyPattern: { k: 1 }, maxChunkSize: 1 })
            .catch((e: { codeName?: unknown }) => e.codeName),
        "IllegalOperation",
      ),
    ],
    since,
  ),
  routerCase(
    "users and roles",
    () => {
      const roles = (given: readonly unknown[]) => ({ roles: given });
      return [
        db({ createUser: "u", pwd: "secret", ...roles(["read"]) }, ok),
        db({ createUser: "u", pwd: "secret", ...roles([]) }, refused(51003, "Location51003")),
        db({ createUser: "v", pwd: "secret", ...roles(["nosuchrole"]) }, refused(31, "RoleNotFound")),
        db({ createUser: "w", pwd: "secret" }, refused(40414, "Location40414")),
        value(
          "usersInfo",
          (c) =>
            c.db
              .command({ usersInfo: "u" })
              .then((r) => r.users.map((u: { user: string; roles: unknown }) => [u.user, u.roles])),
          [["u", [{ role: "read", db: "c_users_and_roles" }]]],
        ),
        db({ grantRolesToUser: "u", ...roles(["dbAdmin"]) }, ok),
        db({ revokeRolesFromUser: "u", ...roles(["read"]) }, ok),
        db({ grantRolesToUser: "nosuch", ...roles(["read"]) }, refused(11, "UserNotFound")),
        db({ updateUser: "u", pwd: "other" }, ok),
        db({ updateUser: "nosuch", pwd: "other" }, refused(11, "UserNotFound")),
        db(
          (c) => ({
            createRole: "r",
            privileges: [{ resource: { db: c.db.databaseName, collection: "a" }, actions: ["find"] }],
            ...roles([]),
          }),
          ok,
        ),
        db(
          (c) => ({
            createRole: "r",
            privileges: [{ resource: { db: c.db.databaseName, collection: "a" }, actions: ["find"] }],
            ...roles([]),
          }),
          refused(51002, "Location51002"),
        ),
        db(
          (c) => ({
            grantPrivilegesToRole: "r",
            privileges: [{ resource: { db: c.db.databaseName, collection: "a" }, actions: ["insert"] }],
          }),
          ok,
        ),
        db(
          (c) => ({
            grantPrivilegesToRole: "r",
            privileges: [{ resource: { db: c.db.databaseName, collection: "a" }, actions: ["nosuchaction"] }],
          }),
          refused(2, "BadValue"),
        ),
        value(
          "rolesInfo",
          (c) => c.db.command({ rolesInfo: "r", showPrivileges: true }).then((r) => r.roles[0].privileges[0].actions),
          ["find", "insert"],
        ),
        db({ dropRole: "r" }, ok),
        db({ dropRole: "r" }, refused(31, "RoleNotFound")),
        db({ dropUser: "u" }, ok),
        db({ dropUser: "u" }, refused(11, "UserNotFound")),
        db({ dropAllUsersFromDatabase: 1 }, fields({ n: 0 })),
        admin({ invalidateUserCache: 1 }, ok),
      ];
    },
    since,
  ),
  routerCase(
    "the router itself",
    () => [
      admin({ buildInfo: 1 }, fields({ bits: 64, debug: false })),
      admin({ getCmdLineOpts: 1 }, ok),
      admin({ getParameter: 1, authenticationMechanisms: 1 }, ok),
      admin({ getParameter: 1, nosuchparameter: 1 }, refused(72, "InvalidOptions")),
      admin({ setParameter: 1, nosuchparameter: 1 }, refused(72, "InvalidOptions")),
      db({ getParameter: 1, quiet: 1 }, refused(13, "Unauthorized")),
      admin({ serverStatus: 1 }, fields({ process: "mongos" })),
      admin({ hostInfo: 1 }, ok),
      admin({ getLog: "*" }, fields({ names: ["global", "startupWarnings"] })),
      value(
        "connectionStatus",
        (c) =>
          c.admin
            .command({ connectionStatus: 1 })
            .then((r) => [
              r.authInfo.authenticatedUsers,
              r.authInfo.authenticatedUserRoles.some((x: { role: string }) => x.role === "root"),
            ]),
        [[{ user: "admin", db: "admin" }], true],
      ),
      value(
        "whatsmyuri",
        (c) => c.admin.command({ whatsmyuri: 1 }).then((r) => /^127\.0\.0\.1:\d+$/.test(r.you)),
        true,
      ),
      admin({ flushRouterConfig: 1 }, fields({ flushed: true })),
      admin({ flushRouterConfig: "some.collection" }, fields({ flushed: true })),
      db({ flushRouterConfig: 1 }, refused(13, "Unauthorized")),
      admin({ fsync: 1 }, ok),
      admin({ fsync: 1, lock: true }, refused(null, null)),
      admin({ killOp: 1, op: "nonsense" }, refused(2, "BadValue")),
      admin({ killOp: 1 }, refused(4, "NoSuchKey")),
      admin({ killOp: 1, op: "nosuchshard:1" }, refused(70, "ShardNotFound")),
      value("currentOp", (c) => c.admin.command({ currentOp: 1 }).then((r) => Array.isArray(r.inprog)), true),
      admin({ setFeatureCompatibilityVersion: "nonsense" }, refused(4926900, "Location4926900")),
      admin({ setDefaultRWConcern: 1 }, refused(2, "BadValue")),
      admin(
        { setDefaultRWConcern: 1, defaultWriteConcern: { w: "majority", wtimeout: 5000 } },
        fields({ "defaultWriteConcern.wtimeout": 5000 }),
      ),
      admin(
        { getDefaultRWConcern: 1 },
        fields({ "defaultWriteConcern.w": "majority", "defaultWriteConcern.wtimeout": 5000 }),
      ),
      admin({ setDefaultRWConcern: 1, defaultWriteConcern: { w: "majority", wtimeout: 0 } }, ok),
      admin({ killAllSessions: [{ user: "nobody", db: "admin" }] }, refused(11, "UserNotFound")),
      value(
        "killAllSessions ends a user's transaction",
        async (c) => {
          await c.db.command({ create: "t" });
          return c.client.withSession(async (session) => {
            session.startTransaction();
            await c.db.collection("t").insertOne({ a: 1 }, { session });
            await c.admin.command({ killAllSessions: [{ user: "admin", db: "admin" }] });
            return session.commitTransaction().catch((e: { codeName?: unknown }) => e.codeName);
          });
        },
        "NoSuchTransaction",
      ),
      db({ create: "plain" }, ok),
      db({ planCacheClear: "plain" }, ok),
      db({ profile: -1 }, fields({ was: 0, slowms: 100 })),
      db({ profile: 2 }, refused(2, "BadValue")),
      admin({ top: 1 }, refused(59, "CommandNotFound")),
      admin({ netstat: 1 }, refused(59, "CommandNotFound")),
      admin({ replSetStepDown: 1 }, refused(59, "CommandNotFound")),
      admin({ replSetInitiate: 1 }, refused(59, "CommandNotFound")),
      admin({ fsyncUnlock: 1 }, refused(59, "CommandNotFound")),
      admin({ _configsvrAddShard: "x/127.0.0.1:1" }, refused(59, "CommandNotFound")),
      admin({ _shardsvrDropDatabase: 1 }, refused(59, "CommandNotFound")),
    ],
    since,
  ),
];
