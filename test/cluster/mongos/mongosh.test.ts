import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import path from "node:path";
import { promisify } from "node:util";
import { EJSON } from "bson";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ShardedCluster, startShardedCluster } from "../../support/sharded-cluster.ts";

const run = promisify(execFile);
const mongoshProgram = path.join(
  path.dirname(createRequire(import.meta.url).resolve("mongosh/package.json")),
  "bin/mongosh.js",
);

let cluster: ShardedCluster;

beforeAll(async () => {
  cluster = await startShardedCluster({ shards: [{}, {}, { spare: true }] });
});

afterAll(() => cluster?.[Symbol.asyncDispose]());

/** What mongosh prints for a script; the shell's own folder is the cluster's. */
async function mongosh(script: string): Promise<string> {
  const args = [mongoshProgram, cluster.uri, "--quiet", "--norc", "--eval", script];
  const env = { ...process.env, HOME: cluster.folder, NO_COLOR: "1" };
  const { stdout, stderr } = await run(process.execPath, args, { env, timeout: 60_000 });
  return `${stdout}${stderr}`.trim();
}

/** The values of expressions in mongosh, one after another; an error becomes its `codeName`. */
async function values(...expressions: readonly string[]): Promise<unknown[]> {
  const asked = expressions.map(
    (e) => `try { const x = ${e}; show(x); } catch (e) { show({ thrown: e.codeName ?? e.message }); }`,
  );
  const show = "const show = (x) => print('=> ' + EJSON.stringify({ x: x === undefined ? null : x }));";
  const text = await mongosh(`${show} ${asked.map((e) => `{ ${e} }`).join("\n")}`);
  return text
    .split("\n")
    .filter((line) => line.startsWith("=> "))
    .map((line) => EJSON.parse(line.slice(3)).x);
}

const succeeded = expect.objectContaining({ ok: 1 });

test("sharding and zones by sh helpers, new names and old", async () => {
  const answers = await values(
    `sh.addShardToZone("shard0000", "alfa")`,
    `sh.addShardTag("shard0001", "bravo")`,
    `sh.updateZoneKeyRange("chat.messages", { datacenter: "alfa", userid: MinKey() }, { datacenter: "alfa", userid: MaxKey() }, "alfa")`,
    `sh.addTagRange("chat.messages", { datacenter: "bravo", userid: MinKey() }, { datacenter: "bravo", userid: MaxKey() }, "bravo")`,
    `sh.enableSharding("chat", "shard0000")`,
    `sh.shardCollection("chat.messages", { datacenter: 1, userid: 1 })`,
    `sh.shardCollection("chat.users", { userid: 1 }, true)`,
    `sh.shardCollection("chat.users", { other: 1 })`,
    `sh.addShardToZone("nosuchshard", "alfa")`,
    `db.getSiblingDB("config").tags.find({ ns: "chat.messages" }).sort({ min: 1 }).toArray().map((t) => t.tag)`,
    `db.getSiblingDB("chat").messages.insertMany([{ datacenter: "alfa", userid: 1 }, { datacenter: "bravo", userid: 2 }]).insertedIds.length`,
    `db.getSiblingDB("chat").messages.countDocuments()`,
  );
  expect(answers).toEqual([
    ...Array.from({ length: 5 }, () => succeeded),
    expect.objectContaining({ ok: 1, collectionsharded: "chat.messages" }),
    expect.objectContaining({ ok: 1, collectionsharded: "chat.users" }),
    { thrown: "AlreadyInitialized" },
    { thrown: "ShardNotFound" },
    ["alfa", "bravo"],
    null,
    2,
  ]);
});

test("splitting and moving", async () => {
  const chunks = `db.getSiblingDB("config").chunks.find({ uuid: db.getSiblingDB("config").collections.findOne({ _id: "chat.users" }).uuid }).sort({ min: 1 }).toArray().map((c) => c.shard)`;
  const answers = await values(
    `sh.splitAt("chat.users", { userid: 0 })`,
    `sh.splitAt("chat.users", { userid: 100 })`,
    `sh.moveChunk("chat.users", { userid: 0 }, "shard0001")`,
    chunks,
    `sh.moveRange("chat.users", "shard0001", { userid: 100 }, { userid: MaxKey() })`,
    chunks,
    `sh.moveChunk("chat.users", { userid: 0 }, "nosuchshard")`,
    `sh.splitAt("chat.nosuch", { userid: 0 })`,
  );
  expect(answers).toEqual([
    ...[succeeded, succeeded, succeeded],
    ["shard0000", "shard0001", "shard0000"],
    succeeded,
    ["shard0000", "shard0001", "shard0001"],
    { thrown: "ShardNotFound" },
    { thrown: "NamespaceNotSharded" },
  ]);
});

test("the balancer", async () => {
  const answers = await values(
    "sh.getBalancerState()",
    "sh.stopBalancer()",
    "sh.getBalancerState()",
    "sh.startBalancer()",
    "sh.getBalancerState()",
    "sh.isBalancerRunning()",
    `sh.balancerCollectionStatus("chat.messages")`,
    `sh.disableBalancing("chat.messages")`,
    `db.getSiblingDB("config").collections.findOne({ _id: "chat.messages" }).noBalance`,
    `sh.enableBalancing("chat.messages")`,
    `sh.balancerCollectionStatus("chat.nosuch")`,
  );
  expect(answers).toEqual([
    ...[true, succeeded, false, succeeded, true],
    expect.objectContaining({ mode: "full" }),
    expect.objectContaining({ balancerCompliant: true }),
    expect.objectContaining({ matchedCount: 1 }),
    true,
    expect.objectContaining({ matchedCount: 1 }),
    { thrown: "NamespaceNotSharded" },
  ]);
});

