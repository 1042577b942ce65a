import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { MongoClient, type MongoClientOptions } from "mongodb";
import { initiateReplicaSet, Mongod, mongoBinDir, READY_MS } from "./mongod.ts";
import { freePorts, LOOPBACK, ServerProcess, until } from "./processes.ts";

export interface MemberOptions {
  /** Replica set member tags, for example `{ datacenter: "alfa" }`. */
  readonly tags?: Readonly<Record<string, string>>;
  /** Default 1; the first member gets 2, so that it stays the primary. */
  readonly priority?: number;
}

export interface ShardOptions {
  /** Default `shard0000`, `shard0001`, …; also the name of its replica set. */
  readonly name?: string;
  /** Zones that the shard gets when it is added. */
  readonly zones?: readonly string[];
  readonly members?: readonly MemberOptions[];
  /** Started, but not added to the cluster. */
  readonly spare?: boolean;
}

export interface ShardedClusterOptions {
  /** How many shards, or each of them. Default 2. */
  readonly shards?: number | readonly ShardOptions[];
  /** Members of each shard that does not name its own. Default 1. */
  readonly membersPerShard?: number;
  /** Config servers: how many, or each of them. Default 1. */
  readonly configServers?: number | readonly MemberOptions[];
  /** Routers. Default 1. */
  readonly routers?: number;
  /** Server parameters of every mongod. */
  readonly setParameters?: Readonly<Record<string, string | number | boolean>>;
}

/** The user of every test cluster, with the role `root`. */
export const ADMIN = { username: "admin", password: "admin-of-the-tests" } as const;

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");

export interface Shard {
  readonly name: string;
  readonly members: readonly Mongod[];
  /** `name/host:port,host:port`, as `addShard` wants it. */
  readonly connectionString: string;
}

/** One router: a real mongos when the folder of the binaries has one, else the stand-in. */
export class Router {
  readonly process: ServerProcess;
  readonly port: number;
  /** Whether the folder of the binaries has a router of its own (a real mongos, or the stand-in under that name). */
  readonly ownBinary: boolean;

  constructor(options: {
    readonly binDir: string;
    readonly configdb: string;
    readonly port: number;
    readonly folder: string;
    readonly keyFile: string;
  }) {
    this.port = options.port;
    const binary = path.join(options.binDir, "mongos");
    this.ownBinary = existsSync(binary);
    const base = path.join(options.folder, `mongos-${options.port}`);
    const flags = [
      ...["--configdb", options.configdb, "--port", String(options.port), "--bind_ip", LOOPBACK],
      ...["--keyFile", options.keyFile, "--logpath", `${base}.log`],
    ];
    const standIn = path.join(ROOT, "toolchain/mongos/main.ts");
    this.process = new ServerProcess({
      name: `mongos ${this.address}`,
      command: this.ownBinary ? binary : process.execPath,
      args: this.ownBinary ? [...flags, "--nounixsocket"] : [standIn, ...flags],
      outputPath: `${base}.out`,
      logPath: `${base}.log`,
    });
  }

  get address(): string {
    return `${LOOPBACK}:${this.port}`;
  }

  /** Connection string without credentials. */
  get bareUri(): string {
    return `mongodb://${this.address}/`;
  }

  /** Connection string of a user; the admin of the tests by default. */
  uriOf(user: { readonly username: string; readonly password: string } = ADMIN, authSource = "admin"): string {
    const credentials = `${encodeURIComponent(user.username)}:${encodeURIComponent(user.password)}`;
    return `mongodb://${credentials}@${this.address}/?authSource=${authSource}`;
  }

  get uri(): string {
    return this.uriOf();
  }

  /** Starts it and waits until it answers a logged-in client. */
  async start(deadlineMs = READY_MS): Promise<void> {
    this.process.start();
    await until(
      `${this.process.name} to answer`,
      deadlineMs,
      async () => {
        const client = new MongoClient(this.uri, { serverSelectionTimeoutMS: 1_000, directConnection: true });
        try {
          const hello = await client.db("admin").command({ hello: 1 });
          return hello.msg === "isdbgrid" ? true : undefined;
        } finally {
          await client.close();
        }
      },
      { abort: () => this.process.death() },
    );
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    await this.process.kill(signal);
  }
}

