import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import os from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { processFolder, readMarker, writeMarker } from "../../../infra/cluster/process/folder.ts";
import { askServer } from "../../../infra/cluster/process/hello.ts";
import { ensureKeyfile } from "../../../infra/cluster/process/keyfile.ts";
import { commandLine, findByArgument, identify, isAlive } from "../../../infra/cluster/process/os-process.ts";
import { LOOPBACK, pickPort } from "../../../infra/cluster/process/ports.ts";
import {
  ensureServer,
  isRunning,
  observeServer,
  type ServerSpec,
  type ServerState,
  stopAllServers,
  stopServer,
} from "../../../infra/cluster/process/server-process.ts";
import { mongoBinDir } from "../../support/mongod.ts";
import { until } from "../../support/processes.ts";

let dataDir: string;
let binDir: string;

beforeEach(async () => {
  dataDir = await mkdtemp(path.join(os.tmpdir(), "alfabravo-process-"));
  binDir = await mongoBinDir();
});

afterEach(async () => {
  await stopAllServers(dataDir);
  await rm(dataDir, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
});

async function member(change: Partial<ServerSpec> = {}): Promise<ServerSpec> {
  const keyfile = path.join(dataDir, "keyfile");
  await ensureKeyfile(keyfile);
  return {
    ...{
      cluster: "test",
      name: "m0",
      program: "mongod",
      binDir,
      dataDir,
      role: "shardsvr",
      replicaSet: "s",
      port: 0,
      keyfile,
    },
    ...change,
  } as ServerSpec;
}

const quiet = { signal: new AbortController().signal, progress: () => undefined };
const ensure = (spec: ServerSpec, options = {}): Promise<ServerState> => ensureServer(spec, { ...quiet, ...options });

async function failureOf(promise: Promise<unknown>): Promise<{ message: string; next?: string }> {
  const outcome = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(outcome instanceof Error)) throw new Error("It did not fail.");
  return outcome;
}

