// Reads, writes, DDL and transactions on sharded collections, as a real mongos answered them.
import { type Document, Long } from "mongodb";
import {
  admin,
  type CaseContext,
  db,
  fields,
  ok,
  type RouterCase,
  refusal,
  refused,
  routerCase,
  type Step,
  value,
  writeErrors,
} from "./case.ts";

/** Two shards, split at k = 0, documents k = -5..4 with n = k mod 3. */
function spread(unique = false): readonly Step[] {
  const documents = Array.from({ length: 10 }, (_, i) => ({ _id: i, k: i - 5, n: (i + 1) % 3 }));
  return [
    admin((c) => ({ enableSharding: c.db.databaseName, primaryShard: c.shards[0] }), ok),
    admin((c) => ({ shardCollection: c.ns("a"), key: { k: 1 }, unique }), ok),
    admin((c) => ({ split: c.ns("a"), middle: { k: 0 } }), ok),
    admin((c) => ({ moveChunk: c.ns("a"), find: { k: 1 }, to: c.shards[1], _waitForDelete: true }), ok),
    db({ insert: "a", documents }, fields({ n: 10 })),
  ];
}

const find = (filter: object, options: object, wanted: unknown, collection = "a") =>
  value(
    `find ${JSON.stringify(filter)} ${JSON.stringify(options)}`,
    (c) => c.db.collection(collection).find(filter, options).toArray(),
    wanted,
  );

const aggregate = (pipeline: Document[], wanted: unknown, collection = "a") =>
  value(
    `aggregate ${collection} ${JSON.stringify(pipeline)}`,
    (c) => c.db.collection(collection).aggregate(pipeline).toArray(),
    wanted,
  );

const count = (collection: string, filter: object, wanted: number) =>
  value(
    `count ${collection} ${JSON.stringify(filter)}`,
    (c) => c.db.collection(collection).countDocuments(filter),
    wanted,
  );

const update = (q: object, u: object, more: object = {}) => ({ update: "a", updates: [{ q, u, ...more }] });
const remove = (q: object, limit: 0 | 1) => ({ delete: "a", deletes: [{ q, limit }] });
const insert = (documents: readonly object[], more: object = {}) => ({ insert: "a", documents, ...more });

const names = (list: readonly Document[]) => list.map((x) => x.name).sort();

