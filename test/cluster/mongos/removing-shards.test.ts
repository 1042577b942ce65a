import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../../support/processes.ts";
import { type ShardedCluster, startShardedCluster } from "../../support/sharded-cluster.ts";

let cluster: ShardedCluster;

beforeAll(async () => {
  cluster = await startShardedCluster({ setParameters: { orphanCleanupDelaySecs: 1 } });
});

afterAll(() => cluster?.[Symbol.asyncDispose]());

test("a shard with chunks and a database drains step by step", async () => {
  const client = await cluster.connect();
  const admin = client.db("admin");
  await admin.command({ enableSharding: "moving", primaryShard: "shard0001" });
  await client.db("moving").collection("plain").insertOne({ a: 1 });
  await admin.command({ enableSharding: "app", primaryShard: "shard0000" });
  await admin.command({ shardCollection: "app.a", key: { k: 1 } });
  await admin.command({ split: "app.a", middle: { k: 0 } });
  await admin.command({ moveChunk: "app.a", find: { k: 1 }, to: "shard0001" });
  await client
    .db("app")
    .collection("a")
    .insertMany([{ k: -1 }, { k: 1 }, { k: 2 }]);

  const removeShard = () => admin.command({ removeShard: "shard0001" });
  expect(await removeShard()).toMatchObject({
    ...{ msg: "draining started successfully", state: "started", shard: "shard0001" },
    ...{ note: "you need to drop or movePrimary these databases", dbsToMove: ["moving"] },
  });
  expect(await removeShard()).toMatchObject({ state: "ongoing", remaining: { dbs: 1 }, dbsToMove: ["moving"] });
  const { shards } = await admin.command({ listShards: 1 });
  expect(shards).toContainEqual(expect.objectContaining({ _id: "shard0001", draining: true }));

  // The balancer moves the chunk, but nothing moves a database by itself.
  await until("the chunks to leave shard0001", 45_000, async () => {
    const { remaining } = await removeShard();
    return Number(remaining.chunks) === 0 && Number(remaining.dbs) === 1 ? true : undefined;
  });
  await admin.command({ movePrimary: "moving", to: "shard0000" });
  await until("shard0001 to be gone", 30_000, async () => {
    const answer = await removeShard();
    return answer.state === "completed" ? answer : undefined;
  });

  expect((await admin.command({ listShards: 1 })).shards).toHaveLength(1);
  await expect(removeShard()).rejects.toMatchObject({ code: 70, codeName: "ShardNotFound" });
  await expect(admin.command({ removeShard: "shard0000" })).rejects.toMatchObject({ codeName: "IllegalOperation" });
  const kept = await client.db("app").collection("a").find().sort({ k: 1 }).toArray();
  expect(kept.map((d) => d.k)).toEqual([-1, 1, 2]);
  expect(await client.db("moving").collection("plain").findOne({})).toMatchObject({ a: 1 });

  const second = cluster.shards[1];
  if (second === undefined) throw new Error("The cluster has no second shard.");
  // Databases that it still holds keep it out: they could hide others of the same name.
  const again = admin.command({ addShard: second.connectionString });
  await expect(again).rejects.toMatchObject({ code: 96, codeName: "OperationFailed" });
  for (const db of ["app", "moving"]) await second.members[0]?.client.db(db).dropDatabase();
  expect(await admin.command({ addShard: second.connectionString })).toMatchObject({ shardAdded: "shard0001" });
});
