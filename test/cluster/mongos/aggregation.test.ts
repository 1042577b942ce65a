/** One pipeline over the same documents, sharded by range, sharded by hash and unsharded: the answers must be equal. */
import { BSON, type Collection, type Db, type Document, type MongoClient } from "mongodb";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ShardedCluster, startShardedCluster } from "../../support/sharded-cluster.ts";

let cluster: ShardedCluster;
let client: MongoClient;
let db: Db;

const documents: readonly (Document & { k: number; n: number })[] = Array.from({ length: 60 }, (_, i) => ({
  _id: i,
  k: i - 30,
  n: i % 7,
  s: `s${i % 5}`,
  t: [i % 3, i % 4],
  d: new Date(1e12 + i * 1000),
  x: { y: i % 2 },
}));

/** Shards a collection on two shards, split at 0. */
async function shardAtZero(name: string): Promise<void> {
  const admin = client.db("admin");
  const [, second] = cluster.shards;
  await admin.command({ shardCollection: `eq.${name}`, key: { k: 1 } });
  await admin.command({ split: `eq.${name}`, middle: { k: 0 } });
  await admin.command({ moveChunk: `eq.${name}`, find: { k: 1 }, to: second?.name });
}

beforeAll(async () => {
  cluster = await startShardedCluster();
  client = await cluster.connect();
  db = client.db("eq");
  const admin = client.db("admin");
  await admin.command({ enableSharding: "eq", primaryShard: cluster.shards[0]?.name });
  for (const name of ["ranged", "foreign", "target"]) await shardAtZero(name);
  await admin.command({ shardCollection: "eq.hashed", key: { k: "hashed" } });
  for (const name of ["ranged", "hashed", "plain"]) await db.collection<Document>(name).insertMany(documents);
  const named = documents.slice(0, 40).map((one) => ({ ...one, name: `n${one.n}` }));
  for (const name of ["foreign", "plainForeign"]) await db.collection<Document>(name).insertMany(named);
});

afterAll(() => cluster?.[Symbol.asyncDispose]());

const exact = (docs: readonly Document[]): string[] => docs.map((one) => BSON.EJSON.stringify(one, { relaxed: false }));

/** What a read gives on each kind of collection; `foreign` is its partner for joins. */
async function expectEqual(
  read: (source: Collection<Document>, foreign: string) => Promise<Document[]>,
  sorted: boolean,
): Promise<void> {
  const answer = async (name: string, foreign: string): Promise<string[]> => {
    const lines = exact(await read(db.collection<Document>(name), foreign));
    return sorted ? lines : lines.sort();
  };
  const expected = await answer("plain", "plainForeign");
  expect(expected.length).toBeGreaterThan(0);
  expect(await answer("ranged", "foreign")).toEqual(expected);
  expect(await answer("hashed", "foreign")).toEqual(expected);
}

describe("finds", () => {
  test.each<[string, Document, Document]>([
    ["sort by two fields", {}, { sort: { n: 1, k: -1 } }],
    ["skip and limit", { n: { $gt: 1 } }, { sort: { n: -1, _id: 1 }, skip: 5, limit: 12 }],
    ["a negative limit", {}, { sort: { k: 1 }, limit: -5 }],
    ["a projection without the sort's fields", {}, { sort: { s: 1, k: 1 }, projection: { x: 1, _id: 0 } }],
    ["small batches", {}, { sort: { k: 1 }, batchSize: 3 }],
    ["sort by an array", {}, { sort: { t: 1, _id: 1 } }],
    ["a collation", { s: "S1" }, { collation: { locale: "en", strength: 2 }, sort: { s: 1, _id: 1 } }],
    ["$expr", { $expr: { $gt: ["$k", "$n"] } }, { sort: { k: 1 } }],
    ["$or over both shards", { $or: [{ k: 5 }, { k: -5 }, { n: 3 }] }, { sort: { k: 1 } }],
    ["a negated condition", { k: { $not: { $gt: 0 } } }, { sort: { k: 1 } }],
  ])("%s", async (_name, filter, options) => {
    await expectEqual((source) => source.find(filter, options).toArray(), true);
  });
});

