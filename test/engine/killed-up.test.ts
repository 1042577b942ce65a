/** O1: an update of a whole cluster may be killed at any moment, again and again; the next one that is let run converges. */
import { MongoClient } from "mongodb";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PulumiProject } from "../support/pulumi.ts";

/** How often an update is killed, each time later than the last, so that all its phases are hit. */
const KILLS = 6;
/** In milliseconds: what an update from nothing takes on an idle machine, about. */
const WHOLE_UPDATE = 12_000;

let project: PulumiProject;

beforeAll(async () => {
  project = await PulumiProject.make();
  await project.program(`
    const spec = defineCluster({
      name: "chat",
      datacenters: ["alfa", "bravo"],
      collections: { "chat.messages": perDatacenter({ userid: 1 }), "chat.users": unique({ userid: 1 }, { split: { at: [1000] } }) },
    });
    export const { uris } = new LocalCluster("chat", { spec, dataDir, binDir });`);
});

afterAll(async () => {
  await project[Symbol.asyncDispose]();
});

/** What is left in a file backend by an engine that was killed: its lock, and operations that were never reported. */
async function mendState(): Promise<void> {
  await project.pulumi(["cancel", "--yes"]);
  const file = `${project.folder}/mended.json`;
  await project.must(["stack", "export", "--file", file]);
  await project.must(["stack", "import", "--file", file]);
}

test("killed over and over, then let run, it comes up whole", async () => {
  const moments: number[] = [];
  for (let i = 0; i < KILLS; i++) {
    const moment = Math.round((WHOLE_UPDATE * (i + Math.random())) / KILLS);
    moments.push(moment);
    await project.pulumi(["up", "--yes", "--skip-preview"], {
      detached: true,
      onStart: (engine) => {
        const timer = setTimeout(() => engine.pid !== undefined && process.kill(-engine.pid, "SIGKILL"), moment);
        engine.once("exit", () => clearTimeout(timer));
      },
    });
    await mendState();
  }
  const killedAt = `killed after ${moments.join(", ")} ms`;
  const last = await project.pulumi(["up", "--yes", "--skip-preview"]);
  expect(last.code, `${killedAt}: ${last.stdout}${last.stderr}`).toBe(0);
  const { code, text } = await project.preview();
  expect(code, `${killedAt}: ${text}`).toBe(0);
  const { uris } = await project.outputs<{ uris: Record<string, string> }>();
  for (const datacenter of ["alfa", "bravo"]) {
    const client = new MongoClient(uris[datacenter] ?? "");
    try {
      await client.db("chat").collection("messages").insertOne({ datacenter, userid: 1 });
    } finally {
      await client.close();
    }
  }
}, 600_000);