/** A running sharded cluster of real mongod processes with a key file, one user (`ADMIN`) and its routers. */
export class ShardedCluster implements AsyncDisposable {
  readonly folder: string;
  readonly binDir: string;
  readonly keyFile: string;
  readonly key: string;
  readonly configServers: readonly Mongod[];
  readonly shards: readonly Shard[];
  readonly routers: Router[];
  readonly admin = ADMIN;
  readonly #clients: MongoClient[] = [];

  constructor(parts: {
    folder: string;
    binDir: string;
    keyFile: string;
    key: string;
    configServers: readonly Mongod[];
    shards: readonly Shard[];
    routers: Router[];
  }) {
    this.folder = parts.folder;
    this.binDir = parts.binDir;
    this.keyFile = parts.keyFile;
    this.key = parts.key;
    this.configServers = parts.configServers;
    this.shards = parts.shards;
    this.routers = parts.routers;
  }

  /** Every mongod: config servers first, then shard by shard. */
  get members(): readonly Mongod[] {
    return [...this.configServers, ...this.shards.flatMap((s) => s.members)];
  }

  /** `configReplicaSet/host:port,…`, as mongos's `--configdb` wants it. */
  get configdb(): string {
    return `config/${this.configServers.map((m) => m.address).join(",")}`;
  }

  get router(): Router {
    const [first] = this.routers;
    if (!first) throw new Error("This cluster was started without a router.");
    return first;
  }

  /** The first router's connection string, logged in as the admin. */
  get uri(): string {
    return this.router.uri;
  }

  /** Each router's connection string, logged in as the admin. */
  get uris(): readonly string[] {
    return this.routers.map((r) => r.uri);
  }

  /** A connected client that is closed with the cluster; of the first router and the admin by default. */
  async connect(uri: string = this.uri, options: MongoClientOptions = {}): Promise<MongoClient> {
    const client = new MongoClient(uri, { serverSelectionTimeoutMS: 15_000, ...options });
    this.#clients.push(client);
    await client.connect();
    return client;
  }

  /** Starts one more router and waits until it answers. */
  async addRouter(): Promise<Router> {
    const [port] = await freePorts(1);
    if (port === undefined) throw new Error("No free port for another router.");
    const { binDir, configdb, folder, keyFile } = this;
    const router = new Router({ binDir, configdb, folder, keyFile, port });
    this.routers.push(router);
    await router.start();
    return router;
  }

  /** The members whose tag `name` has this value: a whole datacenter, for example. */
  membersTagged(name: string, value: string): readonly Mongod[] {
    return this.members.filter((m) => m.options.tags[name] === value);
  }

