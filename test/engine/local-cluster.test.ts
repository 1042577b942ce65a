/** A whole two-datacenter cluster through the real engine, one cluster for the whole file: the tests follow each other. */
import { type Document, MaxKey, MongoClient } from "mongodb";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Connections } from "../../infra/cluster/connections.ts";
import { readKeyfile } from "../../infra/cluster/process/keyfile.ts";
import { isRunning, observeServer } from "../../infra/cluster/process/server-process.ts";
import type { Connection, Credential } from "../../infra/model/connection.ts";
import { processNames } from "../../infra/model/host.ts";
import type { ClusterSpec } from "../../infra/model/spec.ts";
import { until } from "../support/processes.ts";
import { PulumiProject } from "../support/pulumi.ts";

const PROGRAM = `
  const spec = defineCluster({
    name: "chat",
    datacenters: ["alfa", "bravo"],
    databases: { chat: { primaryShard: "shard0000" } },
    collections: {
      "chat.messages": perDatacenter({ userid: 1 }, { indexes: [{ key: { sent: 1 } }, { key: { topic: 1 }, sparse: true }] }),
      "chat.users": unique({ userid: 1 }, { split: { at: [1000] } }),
    },
    balancer: { activeWindow: { start: "00:00", stop: "23:59" } },
  });
  const cluster = new LocalCluster("chat", { spec, dataDir, binDir });
  export const { uris, endpoints, connection, keyfilePath } = cluster;
  export const filled = cluster.spec;
`;

interface Outputs {
  readonly uris: Readonly<Record<string, string>>;
  readonly endpoints: Readonly<Record<string, string>>;
  readonly connection: Connection;
  readonly keyfilePath: string;
  readonly filled: ClusterSpec;
}

let project: PulumiProject;
let outputs: Outputs;
let connections: Connections;

beforeAll(async () => {
  project = await PulumiProject.make();
  connections = new Connections();
  await project.program(PROGRAM);
  await project.up();
  outputs = await project.outputs<Outputs>();
});

afterAll(async () => {
  await connections.close();
  await project[Symbol.asyncDispose]();
});

/** `Shard shard0001`. */
function shortName(urn: string): string {
  const [, , type, name] = urn.split("::");
  return `${type?.split(":").at(-1)} ${name}`;
}

/** As an application: through one datacenter's routers, with its own user. */
async function asApplication<T>(datacenter: string, act: (client: MongoClient) => Promise<T>): Promise<T> {
  const client = new MongoClient(outputs.uris[datacenter] ?? "", { serverSelectionTimeoutMS: 15_000 });
  try {
    return await act(client);
  } finally {
    await client.close();
  }
}

/** By hand: as the administrator through a router. */
async function byHand(command: Document, database = "admin"): Promise<Document> {
  return (await connections.router(outputs.connection)).db(database).command(command);
}

/** By hand: another configuration of a replica set. */
async function reconfigure(set: string, change: (config: Document) => void): Promise<void> {
  const shard = outputs.filled.shards.find(({ name }) => name === set);
  const credential: Credential = { kind: "keyfile", keyfile: (await readKeyfile(outputs.keyfilePath)) ?? "" };
  const hosts = shard?.replicaSet.members.flatMap(({ host }) => host ?? []) ?? [];
  const primary = await connections.router({ hosts, replicaSet: set, credential });
  const { config } = await primary.db("admin").command({ replSetGetConfig: 1 });
  change(config);
  await primary.db("admin").command({ replSetReconfig: { ...config, version: config.version + 1 } });
}

test("the cluster is up: both datacenters' routers serve the application, and each writes to its own shard", async () => {
  for (const datacenter of ["alfa", "bravo"]) {
    await asApplication(datacenter, (client) =>
      client.db("chat").collection("messages").insertOne({ datacenter, userid: 1, text: "first" }),
    );
  }
  const found = await asApplication("alfa", (client) => client.db("chat").collection("messages").countDocuments());
  expect(found).toBe(2);
  for (const shard of outputs.filled.shards) {
    const hosts = shard.replicaSet.members.flatMap(({ host }) => host ?? []);
    const credential: Credential = { kind: "keyfile", keyfile: (await readKeyfile(outputs.keyfilePath)) ?? "" };
    const client = await connections.router({ hosts, replicaSet: shard.name, credential });
    const datacenters = await client.db("chat").collection("messages").distinct("datacenter");
    expect(datacenters, shard.name).toEqual([shard.home]);
  }
});

