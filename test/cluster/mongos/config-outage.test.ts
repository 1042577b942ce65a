import type { MongoClient } from "mongodb";
import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../../support/processes.ts";
import { type ShardedCluster, startShardedCluster } from "../../support/sharded-cluster.ts";

let cluster: ShardedCluster;
let client: MongoClient;

beforeAll(async () => {
  cluster = await startShardedCluster({ configServers: 3 });
  client = await cluster.connect();
  const admin = client.db("admin");
  await admin.command({ shardCollection: "app.a", key: { k: 1 } });
  await admin.command({ split: "app.a", middle: { k: 0 } });
  await admin.command({ moveChunk: "app.a", find: { k: 1 }, to: "shard0001" });
  await admin.command({ createUser: "reader", pwd: "pencil", roles: [{ role: "read", db: "app" }] });
  await client
    .db("app")
    .collection("a")
    .insertMany([{ k: -1 }, { k: 1 }]);
});

afterAll(() => cluster?.[Symbol.asyncDispose]());

test("administration goes on after the config primary stepped down", async () => {
  const admin = client.db("admin");
  const [primary, next] = cluster.configServers;
  await next?.admin({ replSetStepUp: 1 });
  await next?.inState("primary");
  expect(await admin.command({ addShardToZone: "shard0000", zone: "z" })).toMatchObject({ ok: 1 });
  expect(await admin.command({ balancerStatus: 1 })).toMatchObject({ mode: "full" });
  expect(await admin.command({ createUser: "late", pwd: "x", roles: [] })).toMatchObject({ ok: 1 });
  await primary?.inState("member");
});

test("with one config server left, data traffic and reading go on, and changes end at their time limit", async () => {
  const [first, second] = cluster.configServers;
  await Promise.all([first?.kill(), second?.kill()]);
  const admin = client.db("admin");
  await until("the last config server to be no primary", 30_000, async () => {
    const hello = await cluster.configServers[2]?.admin({ hello: 1 });
    return hello?.isWritablePrimary === false ? true : undefined;
  });

  const messages = client.db("app").collection("a");
  await messages.insertMany([{ k: -2 }, { k: 2 }]);
  expect(await messages.find().toArray()).toHaveLength(4);

  expect((await admin.command({ listShards: 1 })).shards).toHaveLength(2);
  expect((await admin.command({ getShardMap: 1 })).map).toHaveProperty("shard0001");
  const nearest = await client.db("config").collection("shards").find({}, { readPreference: "nearest" }).toArray();
  expect(nearest).toHaveLength(2);

  const late = { code: 50, codeName: "MaxTimeMSExpired" };
  const maxTimeMS = 1_500;
  const range = { updateZoneKeyRange: "app.a", min: { k: 0 }, max: { k: 5 }, zone: "z" };
  for (const command of [
    { addShardToZone: "shard0001", zone: "y", maxTimeMS },
    { ...range, maxTimeMS },
    { enableSharding: "fresh", maxTimeMS },
    { balancerStop: 1, maxTimeMS },
    { createUser: "never", pwd: "x", roles: [], maxTimeMS },
  ]) {
    const started = performance.now();
    await expect(admin.command(command), JSON.stringify(command)).rejects.toMatchObject(late);
    expect(performance.now() - started, JSON.stringify(command)).toBeLessThan(4_000);
  }
  const primaryRead = client.db("config").command({ find: "shards", maxTimeMS });
  await expect(primaryRead).rejects.toMatchObject(late);
});

test("known users still log in and keep their privileges", async () => {
  const uri = cluster.router.uriOf({ username: "reader", password: "pencil" });
  const reader = await cluster.connect(uri);
  expect(await reader.db("app").collection("a").find().toArray()).toHaveLength(4);
  await expect(reader.db("app").collection("a").insertOne({ k: 3 })).rejects.toMatchObject({ code: 13 });
});

test("when the config servers are back, changes work again", async () => {
  const [first, second] = cluster.configServers;
  await Promise.all([first?.restart(), second?.restart()]);
  const admin = client.db("admin");
  expect(await admin.command({ addShardToZone: "shard0001", zone: "y", maxTimeMS: 30_000 })).toMatchObject({ ok: 1 });
});
