/** The command line on the reference deployment: real engine, real servers, one cluster for the whole file. */
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { MongoClient } from "mongodb";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CommandHome, type Outcome } from "../support/command.ts";

let home: CommandHome;
let first: Outcome;

beforeAll(async () => {
  home = await CommandHome.make();
  first = await home.outcome(["up"]);
});

afterAll(async () => {
  await home[Symbol.asyncDispose]();
});

interface CheckShown {
  readonly id: string;
  readonly status: string;
  readonly evidence: readonly string[];
}

async function adminOf(where: CommandHome): Promise<MongoClient> {
  const status = JSON.parse(await where.alfabravo(["status", "--json"])) as {
    processes: { role: string; host: string }[];
    dataFolder: string;
  };
  const router = status.processes.find(({ role }) => role === "mongos");
  if (!router) throw new Error("no router serves");
  const keyfile = await readFile(path.join(status.dataFolder, "keyfile"), "utf8");
  return new MongoClient(`mongodb://${router.host}/`, {
    auth: { username: "__system", password: keyfile.replaceAll(/\s/g, "") },
    authSource: "local",
    authMechanism: "SCRAM-SHA-256",
    directConnection: true,
  });
}

describe("up", () => {
  test("O1: one command builds the reference cluster, verifies it and says how to connect", () => {
    expect(first, first.stdout + first.stderr).toMatchObject({ code: 0 });
    for (const shown of ["configReplSet", "shard0000", "shard0001", "mongos", "Next:"]) {
      expect(first.stdout).toContain(shown);
    }
    expect(first.stdout).toMatch(/alfa +mongodb:\/\/application:<password>@127\.0\.0\.1:\d+/);
    expect(first.stdout).toMatch(/(\d+) of \1 checks passed/);
  });

  test("O4: every rule that can be verified is a named check with evidence, and all pass", async () => {
    const { checks } = JSON.parse(await home.alfabravo(["verify", "--json"])) as { checks: CheckShown[] };
    expect(checks.map(({ id }) => id).sort()).toEqual(["M1", "M10", "M11", "M2", "M3", "M4", "M5", "M9", "U1"].sort());
    for (const check of checks) {
      expect(check).toMatchObject({ status: "passed" });
      expect(check.evidence.length, check.id).toBeGreaterThan(0);
    }
  });

  test("O1: a second up has nothing to do", async () => {
    const preview = await home.pulumi(["preview", "--expect-no-changes"]);
    expect(preview, preview.stdout + preview.stderr).toMatchObject({ code: 0 });
    expect(await home.outcome(["up"])).toMatchObject({ code: 0 });
  });

  test("the application's user connects with the printed string and its password, to each datacenter", async () => {
    const { uris } = JSON.parse(await home.alfabravo(["status", "--json", "--show-secrets"])) as {
      uris: Record<string, string>;
    };
    expect(Object.keys(uris).sort()).toEqual(["alfa", "bravo"]);
    for (const [datacenter, uri] of Object.entries(uris)) {
      const client = new MongoClient(uri);
      try {
        const inserted = await client
          .db("chat")
          .collection("messages")
          .insertOne({ datacenter, userid: 1, text: "hi" });
        expect(inserted.acknowledged).toBe(true);
        await expect(client.db("admin").command({ listShards: 1 })).rejects.toMatchObject({ code: 13 });
      } finally {
        await client.close();
      }
    }
  });

  test("no password and no keyfile text in anything that up printed, in the state or in the logs", async () => {
    const { uris, dataFolder } = JSON.parse(await home.alfabravo(["status", "--json", "--show-secrets"])) as {
      uris: Record<string, string>;
      dataFolder: string;
    };
    const password = new URL(uris.alfa ?? "").password;
    expect(password.length).toBeGreaterThan(15);
    const keyfile = (await readFile(path.join(dataFolder, "keyfile"), "utf8")).trim();
    const texts = [first.stdout, first.stderr, ...(await filesBeneath(path.join(home.folder, "state")))];
    texts.push(...(await filesBeneath(dataFolder, (file) => file.endsWith(".log"))));
    for (const secret of [decodeURIComponent(password), keyfile.slice(0, 40)]) {
      expect(texts.filter((text) => text.includes(secret))).toEqual([]);
    }
  });
});