describe("aggregates", () => {
  const k = { $sum: "$k" };
  test.each<[string, (foreign: string) => Document[]]>([
    [
      "$group with every accumulator that shards can prepare",
      () => [
        {
          $group: {
            _id: "$n",
            s: k,
            a: { $avg: "$k" },
            mi: { $min: "$k" },
            ma: { $max: "$k" },
            sd: { $stdDevPop: "$k" },
            c: { $count: {} },
          },
        },
        { $sort: { _id: 1 } },
      ],
    ],
    [
      "$group after a sort",
      () => [
        { $sort: { _id: 1 } },
        { $group: { _id: "$n", p: { $push: "$k" }, f: { $first: "$k" }, l: { $last: "$k" } } },
        { $sort: { _id: 1 } },
      ],
    ],
    [
      "$topN",
      () => [{ $group: { _id: "$n", p: { $topN: { n: 2, sortBy: { k: -1 }, output: "$k" } } } }, { $sort: { _id: 1 } }],
    ],
    [
      "sums of longs and decimals keep their type",
      () => [
        {
          $group: {
            _id: null,
            d: { $sum: { $toDecimal: "$k" } },
            l: { $sum: { $toLong: "$n" } },
            f: { $sum: { $multiply: ["$k", 0.5] } },
          },
        },
      ],
    ],
    ["$group on a missing field", () => [{ $group: { _id: "$nosuch", c: { $sum: 1 } } }]],
    ["$count", () => [{ $match: { n: 2 } }, { $count: "total" }]],
    ["$bucket", () => [{ $bucket: { groupBy: "$k", boundaries: [-30, 0, 10, 40], output: { c: { $sum: 1 } } } }]],
    ["$bucketAuto", () => [{ $bucketAuto: { groupBy: "$k", buckets: 4 } }]],
    [
      "$facet",
      () => [{ $facet: { a: [{ $match: { n: 1 } }, { $count: "c" }], b: [{ $sort: { k: 1 } }, { $limit: 2 }] } }],
    ],
    [
      "sort, skip, limit, project, skip, limit",
      () => [
        { $sort: { k: -1 } },
        { $skip: 4 },
        { $limit: 6 },
        { $project: { k: 1, z: { $add: ["$k", 1] } } },
        { $skip: 1 },
        { $limit: 3 },
      ],
    ],
    [
      "$match behind $limit",
      () => [{ $sort: { k: 1 } }, { $limit: 10 }, { $match: { n: { $gt: 3 } } }, { $sort: { _id: -1 } }],
    ],
    [
      "$setWindowFields",
      () => [
        { $setWindowFields: { partitionBy: "$n", sortBy: { k: 1 }, output: { r: { $rank: {} } } } },
        { $sort: { _id: 1 } },
        { $project: { r: 1 } },
      ],
    ],
    [
      "$lookup by fields",
      (from) => [
        { $lookup: { from, localField: "n", foreignField: "n", as: "j" } },
        { $sort: { _id: 1 } },
        { $project: { c: { $size: "$j" } } },
      ],
    ],
    [
      "$lookup of an unsharded collection",
      () => [
        { $lookup: { from: "plainForeign", localField: "n", foreignField: "n", as: "j" } },
        { $sort: { _id: 1 } },
        { $project: { c: { $size: "$j" } } },
      ],
    ],
    [
      "$lookup with a pipeline",
      (from) => [
        {
          $lookup: {
            from,
            let: { nn: "$n" },
            pipeline: [
              { $match: { $expr: { $eq: ["$n", "$$nn"] } } },
              { $sort: { _id: 1 } },
              { $limit: 1 },
              { $project: { name: 1 } },
            ],
            as: "j",
          },
        },
        { $sort: { _id: 1 } },
        { $project: { j: 1 } },
      ],
    ],
    [
      "$lookup inside $lookup",
      (from) => [
        { $match: { k: { $lt: -25 } } },
        {
          $lookup: {
            from,
            pipeline: [
              { $match: { k: 1 } },
              { $lookup: { from, localField: "n", foreignField: "n", as: "q" } },
              { $project: { c: { $size: "$q" } } },
            ],
            as: "j",
          },
        },
        { $sort: { _id: 1 } },
        { $project: { j: 1 } },
      ],
    ],
    [
      "$unionWith",
      (coll) => [
        { $project: { n: 1 } },
        { $unionWith: { coll, pipeline: [{ $match: { n: 1 } }, { $project: { name: 1 } }] } },
        { $sort: { _id: 1, name: 1 } },
      ],
    ],
    [
      "$graphLookup",
      (from) => [
        { $match: { k: { $in: [-30, 5] } } },
        { $graphLookup: { from, startWith: "$n", connectFromField: "n", connectToField: "k", as: "g", maxDepth: 2 } },
        { $sort: { _id: 1 } },
        { $project: { c: { $size: "$g" } } },
      ],
    ],
    [
      "strings that look like field paths",
      () => [
        { $addFields: { p: { $literal: "$n" } } },
        { $group: { _id: "$n", p: { $addToSet: "$p" } } },
        { $sort: { _id: 1 } },
      ],
    ],
    [
      "$densify",
      () => [
        { $match: { n: 1 } },
        { $project: { k: 1 } },
        { $densify: { field: "k", range: { step: 1, bounds: [0, 10] } } },
        { $sort: { k: 1, _id: 1 } },
      ],
    ],
  ])("%s", async (_name, pipeline) => {
    await expectEqual((source, foreign) => source.aggregate(pipeline(foreign)).toArray(), true);
  });

  test("a merging half over more than one message's worth of documents, and nothing is left behind", async () => {
    const text = "x".repeat(1_000_000);
    await client.db("admin").command({ shardCollection: "eq.large", key: { k: "hashed" } });
    await db.collection("large").insertMany(Array.from({ length: 30 }, (_, k) => ({ k, text })));
    const ranks = await db
      .collection("large")
      .aggregate([
        { $setWindowFields: { sortBy: { k: 1 }, output: { rank: { $rank: {} } } } },
        { $project: { _id: 0, k: 1, rank: 1 } },
      ])
      .toArray();
    expect(ranks).toEqual(Array.from({ length: 30 }, (_, k) => ({ k, rank: k + 1 })));
    const left = await db.listCollections({ name: /^tmp\./ }).toArray();
    expect(left).toEqual([]);
  });
});