test("a second up changes nothing, and a look at the cluster finds no difference", async () => {
  expect(await project.up()).toMatch(/\d+ unchanged/);
  expect(await project.must(["up", "--yes", "--skip-preview", "--refresh"])).not.toMatch(
    /\d+ (updated|created|deleted)/,
  );
  const { code, text } = await project.preview();
  expect(code, text).toBe(0);
});

test("nothing that is secret is in clear in what the engine prints or keeps", async () => {
  await project.pulumi(["stack", "output"]);
  await project.pulumi(["preview", "--diff"]);
  const state = await project.state();
  const { credential } = outputs.connection;
  const secrets = {
    keyfile: ((await readKeyfile(outputs.keyfilePath)) ?? "").slice(0, 40),
    "the administrator's password": credential.kind === "scram" ? credential.password : "",
    "the application's password": new URL(outputs.uris.alfa ?? "").password,
  };
  for (const [name, secret] of Object.entries(secrets)) {
    expect(secret.length, name).toBeGreaterThan(20);
    expect(project.output.includes(secret), `${name} in the output`).toBe(false);
    expect(state.includes(secret), `${name} in the state`).toBe(false);
  }
});

describe("what someone changes by hand", () => {
  const drifts: readonly (readonly [string, () => Promise<unknown>, readonly [string, RegExp]])[] = [
    [
      "a member's priority",
      () =>
        reconfigure("shard0000", (config) => {
          config.members[1].priority = 0.5;
        }),
      ["ReplicaSet shard0000", /^members\[1\]\.priority update$/],
    ],
    [
      "a member's tag",
      () =>
        reconfigure("shard0001", (config) => {
          config.members[2].tags.datacenter = "nowhere";
        }),
      ["ReplicaSet shard0001", /^members\[2\]\.tags\.datacenter update$/],
    ],
    [
      "a zone of a shard",
      () => byHand({ addShardToZone: "shard0001", zone: "theirs" }),
      ["Shard shard0001", /^zones\[\d\] delete$/],
    ],
    [
      "a zone range",
      () =>
        byHand({
          updateZoneKeyRange: "chat.users",
          min: { userid: 1000 },
          max: { userid: new MaxKey() },
          zone: null,
        }),
      ["ShardedCollection chat.users", /^ranges\[1\] add$/],
    ],
    ["a setting of the balancer", () => byHand({ balancerStop: 1 }), ["Balancer balancer", /^enabled update$/]],
    [
      "an index",
      () => byHand({ dropIndexes: "messages", index: "topic_1" }, "chat"),
      ["ShardedCollection chat.messages", /^indexes\[\d\] add$/],
    ],
    [
      "the default write concern",
      () => byHand({ setDefaultRWConcern: 1, defaultWriteConcern: { w: 1 } }),
      ["ClusterDefaults defaults", /^writeConcern.* update$/],
    ],
    [
      "the role of a user",
      () => byHand({ grantRolesToUser: "application", roles: [{ role: "read", db: "config" }] }),
      ["User application", /^roles\[\d\] delete$/],
    ],
  ];

  test("is found by a look before the next update, with the field named", async () => {
    const seen = new Map<string, RegExp[]>();
    for (const [what, change, [resource, field]] of drifts) {
      await change();
      seen.set(resource, [...(seen.get(resource) ?? []), field]);
      const { code, steps, text } = await project.preview();
      expect(code, `${what}: ${text}`).not.toBe(0);
      const named = new Map(
        steps.map(({ urn, detailedDiff }) => [
          shortName(urn),
          Object.entries(detailedDiff ?? {}).map(([path, { kind }]) => `${path} ${kind.replace(/-.*/, "")}`),
        ]),
      );
      expect([...named.keys()].sort(), what).toEqual([...seen.keys()].sort());
      for (const [name, fields] of seen) {
        const paths = named.get(name) ?? [];
        expect(paths, what).toHaveLength(fields.length);
        for (const expected of fields)
          expect(
            paths.some((path) => expected.test(path)),
            `${what}: ${paths}`,
          ).toBe(true);
      }
    }
  }, 300_000);

  test("is put right by the next update, and an index that nobody declared is left alone", async () => {
    await byHand({ createIndexes: "messages", indexes: [{ key: { theirs: 1 }, name: "theirs_1" }] }, "chat");
    await project.up("--refresh");
    const { code, text } = await project.preview();
    expect(code, text).toBe(0);
    const indexes = await asApplication("alfa", (client) => client.db("chat").collection("messages").indexes());
    expect(indexes.map(({ name }) => name)).toEqual(expect.arrayContaining(["topic_1", "sent_1", "theirs_1"]));
  });
});

