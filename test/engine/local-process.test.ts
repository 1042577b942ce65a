/** Keyfile and LocalProcess through the real engine: what a user sees when something is wrong, and what survives. */
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { processFolder } from "../../infra/cluster/process/folder.ts";
import { findByArgument } from "../../infra/cluster/process/os-process.ts";
import { LOOPBACK, pickPort } from "../../infra/cluster/process/ports.ts";
import { isRunning } from "../../infra/cluster/process/server-process.ts";
import { until } from "../support/processes.ts";
import { PulumiProject } from "../support/pulumi.ts";

let project: PulumiProject;

beforeAll(async () => {
  project = await PulumiProject.make();
});

afterAll(async () => {
  await project[Symbol.asyncDispose]();
});

/** A program with one keyfile and one mongod for each name, each with what is given beyond the usual. */
function program(members: Readonly<Record<string, object>>): Promise<void> {
  return project.program(`
    const keyfile = new Keyfile("keyfile", { path: dataDir + "/keyfile" });
    const members = ${JSON.stringify(members)};
    export const pids: Record<string, unknown> = {};
    export const hosts: Record<string, unknown> = {};
    export const key = keyfile.content;
    for (const [name, more] of Object.entries(members)) {
      const member = new LocalProcess(name, {
        cluster: "test", name, program: "mongod", binDir, dataDir, role: "shardsvr", replicaSet: "s", keyfile: keyfile.path, ...more,
      });
      pids[name] = member.pid;
      hosts[name] = member.host;
    }`);
}

interface Outputs {
  readonly pids: Record<string, number>;
  readonly hosts: Record<string, string>;
  readonly key: string;
}

describe("a process of the local stack", () => {
  test("comes up, stays, is brought back when it died, and keeps port and data over a destroy", async () => {
    await program({ m0: {}, m1: {} });
    await project.up();
    const first = await project.outputs<Outputs>();
    await project.must(["preview", "--refresh", "--expect-no-changes"]);

    process.kill(first.pids.m0 ?? 0, "SIGKILL");
    await until("m0 to be gone", 10_000, async () =>
      (await isRunning({ ...project, name: "m0" })) ? undefined : true,
    );
    const drift = await project.preview();
    expect(drift.code, drift.text).not.toBe(0);
    expect(
      drift.steps
        .filter(({ op }) => op !== "same")
        .map(({ urn, detailedDiff }) => [urn.split("::").at(-1), Object.keys(detailedDiff ?? {})]),
    ).toEqual([["m0", ["running"]]]);

    // Without a refresh as well: whether a process runs is known without asking anybody.
    await project.up();
    const second = await project.outputs<Outputs>();
    expect(second.hosts).toEqual(first.hosts);
    expect(second.pids.m1).toBe(first.pids.m1);
    expect(second.pids.m0).not.toBe(first.pids.m0);

    await project.destroy();
    for (const name of ["m0", "m1"]) expect(await isRunning({ ...project, name })).toBe(false);
    await project.up();
    expect((await project.outputs<Outputs>()).hosts).toEqual(first.hosts);

    // The keyfile's text is a secret wherever it goes.
    const { key } = await project.outputs<Outputs>();
    expect(key).toHaveLength(1000);
    expect(project.output).not.toContain(key.slice(0, 30));
    expect(await project.state()).not.toContain(key.slice(0, 30));
    await project.destroy();
  });

  test("with a changed setting is restarted, and the preview names the field", async () => {
    await program({ m2: {} });
    await project.up();
    await program({ m2: { oplogSizeMB: 64 } });
    const { steps } = await project.preview();
    expect(steps.find(({ urn, op }) => op === "update" && urn.endsWith("::m2"))).toMatchObject({
      op: "update",
      detailedDiff: { oplogSizeMB: { kind: "add" } },
    });
    await project.up();
    await project.must(["preview", "--refresh", "--expect-no-changes"]);
    await project.destroy();
  });
});

