/** M9: more datacenters are the same declaration, on a cluster that runs and holds data. */
import { MongoClient } from "mongodb";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isRunning } from "../../infra/cluster/process/server-process.ts";
import type { ClusterSpec } from "../../infra/model/spec.ts";
import { PulumiProject } from "../support/pulumi.ts";

const DOCUMENTS = 100;

interface Outputs {
  readonly uris: Readonly<Record<string, string>>;
  readonly filled: ClusterSpec;
}

let project: PulumiProject;

beforeAll(async () => {
  project = await PulumiProject.make();
});

afterAll(async () => {
  await project[Symbol.asyncDispose]();
});

async function upWith(datacenters: readonly string[]): Promise<Outputs> {
  await project.program(`
    const spec = defineCluster({
      name: "grow",
      datacenters: ${JSON.stringify(datacenters)},
      collections: { "chat.messages": perDatacenter({ userid: 1 }) },
    });
    const cluster = new LocalCluster("grow", { spec, dataDir, binDir });
    export const { uris } = cluster;
    export const filled = cluster.spec;`);
  await project.up();
  const { code, text } = await project.preview();
  expect(code, text).toBe(0);
  return project.outputs<Outputs>();
}

async function withMessages<T>(
  uri: string | undefined,
  act: (messages: ReturnType<ReturnType<MongoClient["db"]>["collection"]>) => Promise<T>,
): Promise<T> {
  const client = new MongoClient(uri ?? "", { serverSelectionTimeoutMS: 15_000 });
  try {
    return await act(client.db("chat").collection("messages"));
  } finally {
    await client.close();
  }
}

const write = (outputs: Outputs, datacenter: string) =>
  withMessages(outputs.uris[datacenter], (messages) =>
    messages.insertMany(Array.from({ length: DOCUMENTS }, (_, userid) => ({ datacenter, userid }))),
  );

test("a third datacenter joins a running cluster with its own shard, and leaves it again without losing a document", async () => {
  const two = await upWith(["alfa", "bravo"]);
  await write(two, "alfa");
  await write(two, "bravo");

  const three = await upWith(["alfa", "bravo", "charlie"]);
  expect(three.filled.shards.map(({ name, home }) => [name, home])).toEqual([
    ["shard0000", "alfa"],
    ["shard0001", "bravo"],
    ["shard0002", "charlie"],
  ]);
  await write(three, "charlie");
  for (const uri of Object.values(three.uris)) {
    expect(await withMessages(uri, (messages) => messages.countDocuments())).toBe(3 * DOCUMENTS);
    const plan = await withMessages(uri, (messages) => messages.find({ datacenter: "charlie" }).explain());
    expect(JSON.stringify(plan)).toContain("shard0002");
    expect(JSON.stringify(plan)).not.toContain("shard0001");
  }
  // Its config servers are spread over three now, by steps of one vote each.
  expect(three.filled.configServers.members.map(({ datacenter }) => datacenter).sort()).toEqual([
    "alfa",
    "bravo",
    "charlie",
  ]);

  const again = await upWith(["alfa", "bravo"]);
  expect(await withMessages(again.uris.alfa, (messages) => messages.countDocuments())).toBe(3 * DOCUMENTS);
  for (const name of ["shard0002-charlie-0", "config-charlie-0", "mongos-charlie"]) {
    expect(await isRunning({ ...project, name }), name).toBe(false);
  }
}, 600_000);
