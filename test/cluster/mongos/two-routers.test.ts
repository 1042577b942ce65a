import type { MongoClient } from "mongodb";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type ShardedCluster, startShardedCluster } from "../../support/sharded-cluster.ts";

let cluster: ShardedCluster;
/** Each router learns by itself what the other one changed. */
let first: MongoClient;
let second: MongoClient;

beforeAll(async () => {
  cluster = await startShardedCluster({ routers: 2 });
  const [one, two] = cluster.uris;
  first = await cluster.connect(one);
  second = await cluster.connect(two);
});

afterAll(() => cluster?.[Symbol.asyncDispose]());

beforeEach(async () => {
  await first.db("app").dropDatabase();
  await first.db("admin").command({ enableSharding: "app", primaryShard: "shard0000" });
  await second
    .db("app")
    .collection("a")
    .insertMany([{ k: -1 }, { k: 1 }]);
  await second.db("app").collection("a").createIndex({ k: 1 });
});

/** Shards `app.a` over both shards through the first router. */
async function shardThroughFirst(): Promise<void> {
  const admin = first.db("admin");
  await admin.command({ shardCollection: "app.a", key: { k: 1 } });
  await admin.command({ split: "app.a", middle: { k: 0 } });
  await admin.command({ moveChunk: "app.a", find: { k: 1 }, to: "shard0001", _waitForDelete: true });
}

test("a collection sharded through one router is sharded for the other", async () => {
  await shardThroughFirst();
  const app = second.db("app");
  expect(await app.collection("a").countDocuments()).toBe(2);
  expect(await app.command({ collStats: "a" })).toMatchObject({ sharded: true, count: 2, nchunks: 2 });
});

test("each command finds out by itself", async () => {
  const app = second.db("app");
  const stale: [name: string, ask: () => Promise<unknown>, wanted: unknown][] = [
    ["collStats", () => app.command({ collStats: "a" }), { sharded: true }],
    ["listIndexes", () => app.collection("a").indexes(), [{ name: "_id_" }, { name: "k_1" }]],
    ["dataSize", () => app.command({ dataSize: "app.a" }), { numObjects: 2 }],
    ["validate", () => app.command({ validate: "a" }), { valid: true, raw: { shard0001: { valid: true } } }],
    [
      "explain",
      () => app.command({ explain: { find: "a" }, verbosity: "queryPlanner" }),
      { queryPlanner: { winningPlan: { stage: "SHARD_MERGE" } } },
    ],
    ["updateMany", () => app.collection("a").updateMany({}, { $set: { x: 1 } }), { modifiedCount: 2 }],
    ["drop", () => app.collection("a").drop(), true],
  ];
  for (const [name, ask, wanted] of stale) {
    await first.db("app").dropDatabase();
    await first.db("admin").command({ enableSharding: "app", primaryShard: "shard0000" });
    await app.collection("a").insertMany([{ k: -1 }, { k: 1 }]);
    await app.collection("a").createIndex({ k: 1 });
    await shardThroughFirst();
    const got = await ask();
    if (typeof wanted === "object") expect(got, name).toMatchObject(wanted as object);
    else expect(got, name).toBe(wanted);
  }
  await expect(app.command({ convertToCapped: "a", size: 4096 })).rejects.toMatchObject({ code: 26 });
});

test("an index made by a router that knew the collection unsharded is on all its shards", async () => {
  await shardThroughFirst();
  await second.db("app").collection("a").createIndex({ n: 1 }, { name: "n" });
  const stats = await first
    .db("app")
    .collection("a")
    .aggregate([{ $indexStats: {} }, { $match: { name: "n" } }])
    .toArray();
  expect(stats.map((s) => s.shard).sort()).toEqual(["shard0000", "shard0001"]);
});

test("a collection dropped and sharded anew by another key", async () => {
  await shardThroughFirst();
  expect(await second.db("app").collection("a").countDocuments()).toBe(2);
  await first.db("app").collection("a").drop();
  expect(await second.db("app").collection("a").countDocuments()).toBe(0);
  await first.db("admin").command({ shardCollection: "app.a", key: { other: 1 } });
  await second.db("app").collection("a").insertOne({ other: 1 });
  expect(await first.db("app").collection("a").countDocuments({ other: 1 })).toBe(1);
});

test("a database that moved, and one that is gone", async () => {
  await first.db("admin").command({ movePrimary: "app", to: "shard0001" });
  const app = second.db("app");
  expect((await app.listCollections().toArray()).map((c) => c.name)).toEqual(["a"]);
  await app.createCollection("made");
  expect(await first.db("app").collection("a").countDocuments()).toBe(2);
  expect(await app.collection("a").indexes()).toHaveLength(2);
  await first.db("app").dropDatabase();
  await expect(app.collection("a").indexes()).rejects.toMatchObject({ code: 26 });
  expect(await app.collection("a").countDocuments()).toBe(0);
  await app.collection("a").createIndex({ k: 1 });
  await app.collection("a").insertOne({ k: 5 });
  expect(await first.db("app").collection("a").countDocuments()).toBe(1);
});

test("a user made through one router logs in through the other", async () => {
  await first.db("app").command({ createUser: "u", pwd: "p", roles: ["read"] });
  const [, router] = cluster.routers;
  const uri = router?.uriOf({ username: "u", password: "p" }, "app");
  const client = await cluster.connect(uri);
  expect(await client.db("app").collection("a").countDocuments()).toBe(2);
  await expect(client.db("app").collection("a").insertOne({})).rejects.toMatchObject({ code: 13 });
  await first.db("app").command({ dropUser: "u" });
});

test("both routers are listed in config.mongos", async () => {
  const routers = await first.db("config").collection<{ _id: string }>("mongos").find().toArray();
  const ports = routers.map((r) => Number(r._id.split(":")[1]));
  expect(ports.sort()).toEqual(cluster.routers.map((r) => r.port).sort());
});
