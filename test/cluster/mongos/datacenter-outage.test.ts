// The loss of a datacenter, asked of the router that lives in the other one: what a real mongos was seen to answer.
import { MaxKey, MinKey, type MongoClient, ReadPreference } from "mongodb";
import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../../support/processes.ts";
import { type MemberOptions, type ShardedCluster, startShardedCluster } from "../../support/sharded-cluster.ts";

let cluster: ShardedCluster;
let client: MongoClient;

const member = (name: string, datacenter: string, priority: number): MemberOptions => ({
  tags: { datacenter, member: name },
  priority,
});
/** Two members at home and one without priority in the other datacenter. */
const shard = (name: string, home: string, away: string) => ({
  name,
  zones: [home],
  members: [member(`${name}-0`, home, 2), member(`${name}-1`, home, 1), member(`${name}-2`, away, 0)],
});

const messages = () => client.db("chat").collection("messages");
/** Milliseconds that a question takes, and its answer or error. */
async function timed(ask: () => Promise<unknown>): Promise<{ ms: number; answer: unknown }> {
  const started = performance.now();
  const answer = await ask().catch((error: unknown) => error);
  return { ms: performance.now() - started, answer };
}

beforeAll(async () => {
  cluster = await startShardedCluster({
    configServers: [member("config-0", "alfa", 2), member("config-1", "alfa", 1), member("config-2", "bravo", 1)],
    shards: [shard("shard0000", "alfa", "bravo"), shard("shard0001", "bravo", "alfa")],
    routers: 2,
  });
  const [, bravo] = cluster.uris;
  client = await cluster.connect(bravo);
  const admin = client.db("admin");
  const low = new MinKey();
  const high = new MaxKey();
  // The second range of each zone closes the gap behind it: naming a datacenter reaches one shard only.
  const ranges = [
    ["alfa", { datacenter: "alfa", userid: low }, { datacenter: "alfa", userid: high }],
    ["alfa", { datacenter: "alfa", userid: high }, { datacenter: "bravo", userid: low }],
    ["bravo", { datacenter: "bravo", userid: low }, { datacenter: "bravo", userid: high }],
    ["bravo", { datacenter: "bravo", userid: high }, { datacenter: high, userid: high }],
  ] as const;
  for (const [zone, min, max] of ranges) await admin.command({ updateZoneKeyRange: "chat.messages", min, max, zone });
  await admin.command({ shardCollection: "chat.messages", key: { datacenter: 1, userid: 1 } });
  await messages().insertMany(
    ["alfa", "bravo"].flatMap((datacenter) => [1, 2].map((userid) => ({ datacenter, userid }))),
    { writeConcern: { w: 3 } },
  );
  // A secondary that was never asked has no routing metadata and can only get it from its primary: ask each once.
  for (const [datacenter, name] of [
    ["alfa", "shard0000"],
    ["bravo", "shard0001"],
  ] as const)
    for (const i of [0, 1, 2]) {
      const readPreference = new ReadPreference("nearest", [{ member: `${name}-${i}` }]);
      await messages().find({ datacenter }, { readPreference }).toArray();
    }

  await cluster.routers[0]?.kill();
  await Promise.all(cluster.membersTagged("datacenter", "alfa").map((m) => m.kill()));
});

afterAll(() => cluster?.[Symbol.asyncDispose]());

test("the living datacenter's own data is written and read", async () => {
  const insert = await timed(() =>
    messages().insertOne({ datacenter: "bravo", userid: 3 }, { writeConcern: { w: "majority" } }),
  );
  expect(insert.answer).toMatchObject({ acknowledged: true });
  expect(insert.ms).toBeLessThan(5_000);
  expect(await messages().countDocuments({ datacenter: "bravo" })).toBe(3);
});

test("a transaction within it commits", async () => {
  await client.withSession((session) =>
    session.withTransaction(async () => {
      await messages().insertOne({ datacenter: "bravo", userid: 10 }, { session });
      await messages().updateOne({ datacenter: "bravo", userid: 1 }, { $set: { seen: true } }, { session });
    }),
  );
  expect(await messages().countDocuments({ datacenter: "bravo", userid: 10 })).toBe(1);
});