test("a changed declaration changes what it names: an index goes, another comes, by property path", async () => {
  await project.program(PROGRAM.replace("{ key: { topic: 1 }, sparse: true }", "{ key: { author: 1 } }"));
  const { steps } = await project.preview();
  expect(steps.map(({ urn, op }) => [shortName(urn), op])).toEqual([["ShardedCollection chat.messages", "update"]]);
  expect(steps[0]?.detailedDiff).toEqual({ "indexes[1]": expect.objectContaining({ kind: "update" }) });
  await project.up();
  const indexes = await asApplication("alfa", (client) => client.db("chat").collection("messages").indexes());
  const names = indexes.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(["author_1", "sent_1", "theirs_1"]));
  expect(names).not.toContain("topic_1");
});

test("U3: a collection whose own unique index stands in the way is told in the preview, with the index named", async () => {
  await byHand({ create: "orders" }, "chat");
  await byHand({ createIndexes: "orders", indexes: [{ key: { no: 1 }, name: "their_no", unique: true }] }, "chat");
  const declared = '"chat.orders": sharded({ customer: 1 }),';
  await project.program(PROGRAM.replace("collections: {", `collections: { ${declared}`));
  const { code, stdout } = await project.pulumi(["preview"]);
  expect(code).not.toBe(0);
  expect(stdout).toMatch(/chat\.orders.*their_no/);
  await project.program(PROGRAM);
});

test("processes that were all killed come back with the next update, on their ports and data", async () => {
  const names = processNames(outputs.filled);
  const states = await Promise.all(names.map((name) => observeServer({ ...project, name })));
  for (const state of states) if (state?.pid !== undefined) process.kill(state.pid, "SIGKILL");
  for (const name of names) {
    await until(`${name} to be gone`, 10_000, async () => ((await isRunning({ ...project, name })) ? undefined : true));
  }
  await connections.close();
  connections = new Connections();
  // With a refresh, which must not fail because nothing answers.
  await project.up("--refresh");
  expect((await project.outputs<Outputs>()).endpoints).toEqual(outputs.endpoints);
  const found = await asApplication("bravo", (client) => client.db("chat").collection("messages").countDocuments());
  expect(found).toBe(2);
  const { code, text } = await project.preview();
  expect(code, text).toBe(0);
});

test("destroy stops everything and keeps the data; the next up goes on with it, with new passwords", async () => {
  await project.destroy();
  for (const name of processNames(outputs.filled)) expect(await isRunning({ ...project, name }), name).toBe(false);
  await project.up();
  const before = outputs;
  outputs = await project.outputs<Outputs>();
  expect(outputs.endpoints).toEqual(before.endpoints);
  expect(outputs.uris).not.toEqual(before.uris);
  const found = await asApplication("alfa", (client) => client.db("chat").collection("messages").countDocuments());
  expect(found).toBe(2);
  const { code, text } = await project.preview();
  expect(code, text).toBe(0);
});