  /** Ends the processes that this cluster started, by their pids, and removes its folder. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#clients.map((c) => c.close()));
    await Promise.allSettled([...this.routers.map((r) => r.kill()), ...this.members.map((m) => m.dispose())]);
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  }
}

function memberList(given: number | readonly MemberOptions[] | undefined, fallback: number): readonly MemberOptions[] {
  if (typeof given === "object") return given;
  return Array.from({ length: given ?? fallback }, () => ({}));
}

function shardList(options: ShardedClusterOptions): readonly Required<ShardOptions>[] {
  const given =
    typeof options.shards === "object" ? options.shards : Array.from({ length: options.shards ?? 2 }, () => ({}));
  return given.map((shard: ShardOptions, i) => ({
    name: shard.name ?? `shard${String(i).padStart(4, "0")}`,
    zones: shard.zones ?? [],
    members: shard.members ?? memberList(undefined, options.membersPerShard ?? 1),
    spare: shard.spare ?? false,
  }));
}

/**
 * Starts a sharded cluster of real mongod processes, all in parallel, and waits until every member plays its role.
 *
 * Key file authentication is on; the cluster has one user, `ADMIN`. Everything listens on loopback, in a folder of its
 * own under the system's temporary folder. Use it as
 * `await using cluster = await startShardedCluster({ shards: 2, membersPerShard: 1 })`; when the start fails half-way,
 * what was started is ended and removed before the error is thrown.
 */
export async function startShardedCluster(options: ShardedClusterOptions = {}): Promise<ShardedCluster> {
  const binDir = await mongoBinDir();
  const shardOptions = shardList(options);
  const configOptions = memberList(options.configServers, 1);
  const routerCount = options.routers ?? 1;
  const ports = await freePorts(
    configOptions.length + shardOptions.reduce((n, s) => n + s.members.length, 0) + routerCount,
  );
  const nextPort = () => {
    const port = ports.shift();
    if (port === undefined) throw new Error("Fewer ports than servers: a fault of this harness.");
    return port;
  };

  const folder = await mkdtemp(path.join(os.tmpdir(), "alfabravo-test-"));
  const keyFile = path.join(folder, "keyfile");
  const key = randomBytes(96).toString("base64");
  const member = (replicaSet: string, role: "configsvr" | "shardsvr", index: number, m: MemberOptions) =>
    new Mongod({
      ...{ binDir, replicaSet, index, folder, keyFile, key, role },
      port: nextPort(),
      tags: m.tags ?? {},
      priority: m.priority ?? (index === 0 ? 2 : 1),
      setParameters: options.setParameters ?? {},
    });
  const configServers = configOptions.map((m, i) => member("config", "configsvr", i, m));
  const shards = shardOptions.map((s) => {
    const members = s.members.map((m, i) => member(s.name, "shardsvr", i, m));
    return { name: s.name, members, connectionString: `${s.name}/${members.map((m) => m.address).join(",")}` };
  });
  const configdb = `config/${configServers.map((m) => m.address).join(",")}`;
  const routers = Array.from(
    { length: routerCount },
    () => new Router({ binDir, configdb, folder, keyFile, port: nextPort() }),
  );
  const cluster = new ShardedCluster({ folder, binDir, keyFile, key, configServers, shards, routers });

  try {
    await writeFile(keyFile, `${key}\n`, { mode: 0o400 });
    await Promise.all(cluster.members.map((m) => m.start()));

    const configPrimary = configServers[0];
    if (!configPrimary) throw new Error("A sharded cluster needs a config server.");
    const configReady = initiateReplicaSet(configServers).then(() =>
      configPrimary.client.db("admin").command({
        createUser: ADMIN.username,
        pwd: ADMIN.password,
        roles: ["root"],
        writeConcern: { w: "majority" },
      }),
    );
    const initiated = shards.map((shard) => initiateReplicaSet(shard.members));
    const added = (async () => {
      await configReady;
      // One after another, so that listShards shows them in the same order on every run.
      for (const [i, shard] of shards.entries()) {
        await initiated[i];
        if (shardOptions[i]?.spare) continue;
        const writeConcern = { w: "majority", wtimeout: READY_MS };
        await configPrimary.admin({ _configsvrAddShard: shard.connectionString, name: shard.name, writeConcern });
        for (const zone of shardOptions[i]?.zones ?? []) {
          await configPrimary.admin({ _configsvrAddShardToZone: shard.name, zone, writeConcern });
        }
      }
    })();
    const routed = routers.map(async (router) => {
      await configReady;
      await router.start();
    });
    await Promise.all([configReady, ...initiated, added, ...routed]);
    // A router may have read the list of shards before the last one was added.
    const wanted = shardOptions.filter((s) => !s.spare).length;
    await Promise.all(
      routers.map(async (router) => {
        const client = await cluster.connect(router.uri);
        await until(`${router.process.name} to know ${wanted} shards`, READY_MS, async () => {
          await client.db("admin").command({ flushRouterConfig: 1 });
          const { shards: known } = await client.db("admin").command({ listShards: 1 });
          return known.length === wanted ? true : undefined;
        });
      }),
    );
    return cluster;
  } catch (error) {
    await cluster[Symbol.asyncDispose]();
    throw error;
  }
}