describe("a server process", () => {
  test("is started once, found again, stopped in good order, and started again on its port and data", async () => {
    const spec = await member();
    const first = await ensure(spec);
    expect(first).toMatchObject({ running: true, version: expect.stringMatching(/^\d+\.\d+/) });
    expect(await ensure(spec)).toEqual(first);
    expect((await stat(spec.keyfile)).mode & 0o777).toBe(0o400);
    // The session is its own: whoever started it may be interrupted or killed.
    const session = (await readFile(`/proc/${first.pid}/stat`, "utf8")).split(") ")[1]?.split(" ")[3];
    expect(Number(session)).toBe(first.pid);

    await stopServer(spec);
    expect(await observeServer(spec)).toMatchObject({ running: false, port: first.port });
    expect(await readFile(first.logPath, "utf8")).toContain("Dropping the scope cache for shutdown");

    const again = await ensure(spec);
    expect(again.port).toBe(first.port);
    expect(again.pid).not.toBe(first.pid);
  });

  test("that runs but was never written down is taken over, not started twice", async () => {
    const spec = await member();
    const first = await ensure(spec);
    const folder = processFolder(dataDir, spec.name).path;
    const { process: _, ...marker } = (await readMarker(folder)) ?? { cluster: "", name: "" };
    await writeMarker(folder, marker);
    expect((await ensure(spec)).pid).toBe(first.pid);
    expect((await readMarker(folder))?.process?.pid).toBe(first.pid);
  });

  test("that a run told to end before it was killed itself is waited for and started again", async () => {
    const spec = await member();
    const { pid, port } = await ensure(spec);
    const folder = processFolder(dataDir, spec.name).path;
    await writeMarker(folder, { cluster: spec.cluster, name: spec.name, ...(await readMarker(folder)), ending: true });
    process.kill(pid ?? 0, "SIGTERM");
    const again = await ensure(spec);
    expect(again).toMatchObject({ running: true, port });
    expect(again.pid).not.toBe(pid);
    // A crash at the very moment: nothing to take over, and its port and lock may still be held.
    process.kill(again.pid ?? 0, "SIGKILL");
    expect(await ensure(spec)).toMatchObject({ running: true, port });
    expect((await readMarker(folder))?.ending).toBeUndefined();
  });

  test("that was killed is seen as not running and starts again", async () => {
    const spec = await member();
    const { pid, port } = await ensure(spec);
    process.kill(pid ?? 0, "SIGKILL");
    await until("the killed server to be gone", 10_000, async () => ((await isRunning(spec)) ? undefined : true));
    expect(await ensure(spec)).toMatchObject({ running: true, port });
  });

  test("is restarted for a changed setting and left alone when only the folder of the programs is another", async () => {
    const spec = await member();
    const first = await ensure(spec);
    const linked = path.join(dataDir, "bin");
    await mkdir(linked);
    await writeFile(path.join(linked, "mongod"), `#!/bin/sh\nexec ${binDir}/mongod "$@"\n`);
    await chmod(path.join(linked, "mongod"), 0o755);
    expect((await ensure({ ...spec, binDir: linked })).pid).toBe(first.pid);

    const changed = await ensure({ ...spec, oplogSizeMB: 64 });
    expect(changed.pid).not.toBe(first.pid);
    expect(changed.port).toBe(first.port);
    expect(await commandLine(changed.pid ?? 0)).toContain("64");
  });

  test("whose pid belongs to somebody else now is never signalled", async () => {
    const spec = await member();
    const { pid } = await ensure(spec);
    await stopServer(spec);
    const stranger = spawn("sleep", ["60"], { stdio: "ignore" });
    try {
      const identity = await identify(stranger.pid ?? 0);
      const folder = processFolder(dataDir, spec.name).path;
      const marker = await readMarker(folder);
      // As if the system had given the pid, even with the same start, to a process that is not ours.
      await writeMarker(folder, { cluster: spec.cluster, name: spec.name, ...marker, process: identity });
      expect(await isRunning(spec)).toBe(false);
      await stopServer(spec);
      expect(stranger.exitCode).toBeNull();
      expect(identity && (await isAlive(identity))).toBe(true);
      // The same pid with another start is another process.
      expect(await isAlive({ pid: stranger.pid ?? 0, started: "earlier" })).toBe(false);
    } finally {
      stranger.kill("SIGKILL");
    }
    expect(pid).toBeDefined();
  });

  test("is not mistaken for someone who reads its log", async () => {
    const spec = await member();
    const { pid, logPath } = await ensure(spec);
    const reader = spawn("tail", ["-f", logPath], { stdio: "ignore" });
    try {
      await once(reader, "spawn");
      process.kill(pid ?? 0, "SIGKILL");
      await until("the killed server to be gone", 10_000, async () => ((await isRunning(spec)) ? undefined : true));
      const again = await ensure(spec);
      expect(again.pid).not.toBe(reader.pid);
      await stopServer(spec);
      expect(await isRunning(spec)).toBe(false);
      // Known by its pid, even: as if the system had given the server's pid to the reader.
      const folder = processFolder(dataDir, spec.name).path;
      const identity = await identify(reader.pid ?? 0);
      await writeMarker(folder, {
        cluster: spec.cluster,
        name: spec.name,
        ...(await readMarker(folder)),
        process: identity,
      });
      await stopServer(spec);
      expect(identity && (await isAlive(identity))).toBe(true);
    } finally {
      reader.kill("SIGKILL");
    }
  });

  test("gets none of the secrets in our environment", async () => {
    process.env.ALFABRAVO_TEST_TOKEN = "a-token";
    try {
      const { pid } = await ensure(await member());
      const words = (await readFile(`/proc/${pid}/environ`, "utf8")).split("\0").filter(Boolean);
      const names = words.map((word) => word.split("=")[0]);
      expect(names).toEqual(expect.arrayContaining(["PATH", "LC_ALL"]));
      expect(words.join()).not.toContain("a-token");
      expect(names.filter((name) => name?.startsWith("PULUMI"))).toEqual([]);
    } finally {
      delete process.env.ALFABRAVO_TEST_TOKEN;
    }
  });

  test("that is a member and copies its data counts as started and is left running", async () => {
    const first = await member({ name: "m0" });
    const { port } = await ensure(first);
    // Held up in its first copy, as by a large amount of data.
    const copying = await member({
      name: "m1",
      setParameters: {
        enableTestCommands: 1,
        "failpoint.initialSyncHangBeforeCopyingDatabases": "{mode: 'alwaysOn'}",
      },
    });
    const other = await ensure(copying);
    const members = [port, other.port].map((p, _id) => ({ _id, host: `${LOOPBACK}:${p}`, priority: 1 - _id }));
    await askServer(LOOPBACK, port ?? 0, { replSetInitiate: { _id: "s", version: 1, members } }, 10_000);
    await until("the second one to be a member", 20_000, async () => {
      const hello = await askServer(LOOPBACK, other.port ?? 0, { hello: 1 }, 2_000);
      return hello.setName === "s" ? true : undefined;
    });
    process.kill(other.pid ?? 0, "SIGKILL");
    const again = await ensure(copying, { readyMillis: 3_000 });
    expect(again).toMatchObject({ running: true, port: other.port });
    expect(again.pid).not.toBe(other.pid);
    expect(await isRunning(copying)).toBe(true);
    const hello = await askServer(LOOPBACK, again.port ?? 0, { hello: 1 }, 2_000);
    expect(hello).toMatchObject({ setName: "s", secondary: false });
  });

  test("two of one cluster are never restarted at the same time", async () => {
    const specs = [await member({ name: "m0" }), await member({ name: "m1" })];
    await Promise.all(specs.map((spec) => ensure(spec)));
    let leastRunning = specs.length;
    let watching = true;
    const watch = (async () => {
      while (watching) {
        const up = await Promise.all(specs.map((spec) => isRunning(spec)));
        leastRunning = Math.min(leastRunning, up.filter(Boolean).length);
        await delay(5);
      }
    })();
    await Promise.all(specs.map((spec) => ensure({ ...spec, oplogSizeMB: 64 })));
    watching = false;
    await watch;
    expect(leastRunning).toBe(1);
  });
});

