import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { MongoClient } from "mongodb";
import { CommandHome, root, run } from "../test/support/command.ts";
import { Mongod, mongoBinDir } from "../test/support/mongod.ts";
import { freePorts, until } from "../test/support/processes.ts";
import { Router } from "../test/support/sharded-cluster.ts";
import { type Benchmark, timed } from "./measure.ts";

const DEADLINE_MILLIS = 120_000;

/** From nothing to a verified reference cluster, against the same servers without zones, collections or authentication. */
export const boot: Benchmark = {
  name: "boot",
  title: "an empty folder to the verified reference cluster",
  async run(log) {
    const folder = await mkdtemp(path.join(tmpdir(), "alfabravo-bench-"));
    try {
      const { ours, memory } = await bootOurs();
      log(`alfabravo up: ${Math.round(ours)} ms`);
      const oneByOne = await serversOneByOne(path.join(folder, "by-hand"));
      log(`servers one after another: ${Math.round(oneByOne)} ms`);
      const runner = await mongodbRunner(path.join(folder, "runner"));
      log(`mongodb-runner: ${Math.round(runner)} ms`);
      return {
        name: "boot",
        ours,
        compared: [
          { with: "mongodb-runner, as many mongods", theirs: runner, goal: { kind: "ratio", atMost: 0.5 } },
          {
            with: "the same servers started one after another",
            theirs: oneByOne,
            goal: { kind: "ratio", atMost: 0.5 },
          },
        ],
        notes: [memory],
      };
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

async function bootOurs(): Promise<{ ours: number; memory: string }> {
  await using home = await CommandHome.make();
  const ours = await timed(() => home.alfabravo(["up"]));
  return { ours, memory: await residentMemory(home) };
}

/** Three config servers, two shards of three members, two routers: each started when the one before answers. */
async function serversOneByOne(folder: string): Promise<number> {
  const binDir = await mongoBinDir();
  const members: Mongod[] = [];
  const routers: { kill(): Promise<void> }[] = [];
  await mkdir(folder, { recursive: true });
  const keyFile = path.join(folder, "keyfile");
  const key = "a".repeat(64);
  await writeFile(keyFile, key, { mode: 0o400 });
  const ports = await freePorts(11);
  const port = () => ports.pop() ?? 0;
  try {
    return await timed(async () => {
      const sets = [
        { replicaSet: "config", role: "configsvr" as const },
        { replicaSet: "shard0000", role: "shardsvr" as const },
        { replicaSet: "shard0001", role: "shardsvr" as const },
      ];
      const seeds: string[] = [];
      for (const { replicaSet, role } of sets) {
        const set: Mongod[] = [];
        for (let index = 0; index < 3; index += 1) {
          const member = new Mongod({
            ...{ binDir, replicaSet, role, index, folder, keyFile, key },
            port: port(),
            tags: {},
            priority: 1,
            setParameters: {},
          });
          members.push(member);
          set.push(member);
          await member.start();
          await member.listening();
        }
        const [first] = set;
        if (!first) throw new Error("a set without members");
        await first.admin({
          replSetInitiate: {
            _id: replicaSet,
            members: set.map((m, i) => ({ _id: i, host: m.address })),
            ...(role === "configsvr" ? { configsvr: true } : {}),
          },
        });
        await until(`a primary of ${replicaSet}`, DEADLINE_MILLIS, async () => {
          const hello = await first.admin({ hello: 1 });
          return typeof hello.primary === "string" ? true : undefined;
        });
        seeds.push(`${replicaSet}/${set.map((m) => m.address).join(",")}`);
      }
      const [configdb = "", ...shards] = seeds;
      for (let index = 0; index < 2; index += 1) {
        const router = new Router({ binDir, configdb, folder, keyFile, port: port() });
        routers.push(router);
        router.process.start();
        const client = new MongoClient(router.bareUri, {
          auth: { username: "__system", password: key },
          authSource: "local",
          authMechanism: "SCRAM-SHA-256",
          directConnection: true,
          serverSelectionTimeoutMS: 1_000,
        });
        try {
          await until("the router", DEADLINE_MILLIS, () => client.db("admin").command({ ping: 1 }));
          if (index === 0) for (const shard of shards) await client.db("admin").command({ addShard: shard });
        } finally {
          await client.close();
        }
      }
    });
  } finally {
    await Promise.allSettled([...routers.map((r) => r.kill()), ...members.map((m) => m.dispose())]);
  }
}

/** `mongodb-runner` with two shards of three members: one config server set and one router of its own choice. */
async function mongodbRunner(folder: string): Promise<number> {
  const binDir = await mongoBinDir();
  const runner = path.join(root, "node_modules/mongodb-runner/bin/runner.js");
  const shared = ["--runnerDir", path.join(folder, "meta"), "--id", "bench"];
  await mkdir(path.join(folder, "tmp"), { recursive: true });
  try {
    return await timed(() =>
      run(
        process.execPath,
        [
          ...[runner, "start", "-t", "sharded", "--shards", "2", "--secondaries", "2", "--binDir", binDir],
          ...["--tmpDir", path.join(folder, "tmp"), "--logDir", path.join(folder, "tmp"), ...shared],
        ],
        { timeout: DEADLINE_MILLIS },
      ),
    );
  } finally {
    await run(process.execPath, [runner, "stop", ...shared]);
  }
}

/** Resident memory of everything that the stack runs, in MiB: mongods and routers apart. */
async function residentMemory(home: CommandHome): Promise<string> {
  const status = JSON.parse(await home.alfabravo(["status", "--json"])) as {
    processes: { role: string; pid?: number }[];
  };
  let mongods = 0;
  let routers = 0;
  for (const { role, pid } of status.processes) {
    const kib = Number(/VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, "utf8"))?.[1]);
    if (role === "mongos") routers += kib;
    else mongods += kib;
  }
  return `resident memory: ${Math.round(mongods / 1024)} MiB in mongods, ${Math.round(routers / 1024)} MiB in routers`;
}