describe("output stages", () => {
  test.each(["ranged", "plain"])("$merge from %s into a sharded collection", async (source) => {
    const target = db.collection<Document>("target");
    await target.deleteMany({});
    await db
      .collection(source)
      .aggregate([{ $match: { n: { $lt: 4 } } }, { $project: { k: 1, n: 1 } }, { $merge: { into: "target" } }])
      .toArray();
    expect(await target.countDocuments()).toBe(documents.filter((one) => one.n < 4).length);
    await db
      .collection(source)
      .aggregate([
        { $project: { k: 1, q: "z" } },
        { $merge: { into: "target", whenMatched: "replace", whenNotMatched: "discard" } },
      ])
      .toArray();
    expect(await target.countDocuments({ q: "z" })).toBe(documents.filter((one) => one.n < 4).length);
    expect(await target.countDocuments({ n: { $exists: true } })).toBe(0);
  });

  test.each(["ranged", "plain"])("$out from %s, here and in another database", async (source) => {
    const groups = [{ $group: { _id: "$n", c: { $sum: 1 } } }];
    await db
      .collection(source)
      .aggregate([...groups, { $out: `out_${source}` }])
      .toArray();
    expect(await db.collection(`out_${source}`).countDocuments()).toBe(7);
    await db
      .collection(source)
      .aggregate([...groups, { $out: { db: "eq2", coll: `out_${source}` } }])
      .toArray();
    expect(await client.db("eq2").collection(`out_${source}`).countDocuments()).toBe(7);
  });

  test("$out into a sharded collection is refused", async () => {
    await expect(
      db
        .collection("plain")
        .aggregate([{ $out: "target" }])
        .toArray(),
    ).rejects.toMatchObject({ code: 28769 });
  });
});

describe("views on a sharded collection", () => {
  test("find, count, distinct and $lookup see the view", async () => {
    await db.createCollection("view", { viewOn: "ranged", pipeline: [{ $match: { n: 1 } }] });
    const view = db.collection<Document>("view");
    const inView = documents.filter((one) => one.n === 1);
    expect((await view.find({ k: { $gt: 0 } }, { sort: { k: 1 } }).toArray()).map((one) => one.k)).toEqual(
      inView.map((one) => one.k).filter((value) => value > 0),
    );
    expect(await view.countDocuments()).toBe(inView.length);
    expect(await view.estimatedDocumentCount()).toBe(inView.length);
    expect(await view.distinct("n")).toEqual([1]);
    const [joined] = await db
      .collection("plain")
      .aggregate([
        { $lookup: { from: "view", localField: "n", foreignField: "n", as: "j" } },
        { $group: { _id: null, pairs: { $sum: { $size: "$j" } } } },
      ])
      .toArray();
    expect(joined?.pairs).toBe(inView.length ** 2);
  });
});