describe("faults", () => {
  test("a port in use names the port and the process that has it, and leaves nothing behind", async () => {
    const holder = createServer();
    const port = await pickPort();
    holder.listen(port, LOOPBACK);
    await once(holder, "listening");
    try {
      const spec = await member({ port });
      const failure = await failureOf(ensure(spec));
      expect(failure.message).toContain(`port ${port}, which m0 needs, is in use by process ${process.pid}`);
      expect(failure.next).toContain("choose another port");
      expect(await isRunning(spec)).toBe(false);
    } finally {
      holder.close();
    }
  });

  test("a folder of another cluster is refused and not touched", async () => {
    const spec = await member();
    await ensure(spec);
    await stopServer(spec);
    const folder = processFolder(dataDir, spec.name).path;
    const before = await readFile(path.join(folder, "alfabravo.json"), "utf8");
    const failure = await failureOf(ensure({ ...spec, cluster: "other" }));
    expect(failure.message).toBe(`the data folder ${folder} belongs to m0 of the cluster test, not to m0 of other`);
    expect(await readFile(path.join(folder, "alfabravo.json"), "utf8")).toBe(before);
  });

  test("a folder with data that nobody marked is refused and not touched", async () => {
    const spec = await member();
    const { dbPath, path: folder } = processFolder(dataDir, spec.name);
    await mkdir(dbPath, { recursive: true });
    await writeFile(path.join(dbPath, "WiredTiger.wt"), "somebody's data");
    expect((await failureOf(ensure(spec))).message).toContain(`${folder} holds data of a mongod (WiredTiger.wt)`);
    expect(await readFile(path.join(dbPath, "WiredTiger.wt"), "utf8")).toBe("somebody's data");
    expect(await readMarker(folder)).toBeUndefined();
  });

  test("a server that dies while starting shows its last words and leaves nothing behind", async () => {
    const spec = await member({ setParameters: { noSuchParameter: 1 } });
    const failure = await failureOf(ensure(spec));
    expect(failure.message).toMatch(/mongod m0 is not usable: it ended with exit code \d+ while starting/);
    expect(failure.message).toContain("noSuchParameter");
    expect(await isRunning(spec)).toBe(false);
    // Corrected, it starts.
    expect((await ensure({ ...spec, setParameters: {} })).running).toBe(true);
  });

  test("broken data shows the log's words and nothing of the key", async () => {
    const spec = await member();
    await ensure(spec);
    await stopServer(spec);
    const { dbPath } = processFolder(dataDir, spec.name);
    await writeFile(path.join(dbPath, "WiredTiger.turtle"), "broken");
    const failure = await failureOf(ensure(spec));
    expect(failure.message).toMatch(/WiredTiger|turtle/);
    const key = (await readFile(spec.keyfile, "utf8")).trim();
    expect(failure.message).not.toContain(key.slice(0, 20));
  });

  test("a start that is called off ends what it started", async () => {
    const spec = await member();
    const stop = new AbortController();
    const started = ensure(spec, { signal: stop.signal });
    const { logPath } = processFolder(dataDir, spec.name);
    await until("the server to be launched", 10_000, async () =>
      (await findByArgument(logPath)).length > 0 ? true : undefined,
    );
    stop.abort(new Error("called off"));
    await expect(started).rejects.toThrow();
    await until("it to be gone", 10_000, async () => ((await isRunning(spec)) ? undefined : true));
  });

  test("a member with data keeps its port", async () => {
    const spec = await member();
    const { port } = await ensure(spec);
    const failure = await failureOf(ensure({ ...spec, port: await pickPort() }));
    expect(failure.message).toContain(`known to its replica set as ${LOOPBACK}:${port}`);
  });

  test("a member whose port or program cannot be had goes on as it is", async () => {
    const spec = await member();
    const { pid, port } = await ensure(spec);
    const changed = { ...spec, oplogSizeMB: 64 };
    expect((await failureOf(ensure({ ...changed, port: await pickPort() }))).message).toContain(
      `known to its replica set as ${LOOPBACK}:${port}`,
    );
    expect((await failureOf(ensure({ ...changed, binDir: dataDir }))).message).toContain("there is no mongod");
    expect(await observeServer(spec)).toMatchObject({ running: true, pid });
  });

  test("after a restart that failed the others are left alone, until it is back", async () => {
    const specs = await Promise.all(["m0", "m1", "m2"].map((name) => member({ name })));
    const before = await Promise.all(specs.map((spec) => ensure(spec)));
    const outcomes = await Promise.all(
      specs.map((spec) => failureOf(ensure({ ...spec, setParameters: { noSuchParameter: 1 } }))),
    );
    const [broken] = await Promise.all(specs.map((spec) => isRunning(spec))).then((up) =>
      specs.filter((_, index) => !up[index]),
    );
    if (!broken) throw new Error("all of them run");
    for (const [index, spec] of specs.entries()) {
      if (spec === broken) continue;
      expect(outcomes[index]?.message).toBe(
        `${spec.name} was not restarted because ${broken.name} did not come back; it still runs with its old settings`,
      );
      expect(await observeServer(spec)).toMatchObject({ running: true, pid: before[index]?.pid });
    }
    await ensure({ ...broken, oplogSizeMB: 64 });
    for (const spec of specs) expect((await ensure({ ...spec, oplogSizeMB: 64 })).running).toBe(true);
  });

  test("a folder of programs without the program", async () => {
    const failure = await failureOf(ensure(await member({ binDir: dataDir })));
    expect(failure.message).toBe(`there is no mongod that can be run in ${dataDir}`);
    expect(failure.next).toContain("MONGODB_BIN_DIR");
  });
});

describe("a keyfile", () => {
  test("that exists is kept, and closed to others", async () => {
    const file = path.join(dataDir, "k", "keyfile");
    const made = await ensureKeyfile(file);
    expect(made).toMatch(/^[A-Za-z0-9+/=]{1000}$/);
    await chmod(file, 0o644);
    expect(await ensureKeyfile(file)).toBe(made);
    expect((await stat(file)).mode & 0o777).toBe(0o400);
  });

  test("is one and the same for two runs at once", async () => {
    const file = path.join(dataDir, "keyfile");
    const [a, b] = await Promise.all([ensureKeyfile(file), ensureKeyfile(file)]);
    expect(a).toBe(b);
  });

  test("that is none is refused", async () => {
    const file = path.join(dataDir, "keyfile");
    await writeFile(file, "a b!");
    expect((await failureOf(ensureKeyfile(file))).message).toContain(`${file} is not a keyfile`);
    expect(await readFile(file, "utf8")).toBe("a b!");
  });
});
