import { type Document, MaxKey, MinKey, MongoClient } from "mongodb";
import { Connections } from "../infra/cluster/connections.ts";
import { detectDrift } from "../infra/cluster/drift.ts";
import type { Connection } from "../infra/model/connection.ts";
import { type ClusterSpec, defineCluster, MAX_KEY, MIN_KEY, sharded } from "../infra/model/index.ts";
import { ADMIN, type ShardedCluster, startShardedCluster } from "../test/support/sharded-cluster.ts";
import { type Benchmark, medianOf, timed } from "./measure.ts";

const COLLECTIONS = 1_000;
const RANGES_EACH = 10;
const INDEX_READS_AT_ONCE = 16;
/** Asking object by object is slow and even: a tenth of it, times ten, tells the whole. */
const SAMPLE = 0.1;
const DATABASE = "bench";

/** The drift check of 1,000 collections with 10,000 ranges, against object by object and against the raw reads. */
export const driftCheck: Benchmark = {
  name: "drift",
  title: `drift check of ${COLLECTIONS} sharded collections with ${COLLECTIONS * RANGES_EACH} zone ranges`,
  async run(log) {
    await using cluster = await startShardedCluster({
      shards: [
        { zones: ["alfa"], members: [{ tags: { datacenter: "alfa" } }] },
        { zones: ["bravo"], members: [{ tags: { datacenter: "bravo" } }] },
      ],
      configServers: [{ tags: { datacenter: "alfa" } }],
    });
    const client = await cluster.connect();
    log(`set up in ${Math.round(await timed(() => setUp(client)))} ms`);

    const spec = declare(cluster);
    const connection: Connection = {
      hosts: cluster.routers.map(({ address }) => address),
      credential: { kind: "scram", ...ADMIN, authSource: "admin" },
    };
    const check = async () => {
      await using connections = new Connections();
      const op = { connections, progress: () => {}, signal: new AbortController().signal };
      return await detectDrift(op, { spec, connection, memberCredential: { kind: "keyfile", keyfile: cluster.key } });
    };
    const { changes, unseen } = await check();
    const drifted = changes.filter(({ action }) => action !== "seen");
    if (drifted.length > 0 || unseen.length > 0) {
      throw new Error(
        `a check that is not clean is no measure: ${JSON.stringify([...drifted, ...unseen].slice(0, 3))}`,
      );
    }
    const ours = await medianOf(5, check);
    const raw = await medianOf(5, () => rawReads(cluster.uri));
    log(`check ${Math.round(ours)} ms, raw reads ${Math.round(raw)} ms`);
    const oneByOne = (await timed(() => objectByObject(cluster.uri, SAMPLE))) / SAMPLE;
    return {
      name: "drift",
      ours,
      compared: [
        {
          with: `object by object, a connection each (${SAMPLE * 100} % measured)`,
          theirs: oneByOne,
          goal: { kind: "factor", atLeast: 20 },
        },
        { with: "the raw reads that it needs", theirs: raw, goal: { kind: "ratio", atMost: 1.5 } },
      ],
      notes: [],
    };
  },
};

const name = (index: number) => `c${String(index).padStart(4, "0")}`;
const zoneOf = (range: number) => (range % 2 === 0 ? "alfa" : "bravo");

async function setUp(client: MongoClient): Promise<void> {
  const admin = client.db("admin");
  await admin.command({ enableSharding: DATABASE });
  await admin.command({ balancerStop: 1 });
  const one = async (index: number) => {
    const namespace = `${DATABASE}.${name(index)}`;
    for (let range = 0; range < RANGES_EACH; range += 1) {
      const min: Document = { k: range === 0 ? new MinKey() : range };
      const max: Document = { k: range === RANGES_EACH - 1 ? new MaxKey() : range + 1 };
      await admin.command({ updateZoneKeyRange: namespace, min, max, zone: zoneOf(range) });
    }
    await admin.command({ shardCollection: namespace, key: { k: 1 } });
  };
  await inParallel(8, COLLECTIONS, one);
  await admin.command({ balancerStart: 1 });
}

function declare(cluster: ShardedCluster): ClusterSpec {
  const ranges = Array.from({ length: RANGES_EACH }, (_, range) => ({
    zone: zoneOf(range),
    min: { k: range === 0 ? MIN_KEY : range },
    max: { k: range === RANGES_EACH - 1 ? MAX_KEY : range + 1 },
  }));
  return defineCluster({
    name: "bench",
    datacenters: ["alfa", "bravo"],
    configServers: {
      name: "config",
      members: cluster.configServers.map(({ address }) => ({ datacenter: "alfa", host: address, priority: 2 })),
    },
    shards: cluster.shards.map(({ name: shard, members }, index) => ({
      name: shard,
      home: index === 0 ? "alfa" : "bravo",
      members: members.map(({ address, options }) => ({
        datacenter: index === 0 ? "alfa" : "bravo",
        host: address,
        priority: options.priority,
      })),
    })),
    routers: cluster.routers.map(({ address }, index) => ({
      name: `mongos-${index}`,
      datacenter: "alfa",
      host: address,
    })),
    databases: { [DATABASE]: {} },
    collections: Object.fromEntries(
      Array.from({ length: COLLECTIONS }, (_, index) => [`${DATABASE}.${name(index)}`, sharded({ k: 1 }, { ranges })]),
    ),
    defaults: { writeConcern: null },
    users: { application: false },
  });
}

/** The metadata in bulk and every collection's indexes, with nothing done about them. */
async function rawReads(uri: string): Promise<void> {
  const client = new MongoClient(uri, { maxPoolSize: 32 });
  try {
    const config = client.db("config");
    await Promise.all(
      ["collections", "tags", "shards", "settings", "databases", "chunks"].map((of) =>
        config.collection(of).find().toArray(),
      ),
    );
    await inParallel(INDEX_READS_AT_ONCE, COLLECTIONS, (index) =>
      client.db(DATABASE).collection(name(index)).listIndexes().toArray(),
    );
  } finally {
    await client.close();
  }
}

/** As configuration-management modules do it: one connection for each thing that is looked at. */
async function objectByObject(uri: string, share: number): Promise<void> {
  const ask = async (question: (client: MongoClient) => Promise<unknown>) => {
    const client = new MongoClient(uri);
    try {
      await question(client);
    } finally {
      await client.close();
    }
  };
  for (let index = 0; index < COLLECTIONS * share; index += 1) {
    const ns = `${DATABASE}.${name(index)}`;
    await ask(async (client) => {
      await client.db("config").collection<{ _id: string }>("collections").findOne({ _id: ns });
      await client.db(DATABASE).collection(name(index)).listIndexes().toArray();
    });
    for (let range = 0; range < RANGES_EACH; range += 1) {
      const min = { k: range === 0 ? new MinKey() : range };
      await ask((client) => client.db("config").collection("tags").findOne({ ns, min }));
    }
  }
}

/** Runs `work` for 0 … count - 1, `width` at a time. */
async function inParallel(width: number, count: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const index = next;
      next += 1;
      await work(index);
    }
  };
  await Promise.all(Array.from({ length: width }, worker));
}