test("a nearest read over both shards is complete, once the members are warm", async () => {
  const { ms, answer } = await timed(() =>
    messages().find({}, { readPreference: "nearest", maxTimeMS: 5_000 }).toArray(),
  );
  expect(answer).toHaveLength(6);
  expect(ms).toBeLessThan(3_000);
});

test("a write for the lost datacenter ends at its time limit", async () => {
  const { ms, answer } = await timed(() =>
    client.db("chat").command({ insert: "messages", documents: [{ datacenter: "alfa", userid: 3 }], maxTimeMS: 1_500 }),
  );
  expect(answer).toMatchObject({ ok: 1, n: 0, writeErrors: [{ index: 0, code: 50 }] });
  expect(ms).toBeGreaterThan(1_300);
  expect(ms).toBeLessThan(4_000);
});

test("without a limit it is refused after fifteen seconds", async () => {
  const { ms, answer } = await timed(() => messages().insertOne({ datacenter: "alfa", userid: 4 }));
  expect(answer).toMatchObject({ code: 133 });
  expect(ms).toBeGreaterThan(13_000);
  expect(ms).toBeLessThan(25_000);
});

test("a read from primaries ends at its time limit", async () => {
  const { ms, answer } = await timed(() => messages().find({}, { maxTimeMS: 1_500 }).toArray());
  expect(answer).toMatchObject({ code: 50, codeName: "MaxTimeMSExpired" });
  expect(ms).toBeLessThan(4_000);
});

test("allowPartialResults gives what can be had, and says so", async () => {
  const reply = await client.db("chat").command({ find: "messages", allowPartialResults: true, maxTimeMS: 1_500 });
  expect(reply.cursor.partialResultsReturned).toBe(true);
  const datacenters = reply.cursor.firstBatch.map(({ datacenter }: { datacenter: string }) => datacenter);
  expect(new Set(datacenters)).toEqual(new Set(["bravo"]));
});

test("metadata cannot change, but can be read", async () => {
  const maxTimeMS = 1_500;
  const admin = client.db("admin");
  const late = { code: 50 };
  const indexes = [{ key: { n: 1 }, name: "n" }];
  await expect(client.db("chat").command({ createIndexes: "messages", indexes, maxTimeMS })).rejects.toMatchObject(
    late,
  );
  await expect(admin.command({ addShardToZone: "shard0001", zone: "x", maxTimeMS })).rejects.toMatchObject(late);
  await expect(client.db("config").command({ find: "shards", maxTimeMS })).rejects.toMatchObject(late);
  const nearest = await client.db("config").collection("shards").find({}, { readPreference: "nearest" }).toArray();
  expect(nearest).toHaveLength(2);
  expect((await admin.command({ listShards: 1 })).shards).toHaveLength(2);
});

test("a router started after the loss serves writes and nearest reads", async () => {
  const started = performance.now();
  const router = await cluster.addRouter();
  expect(performance.now() - started).toBeLessThan(15_000);
  const late = (await cluster.connect(router.uri)).db("chat").collection("messages");
  expect(await late.insertOne({ datacenter: "bravo", userid: 20 })).toMatchObject({ acknowledged: true });
  expect(await late.find({}, { readPreference: "nearest", maxTimeMS: 10_000 }).toArray()).toHaveLength(7);
});

test("when the datacenter is back, its data is written again and nothing acknowledged is missing", async () => {
  await Promise.all(cluster.membersTagged("datacenter", "alfa").map((m) => m.restart()));
  await until("a write for alfa", 45_000, async () => {
    const { insertedId } = await messages().insertOne({ datacenter: "alfa", userid: 5 }, { maxTimeMS: 5_000 });
    return insertedId;
  });
  const users = (await messages().find({ datacenter: "bravo" }).sort({ userid: 1 }).toArray()).map((m) => m.userid);
  expect(users).toEqual([1, 2, 3, 10, 20]);
  await client.db("chat").command({ createIndexes: "messages", indexes: [{ key: { n: 1 }, name: "n" }] });
});