export const crudCases: readonly RouterCase[] = [
  routerCase("reads over shards", () => [
    ...spread(),
    find({}, { sort: { n: 1, k: -1 } }, [
      { _id: 8, k: 3, n: 0 },
      { _id: 5, k: 0, n: 0 },
      { _id: 2, k: -3, n: 0 },
      { _id: 9, k: 4, n: 1 },
      { _id: 6, k: 1, n: 1 },
      { _id: 3, k: -2, n: 1 },
      { _id: 0, k: -5, n: 1 },
      { _id: 7, k: 2, n: 2 },
      { _id: 4, k: -1, n: 2 },
      { _id: 1, k: -4, n: 2 },
    ]),
    find({}, { sort: { k: 1 }, skip: 3, limit: 4, projection: { _id: 0, k: 1 } }, [
      { k: -2 },
      { k: -1 },
      { k: 0 },
      { k: 1 },
    ]),
    find(
      {},
      { sort: { k: -1 }, batchSize: 2, projection: { _id: 1 } },
      Array.from({ length: 10 }, (_, i) => ({ _id: 9 - i })),
    ),
    find({}, { sort: { k: 1 }, projection: { n: 1, _id: 0 }, limit: 3 }, [{ n: 1 }, { n: 2 }, { n: 0 }]),
    db({ count: "a", query: {} }, fields({ n: 10 })),
    db({ count: "a", query: { n: 1 }, skip: 1, limit: 2 }, fields({ n: 2 })),
    count("a", { n: 0 }, 3),
    value(
      "distinct",
      (c) =>
        c.db
          .collection("a")
          .distinct("n")
          .then((x) => x.sort()),
      [0, 1, 2],
    ),
    find({ k: { $in: [-1, 1] } }, { sort: { k: 1 } }, [
      { _id: 4, k: -1, n: 2 },
      { _id: 6, k: 1, n: 1 },
    ]),
    value("findOne", (c) => c.db.collection<{ _id: number }>("a").findOne({ _id: 7 }), { _id: 7, k: 2, n: 2 }),
    find({}, {}, [], "nosuch"),
  ]),
  routerCase("aggregates over shards", ({ shards }) => [
    ...spread(),
    aggregate(
      [
        { $group: { _id: "$n", sum: { $sum: "$k" }, avg: { $avg: "$k" }, first: { $min: "$k" } } },
        { $sort: { _id: 1 } },
      ],
      [
        { _id: 0, sum: 0, avg: 0, first: -3 },
        { _id: 1, sum: -2, avg: -0.5, first: -5 },
        { _id: 2, sum: -3, avg: -1, first: -4 },
      ],
    ),
    aggregate(
      [{ $sort: { k: -1 } }, { $skip: 1 }, { $limit: 3 }, { $project: { _id: 0, k: 1 } }],
      [{ k: 3 }, { k: 2 }, { k: 1 }],
    ),
    aggregate([{ $match: { n: 1 } }, { $count: "c" }], [{ c: 4 }]),
    aggregate(
      [
        {
          $facet: {
            lo: [{ $match: { k: { $lt: 0 } } }, { $count: "c" }],
            hi: [{ $match: { k: { $gte: 0 } } }, { $count: "c" }],
          },
        },
      ],
      [{ lo: [{ c: 5 }], hi: [{ c: 5 }] }],
    ),
    value(
      "insertMany b",
      (c) =>
        c.db
          .collection("b")
          .insertMany([
            { n: 0, name: "zero" },
            { n: 1, name: "one" },
            { n: 2, name: "two" },
          ])
          .then((r) => r.insertedCount),
      3,
    ),
    aggregate(
      [
        { $lookup: { from: "b", localField: "n", foreignField: "n", as: "b" } },
        { $sort: { k: 1 } },
        { $limit: 2 },
        { $project: { _id: 0, k: 1, name: { $first: "$b.name" } } },
      ],
      [
        { k: -5, name: "one" },
        { k: -4, name: "two" },
      ],
    ),
    aggregate(
      [
        { $project: { _id: 0, n: 1 } },
        { $unionWith: { coll: "a", pipeline: [{ $match: { k: { $gte: 3 } } }, { $project: { _id: 0, n: 1 } }] } },
        { $sort: { n: 1 } },
      ],
      [{ n: 0 }, { n: 0 }, { n: 1 }, { n: 1 }, { n: 2 }],
      "b",
    ),
    aggregate([{ $match: { k: { $gte: 0 } } }, { $out: "o" }], []),
    count("o", {}, 5),
    aggregate([{ $merge: { into: "o" } }], []),
    count("o", {}, 10),
    value(
      "$sample",
      (c) =>
        c.db
          .collection("a")
          .aggregate([{ $sample: { size: 4 } }])
          .toArray()
          .then((x) => x.length),
      4,
    ),
    db({ aggregate: "a", pipeline: [{ $nosuch: 1 }], cursor: {} }, refused(40324, "Location40324")),
    value(
      "$collStats",
      (c) =>
        c.db
          .collection("a")
          .aggregate([{ $collStats: { count: {} } }])
          .toArray()
          .then((x) => x.map((y) => [y.shard, y.count]).sort()),
      [
        [shards[0], 5],
        [shards[1], 5],
      ],
    ),
  ]),
  routerCase("writes and the shard key", () => [
    ...spread(),
    db(update({ n: 1 }, { $set: { x: 1 } }), writeErrors([[0, 72]], { n: 0 })),
    db(update({ _id: 1 }, { $set: { x: 1 } }), fields({ n: 1, nModified: 1 })),
    db(update({ k: 2 }, { $set: { x: 1 } }), fields({ n: 1, nModified: 1 })),
    db(update({ n: 1 }, { $set: { y: 1 } }, { multi: true }), fields({ n: 4, nModified: 4 })),
    db(update({ n: 77 }, { $set: { y: 1 } }, { upsert: true }), writeErrors([[0, 61]], { n: 0 })),
    db(update({ k: 77 }, { $set: { y: 1 } }, { upsert: true }), fields({ n: 1, "upserted.0.index": 0 })),
    db(remove({ n: 1 }, 1), writeErrors([[0, 61]], { n: 0 })),
    db(remove({ _id: 9 }, 1), fields({ n: 1 })),
    db(remove({ n: 2 }, 0), fields({ n: 3 })),
    db({ findAndModify: "a", query: { n: 0 }, update: { $set: { z: 1 } } }, refused(61, "ShardKeyNotFound")),
    db(
      { findAndModify: "a", query: { k: -3 }, update: { $set: { z: 1 } }, new: true },
      fields({ "value.z": 1, lastErrorObject: { n: 1, updatedExisting: true } }),
    ),
    db({ findAndModify: "a", query: { k: 99 }, remove: true }, fields({ value: null })),
    db(insert([{ _id: "nokey" }]), fields({ n: 1 })),
    find({ k: { $exists: false } }, { projection: { _id: 1 } }, [{ _id: "nokey" }]),
    find({ k: null }, { projection: { _id: 1 } }, [{ _id: "nokey" }]),
    db(insert([{ _id: "arr", k: [1, 2] }]), writeErrors([[0, 61]], { n: 0 })),
    db(update({ _id: "nokey", k: null }, { $set: { k: 500 } }), writeErrors([[0, 20]], { n: 0 })),
  ]),
  routerCase("moving a document between shards", () => [
    ...spread(),
    value(
      "updateOne",
      (c) =>
        c.db
          .collection("a")
          .updateOne({ k: -5 }, { $set: { k: 50 } })
          .then((r) => r.modifiedCount),
      1,
    ),
    find({ k: { $in: [-5, 50] } }, {}, [{ _id: 0, k: 50, n: 1 }]),
    value(
      "updateOne in a transaction",
      (c) =>
        c.client.withSession((session) =>
          session.withTransaction(() =>
            c.db
              .collection("a")
              .updateOne({ k: -4 }, { $set: { k: 51 } }, { session })
              .then((r) => r.modifiedCount),
          ),
        ),
      1,
    ),
    find({ k: { $in: [-4, 51] } }, {}, [{ _id: 1, k: 51, n: 2 }]),
  ]),
  routerCase("bulk over shards", () => [
    ...spread(true),
    value(
      "bulkWrite",
      async (c) => {
        const r = await c.db
          .collection("a")
          .bulkWrite([
            { insertOne: { document: { k: 100 } } },
            { updateOne: { filter: { k: -1 }, update: { $set: { b: 1 } } } },
            { deleteOne: { filter: { k: 3 } } },
            { insertOne: { document: { k: -100 } } },
          ]);
        return [r.insertedCount, r.modifiedCount, r.deletedCount];
      },
      [2, 1, 1],
    ),
    db(
      insert([{ k: 200 }, { k: -1 }, { k: 201 }, { k: 1 }, { k: 202 }], { ordered: false }),
      writeErrors(
        [
          [1, 11000],
          [3, 11000],
        ],
        { n: 3 },
      ),
    ),
    db(insert([{ k: 300 }, { k: -1 }, { k: 301 }], { ordered: true }), writeErrors([[1, 11000]], { n: 1 })),
    count("a", { k: { $gte: 200 } }, 4),
  ]),
  routerCase("write concern and time limits", () => [
    ...spread(),
    db(insert([{ k: 1000 }], { writeConcern: { w: 9 } }), refused(100, "UnsatisfiableWriteConcern")),
    db(insert([{ k: 1001 }], { writeConcern: { w: "nosuchmode" } }), refused(79, "UnknownReplWriteConcern")),
    db({ find: "a", filter: { $where: "sleep(50) || true" }, maxTimeMS: 20 }, refused(50, "MaxTimeMSExpired")),
    db({ getMore: "text", collection: "a" }, refused(14, "TypeMismatch")),
  ]),
  routerCase("cursors", () => [
    ...spread(),
    db({ getMore: Long.fromNumber(123_456), collection: "a" }, refused(43, "CursorNotFound")),
    value(
      "killCursors",
      async (c) => {
        const r = await c.db.command({ find: "a", batchSize: 2 });
        const k = await c.db.command({ killCursors: "a", cursors: [r.cursor.id] });
        return { killed: k.cursorsKilled.length, notFound: k.cursorsNotFound.length };
      },
      { killed: 1, notFound: 0 },
    ),
    value(
      "find with batchSize 0",
      async (c) => {
        const { cursor } = await c.db.command({ find: "a", limit: 0, batchSize: 0 });
        return { open: cursor.id.toString() !== "0", first: cursor.firstBatch.length };
      },
      { open: true, first: 0 },
    ),
  ]),
  routerCase("ddl", () => [
    db({ create: "a" }, ok),
    db({ create: "a" }, ok),
    db({ create: "v", viewOn: "a", pipeline: [] }, ok),
    value(
      "listCollections",
      (c) =>
        c.db
          .listCollections()
          .toArray()
          .then((x) => x.map((y) => [y.name, y.type]).sort()),
      [
        ["a", "collection"],
        ["system.views", "collection"],
        ["v", "view"],
      ],
    ),
    db({ drop: "a" }, ok),
    db({ drop: "nosuch" }, ok),
    db({ listIndexes: "nosuch" }, refused(26, "NamespaceNotFound")),
    db(
      { createIndexes: "i", indexes: [{ key: { a: 1 }, name: "a" }] },
      fields({ numIndexesBefore: null, numIndexesAfter: null, createdCollectionAutomatically: null }),
    ),
    db({ createIndexes: "i", indexes: [{ key: { a: 1 }, name: "other" }] }, refused(85, "IndexOptionsConflict")),
    db(
      { createIndexes: "i", indexes: [{ key: { a: 1 }, name: "a", unique: true }] },
      refused(86, "IndexKeySpecsConflict"),
    ),
    db({ dropIndexes: "i", index: "nosuch" }, refused(27, "IndexNotFound")),
    db({ dropIndexes: "i", index: "a" }, fields({ ok: 1 })),
    value(
      "rename",
      (c) =>
        c.db
          .collection("i")
          .rename("j")
          .then(() => "renamed"),
      "renamed",
    ),
    admin({ listDatabases: 1, nameOnly: true }, fields({ ok: 1 })),
    db({ dropDatabase: 1 }, fields({ ok: 1 })),
    db({ collStats: "nosuch" }, fields({ ok: 1 })),
    db({ dbStats: 1 }, fields({ ok: 1 })),
  ]),
  routerCase("sharded ddl", (c0) => [
    ...spread(),
    db({ collStats: "a" }, fields({ sharded: true, count: 10 })),
    db({ createIndexes: "a", indexes: [{ key: { n: 1 }, name: "n_1" }] }, fields({ ok: 1 })),
    value("indexes", (c) => c.db.collection("a").indexes().then(names), ["_id_", "k_1", "n_1"]),
    value(
      "$indexStats",
      (c) =>
        c.db
          .collection("a")
          .aggregate([{ $indexStats: {} }])
          .toArray()
          .then((x) => x.map((y) => [y.name, y.shard]).sort()),
      ["_id_", "k_1", "n_1"].flatMap((name) => c0.shards.map((shard) => [name, shard])),
    ),
    db({ collMod: "a", validator: { n: { $type: "number" } } }, fields({ ok: 1 })),
    db(insert([{ k: 1, n: "text" }]), writeErrors([[0, 121]], { n: 0 })),
    db({ dropIndexes: "a", index: "n_1" }, fields({ ok: 1 })),
    db({ drop: "a" }, fields({ ok: 1 })),
    count("a", {}, 0),
    admin((c) => ({ shardCollection: c.ns("a"), key: { other: 1 } }), fields({ collectionsharded: c0.ns("a") })),
  ]),
  routerCase("transactions", () => {
    const a = (c: CaseContext) => c.db.collection("a");
    return [
      ...spread(true),
      value(
        "commit over two shards",
        (c) =>
          c.client.withSession((session) =>
            session.withTransaction(
              async () => {
                await a(c).insertOne({ k: 700 }, { session });
                await a(c).insertOne({ k: -700 }, { session });
                return "committed";
              },
              { readConcern: { level: "local" }, writeConcern: { w: "majority" } },
            ),
          ),
        "committed",
      ),
      count("a", { k: { $in: [700, -700] } }, 2),
      value(
        "abort over two shards",
        (c) =>
          c.client.withSession(async (session) => {
            const both = { k: { $in: [701, -701] } };
            session.startTransaction();
            await a(c).insertOne({ k: 701 }, { session });
            await a(c).insertOne({ k: -701 }, { session });
            const inside = await a(c).countDocuments(both, { session });
            await session.abortTransaction();
            return [inside, await a(c).countDocuments(both)];
          }),
        [2, 0],
      ),
      refusal(
        "duplicate on the second shard",
        (c) =>
          c.client.withSession(async (session) => {
            session.startTransaction();
            await a(c).insertOne({ k: 702 }, { session });
            await a(c).insertOne({ k: -1 }, { session });
          }),
        refused(11000, "DuplicateKey"),
      ),
      count("a", { k: 702 }, 0),
      refusal(
        "two transactions, one document",
        (c) =>
          c.client.withSession((s1) =>
            c.client.withSession(async (s2) => {
              s1.startTransaction();
              s2.startTransaction();
              await a(c).updateOne({ k: 1 }, { $set: { t: 1 } }, { session: s1 });
              await a(c).updateOne({ k: 1 }, { $set: { t: 2 } }, { session: s2 });
            }),
          ),
        refused(112, "WriteConflict", ["TransientTransactionError"]),
      ),
      value(
        "snapshot",
        (c) =>
          c.client.withSession(async (session) => {
            session.startTransaction({ readConcern: { level: "snapshot" } });
            const before = await a(c).countDocuments({}, { session });
            await a(c).insertOne({ k: 800 });
            const after = await a(c).countDocuments({}, { session });
            await session.commitTransaction();
            return after - before;
          }),
        0,
      ),
    ];
  }),
];