describe("drift", () => {
  test("O3: clean after up: exit code 0", async () => {
    const drift = await home.outcome(["drift"]);
    expect(drift, drift.stdout + drift.stderr).toMatchObject({ code: 0 });
    expect(drift.stdout).toContain("no drift");
  });

  test("O3: a zone range removed by hand: exit code 2 and the range named; up puts it back", async () => {
    const client = await adminOf(home);
    try {
      const range = await client
        .db("config")
        .collection("tags")
        .findOne({ ns: "chat.messages", "min.datacenter": "bravo" });
      if (!range) throw new Error("the range of bravo is not there");
      const { ns, min, max } = range;
      await client.db("admin").command({ updateZoneKeyRange: ns, min, max, zone: null });
      const drift = await home.outcome(["drift", "--json"]);
      expect(drift.code, drift.stdout + drift.stderr).toBe(2);
      const { drifted } = JSON.parse(drift.stdout) as { drifted: { resource: object; path: string }[] };
      expect(drifted).toHaveLength(1);
      expect(drifted[0]).toMatchObject({ resource: { kind: "ShardedCollection", name: "chat.messages" } });
      expect(drifted[0]?.path).toContain("bravo");

      const preview = await home.pulumi(["preview", "--refresh", "--expect-no-changes", "--diff"]);
      expect(preview.code).not.toBe(0);
      expect(preview.stdout).toContain("ranges");

      const up = await home.outcome(["up"]);
      expect(up, up.stdout + up.stderr).toMatchObject({ code: 0 });
      expect(await home.outcome(["drift"])).toMatchObject({ code: 0 });
    } finally {
      await client.close();
    }
  });
});

describe("status", () => {
  test("O6: shows every process with its role, and what survives the loss of each datacenter", async () => {
    const { processes } = JSON.parse(await home.alfabravo(["status", "--json"])) as {
      processes: { role: string; serves: boolean }[];
    };
    expect(processes).toHaveLength(11);
    expect(processes.every(({ serves }) => serves)).toBe(true);
    expect(processes.filter(({ role }) => role === "primary")).toHaveLength(3);
    const shown = await home.alfabravo(["status"]);
    expect(shown).toContain("If a datacenter is lost");
  });
});

describe("down", () => {
  test("O7: stops everything and keeps the data; up goes on with it", async () => {
    const before = await adminOf(home);
    await before.db("chat").collection("users").insertOne({ userid: 7, name: "kept" });
    await before.close();
    const { dataFolder } = JSON.parse(await home.alfabravo(["status", "--json"])) as { dataFolder: string };

    const down = await home.outcome(["down"]);
    expect(down, down.stderr).toMatchObject({ code: 0 });
    expect(down.stdout).toContain(dataFolder);
    expect(existsSync(dataFolder)).toBe(true);
    expect(await processesOn(dataFolder)).toEqual([]);
    expect(await home.outcome(["status"])).toMatchObject({ code: 1, stderr: expect.stringContaining("alfabravo up") });

    const up = await home.outcome(["up"]);
    expect(up, up.stdout + up.stderr).toMatchObject({ code: 0 });
    const after = await adminOf(home);
    try {
      expect(await after.db("chat").collection("users").findOne({ userid: 7 })).toMatchObject({ name: "kept" });
    } finally {
      await after.close();
    }
  });
});

/** The processes whose command line names the folder. */
async function processesOn(folder: string): Promise<string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const commands = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")));
  return commands.filter((command) => command.includes(folder));
}

async function filesBeneath(folder: string, wanted: (file: string) => boolean = () => true): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
  return Promise.all(files.filter(wanted).map((file) => readFile(file, "utf8")));
}
