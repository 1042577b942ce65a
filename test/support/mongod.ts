import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { type Document, MongoClient, MongoServerError } from "mongodb";
import { createProgress, prepareToolchain } from "../../toolchain/index.ts";
import { LOOPBACK, ServerProcess, until } from "./processes.ts";

/** How long a server of these tests may take to play its role, in milliseconds: far above what it needs on a busy machine. */
export const READY_MS = 60_000;

/**
 * The folder with `mongod` (and perhaps a real `mongos`): MONGODB_BIN_DIR, else what the project's toolchain has in its
 * cache or fetches now.
 *
 * @throws an Error that says what is missing
 */
export async function mongoBinDir(): Promise<string> {
  const named = process.env.MONGODB_BIN_DIR;
  if (!named) return (await prepareToolchain({ only: ["mongodb"], progress: createProgress() })).mongodb.binDir;
  if (!existsSync(path.join(named, "mongod"))) {
    throw new Error(`MONGODB_BIN_DIR is ${named}, but there is no mongod in it: name the folder that holds it.`);
  }
  return path.resolve(named);
}

export interface MongodOptions {
  readonly binDir: string;
  readonly replicaSet: string;
  readonly index: number;
  readonly port: number;
  readonly folder: string;
  readonly keyFile: string;
  /** The key file's text, with which a client logs in as an internal user. */
  readonly key: string;
  readonly role: "configsvr" | "shardsvr" | "replica";
  readonly tags: Readonly<Record<string, string>>;
  readonly priority: number;
  readonly setParameters: Readonly<Record<string, string | number | boolean>>;
}

/** One mongod of a replica set. */
export class Mongod {
  readonly options: MongodOptions;
  readonly process: ServerProcess;
  readonly dbPath: string;
  readonly logPath: string;
  #client: MongoClient | undefined;

  constructor(options: MongodOptions) {
    this.options = options;
    const base = path.join(options.folder, `${options.replicaSet}-${options.index}`);
    this.dbPath = base;
    this.logPath = `${base}.log`;
    const role = options.role === "replica" ? [] : [`--${options.role}`];
    const parameters = { diagnosticDataCollectionEnabled: false, ...options.setParameters };
    this.process = new ServerProcess({
      name: `${options.replicaSet}/${options.index}`,
      command: path.join(options.binDir, "mongod"),
      args: [
        ...role,
        ...["--replSet", options.replicaSet, "--port", String(options.port), "--bind_ip", LOOPBACK],
        ...["--dbpath", this.dbPath, "--logpath", this.logPath, "--logappend", "--keyFile", options.keyFile],
        ...["--wiredTigerCacheSizeGB", "0.25", "--oplogSize", "100", "--nounixsocket"],
        ...Object.entries(parameters).flatMap(([name, value]) => ["--setParameter", `${name}=${value}`]),
      ],
      outputPath: `${base}.out`,
      logPath: this.logPath,
    });
  }

  get name(): string {
    return this.process.name;
  }

  /** `host:port`, as in the replica set's configuration. */
  get address(): string {
    return `${LOOPBACK}:${this.options.port}`;
  }

  get pid(): number | undefined {
    return this.process.pid;
  }

  /** A client of this member alone, logged in as the internal user that may do everything. One per member; closed at the end. */
  get client(): MongoClient {
    this.#client ??= new MongoClient(`mongodb://${this.address}`, {
      directConnection: true,
      auth: { username: "__system", password: this.options.key },
      authSource: "local",
      authMechanism: "SCRAM-SHA-256",
      serverSelectionTimeoutMS: 5_000,
      connectTimeoutMS: 5_000,
      maxPoolSize: 4,
    });
    return this.#client;
  }

  admin(command: Document): Promise<Document> {
    return this.client.db("admin").command(command);
  }

  async start(): Promise<void> {
    await mkdir(this.dbPath, { recursive: true });
    this.process.start();
  }

  /** Until the port answers; the role comes later. */
  async listening(): Promise<void> {
    await this.#until("an answer", async () => {
      try {
        await this.admin({ hello: 1 });
        return true;
      } catch (error) {
        // A client whose first connection failed stays closed for good: the next attempt takes a new one.
        const failed = this.#client;
        this.#client = undefined;
        await failed?.close();
        throw error;
      }
    });
  }

  /** Until the member says of itself what `state` asks: `primary` (writable), `secondary` or either. */
  async inState(state: "primary" | "secondary" | "member", deadlineMs = READY_MS): Promise<void> {
    await this.#until(
      `the state ${state}`,
      async () => {
        const hello = await this.admin({ hello: 1 });
        const primary = hello.isWritablePrimary === true;
        const secondary = hello.secondary === true;
        return (state !== "secondary" && primary) || (state !== "primary" && secondary) ? true : undefined;
      },
      deadlineMs,
    );
  }

  /** As a crash by default; waits until the process is gone. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    await this.process.kill(signal);
  }

  /** Stops the process where it is: connections stay open and get no answer. `thaw` lets it go on. */
  freeze(): void {
    this.process.freeze();
  }

  thaw(): void {
    this.process.thaw();
  }

  /** Starts a killed member again on its data; resolves when it is a primary or a secondary. */
  async restart(): Promise<void> {
    await this.process.kill("SIGTERM");
    await this.start();
    await this.listening();
    await this.inState("member");
  }

  async dispose(): Promise<void> {
    await this.#client?.close().catch(() => undefined);
    await this.process.kill();
  }

  async #until(what: string, probe: () => Promise<true | undefined>, deadlineMs = READY_MS): Promise<void> {
    await until(`${what} of ${this.name} at ${this.address} (log: ${this.logPath})`, deadlineMs, probe, {
      abort: () => this.process.death(),
    });
  }
}

/** Settings with which members notice each other within a fraction of a second; the server's defaults take seconds. */
const FAST_ELECTIONS = { heartbeatIntervalMillis: 500, electionTimeoutMillis: 5_000 };

/**
 * Initiates a replica set of started members and makes the first one the primary.
 *
 * An election after initiate waits for the election timeout; asking the wanted member to step up does not.
 */
export async function initiateReplicaSet(members: readonly Mongod[]): Promise<void> {
  const [first] = members;
  if (!first) throw new Error("A replica set needs a member.");
  await Promise.all(members.map((m) => m.listening()));
  const config = {
    _id: first.options.replicaSet,
    ...(first.options.role === "configsvr" ? { configsvr: true } : {}),
    members: members.map((m) => ({
      _id: m.options.index,
      host: m.address,
      priority: m.options.priority,
      tags: m.options.tags,
    })),
    settings: FAST_ELECTIONS,
  };
  await first.admin({ replSetInitiate: config });
  if (members.length > 1) {
    await until(`${first.name} to win an election`, READY_MS, async () => {
      const hello = await first.admin({ hello: 1 });
      if (hello.isWritablePrimary === true) return true;
      await first.admin({ replSetStepUp: 1 }).catch((error: unknown) => {
        if (!(error instanceof MongoServerError)) throw error;
      });
      return undefined;
    });
  }
  await first.inState("primary");
  await Promise.all(members.slice(1).map((m) => m.inState("secondary")));
}