test("sh.status shows shards, routers, zones and chunks", async () => {
  const text = await mongosh("sh.status()");
  expect(text).toContain("shard0000/127.0.0.1:");
  expect(text).toMatch(/active mongoses\n\[ \{ '\d+\.\d+\.\d+': 1 \} \]/);
  expect(text).toMatch(/'Currently enabled': 'yes'/);
  expect(text).toMatch(/'chat\.messages': \{\s+shardKey: \{ datacenter: 1, userid: 1 \}/);
  expect(text).toMatch(/tag: 'alfa',\s+min: \{ datacenter: 'alfa', userid: MinKey\(\) \}/);
  expect(text).toMatch(/numOwnedDocuments: 1/);
});

test("collections: distribution, statistics, indexes", async () => {
  const text = await mongosh(`db.getSiblingDB("chat").messages.getShardDistribution()`);
  expect(text).toMatch(/Shard shard0000 at shard0000\/127\.0\.0\.1:\d+/);
  expect(text).toMatch(/Totals/);
  expect(text).toMatch(/docs: 2/);
  const answers = await values(
    `db.getSiblingDB("chat").messages.stats().sharded`,
    `db.getSiblingDB("chat").messages.stats().count`,
    `Object.keys(db.getSiblingDB("chat").messages.stats().shards).sort()`,
    `db.getSiblingDB("chat").messages.getIndexes().map((i) => i.name).sort()`,
    `db.getSiblingDB("chat").users.getIndexes().map((i) => [i.name, i.unique === true])`,
    `db.getSiblingDB("chat").messages.createIndex({ text: 1 })`,
    `db.getSiblingDB("chat").messages.createIndex({ email: 1 }, { unique: true })`,
    `db.getSiblingDB("chat").getCollectionNames().sort()`,
    `db.getSiblingDB("chat").stats().objects`,
    `db.getSiblingDB("chat").messages.find({ datacenter: "alfa", userid: 1 }).explain().queryPlanner.winningPlan.stage`,
    `db.getSiblingDB("chat").messages.find().explain("executionStats").executionStats.nReturned`,
  );
  expect(answers).toEqual([
    ...[true, 2, ["shard0000", "shard0001"], ["_id_", "datacenter_1_userid_1"]],
    [
      ["_id_", false],
      ["userid_1", true],
    ],
    "text_1",
    { thrown: "CannotCreateIndex" },
    ["messages", "users"],
    2,
    "SINGLE_SHARD",
    2,
  ]);
});

test("show commands and users", async () => {
  expect(await mongosh("show dbs")).toMatch(/admin\s.*\nchat\s.*\nconfig\s/);
  expect(await mongosh("use('chat'); db.getCollectionNames().sort().join()")).toContain("messages,users");
  const answers = await values(
    `db.getSiblingDB("admin").createUser({ user: "app", pwd: "pencil", roles: [{ role: "readWrite", db: "chat" }] })`,
    `db.getSiblingDB("admin").getUser("app").roles`,
    `db.getSiblingDB("admin").createUser({ user: "app", pwd: "pencil", roles: [] })`,
    `db.getSiblingDB("admin").dropUser("app")`,
    "db.hello().msg",
    "db.serverStatus().process",
  );
  expect(answers).toEqual([
    succeeded,
    [{ role: "readWrite", db: "chat" }],
    { thrown: expect.stringMatching(/51003|already exists/) },
    succeeded,
    "isdbgrid",
    "mongos",
  ]);
});

test("shards: added, listed, drained and removed", async () => {
  const spare = cluster.shards[2]?.connectionString ?? "";
  const answers = await values(
    `sh.addShard("${spare}")`,
    "sh.listShards().map((s) => s._id)",
    `db.adminCommand({ removeShard: "shard0002" })`,
    `db.adminCommand({ removeShard: "shard0002" })`,
    "sh.listShards().map((s) => s._id)",
    `db.adminCommand({ removeShard: "shard0002" })`,
    `sh.removeRangeFromZone("chat.messages", { datacenter: "alfa", userid: MinKey() }, { datacenter: "alfa", userid: MaxKey() })`,
    `sh.removeTagRange("chat.messages", { datacenter: "bravo", userid: MinKey() }, { datacenter: "bravo", userid: MaxKey() }, "bravo")`,
    `sh.removeShardFromZone("shard0000", "alfa")`,
    `sh.removeShardTag("shard0001", "bravo")`,
    `db.getSiblingDB("config").tags.countDocuments()`,
  );
  expect(answers).toEqual([
    expect.objectContaining({ ok: 1, shardAdded: "shard0002" }),
    ["shard0000", "shard0001", "shard0002"],
    expect.objectContaining({ msg: "draining started successfully", state: "started", dbsToMove: [] }),
    expect.objectContaining({ state: expect.stringMatching(/^(ongoing|completed)$/) }),
    expect.arrayContaining(["shard0000", "shard0001"]),
    expect.anything(),
    ...[succeeded, succeeded, succeeded, succeeded],
    0,
  ]);
});