describe("faults", () => {
  test("a port in use, a foreign data folder and a mongod that dies while starting are told in one run, and leave nothing running", async () => {
    const holder = createServer();
    const port = await pickPort();
    holder.listen(port, LOOPBACK);
    await once(holder, "listening");
    const foreign = path.join(project.dataDir, "foreign");
    await mkdir(foreign, { recursive: true });
    await writeFile(path.join(foreign, "alfabravo.json"), JSON.stringify({ cluster: "theirs", name: "foreign" }));
    try {
      await program({ taken: { port }, foreign: {}, dying: { setParameters: { noSuchParameter: 1 } } });
      const { code, stdout, stderr } = await project.pulumi(["up", "--yes", "--skip-preview", "--continue-on-error"]);
      const text = stdout + stderr;
      expect(code).not.toBe(0);
      expect(text).toContain(`port ${port}, which taken needs, is in use by process ${process.pid}`);
      expect(text).toContain(`${foreign} belongs to foreign of the cluster theirs`);
      expect(text).toMatch(/mongod dying is not usable: it ended with exit code \d+ while starting/);
      expect(text).toContain("noSuchParameter");
      for (const name of ["taken", "foreign", "dying"]) expect(await isRunning({ ...project, name })).toBe(false);
      expect(JSON.parse(await readFile(path.join(foreign, "alfabravo.json"), "utf8"))).toEqual({
        cluster: "theirs",
        name: "foreign",
      });
    } finally {
      holder.close();
    }
    await project.destroy();
  });

  test("a wrong folder of programs and mistakes in the form are told in the preview, all at once", async () => {
    await program({ a: { binDir: "/nowhere" } });
    const wrong = await project.pulumi(["preview"]);
    expect(wrong.code).not.toBe(0);
    expect(wrong.stdout).toContain("is /nowhere, and there is no mongod in it that can be run");
    expect(wrong.stdout).toContain("set MONGODB_BIN_DIR");

    await program({
      b: { port: 70_000, role: "shard", wiredTigerCacheSizeGB: 0.1, setParameters: { x: [] }, colour: "red" },
    });
    const { code, stdout: text } = await project.pulumi(["preview"]);
    expect(code).not.toBe(0);
    for (const mistake of [
      "property port value {70000} has a problem: is 70000; the most is 65535",
      'property role value {shard} has a problem: is "shard"; it must be one of "configsvr", "shardsvr", "router"',
      "property wiredTigerCacheSizeGB value {0.1} has a problem: is 0.1; the least is 0.25",
      "setParameters.x must be text, not a list",
      "colour is not a field here",
    ]) {
      expect(text).toContain(mistake);
    }
  });

  test("two updates at once: one works, the other says that it does not, and every server exists once", async () => {
    await program({ t0: {}, t1: {} });
    const both = await Promise.all([1, 2].map(() => project.pulumi(["up", "--yes", "--skip-preview"])));
    const refused = both.filter(({ code }) => code !== 0);
    expect(refused.length).toBeLessThanOrEqual(1);
    for (const { stdout, stderr } of refused) expect(stdout + stderr).toMatch(/currently locked/);
    await project.up();
    await project.must(["preview", "--refresh", "--expect-no-changes"]);
    for (const name of ["t0", "t1"]) {
      const { logPath } = processFolder(project.dataDir, name);
      expect(await findByArgument(logPath), name).toHaveLength(1);
    }
    await project.destroy();
  });

  test("an update that is killed at once with its engine leaves nothing that the next one does not take over", async () => {
    await program({ k0: {}, k1: {}, k2: {} });
    const killed = await project.pulumi(["up", "--yes", "--skip-preview"], {
      detached: true,
      onStart: async (engine) => {
        await until("k1 to be launched", 60_000, async () =>
          (await isRunning({ ...project, name: "k1" })) ? true : undefined,
        );
        if (engine.pid !== undefined) process.kill(-engine.pid, "SIGKILL");
      },
    });
    expect(killed.signal).toBe("SIGKILL");
    await project.must(["cancel", "--yes"]);
    const state = path.join(project.folder, "state.json");
    await project.must(["stack", "export", "--file", state]);
    await project.must(["stack", "import", "--file", state]);
    await project.up();
    await project.must(["preview", "--refresh", "--expect-no-changes"]);
    await project.destroy();
    for (const name of ["k0", "k1", "k2"]) expect(await isRunning({ ...project, name })).toBe(false);
  });
});
