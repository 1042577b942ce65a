/** A mongod or mongos that outlives whoever started it: started, found again, restarted and stopped by its data folder. */
import { spawn } from "node:child_process";
import { constants } from "node:fs";
import { access, open, readdir } from "node:fs/promises";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { AlfabravoError } from "../../model/problem.ts";
import {
  claimFolder,
  type Marker,
  makeFolder,
  type ProcessFolder,
  processFolder,
  readMarker,
  writeMarker,
} from "./folder.ts";
import { askServer } from "./hello.ts";
import { tellingLines } from "./log-tail.ts";
import { commandLine, findProcesses, holderOfPort, identify, isAlive, type ProcessIdentity } from "./os-process.ts";
import { isPortFree, LOOPBACK, pickPort } from "./ports.ts";

export interface ServerSpec {
  /** Whose it is: processes of other clusters in the same folder are refused. */
  readonly cluster: string;
  readonly name: string;
  readonly program: "mongod" | "mongos";
  /** The folder with the program. */
  readonly binDir: string;
  /** The folder of the whole cluster; this process has one of its own in it, named after itself. */
  readonly dataDir: string;
  readonly role: "configsvr" | "shardsvr" | "router";
  /** Of a mongod. */
  readonly replicaSet?: string | undefined;
  /** Of a mongos: `set/host:port,host:port`. */
  readonly configdb?: string | undefined;
  /** 0: a free one, chosen once and remembered in the data folder. */
  readonly port: number;
  /** Path of the keyfile. */
  readonly keyfile: string;
  readonly wiredTigerCacheSizeGB?: number | undefined;
  readonly oplogSizeMB?: number | undefined;
  readonly setParameters?: Readonly<Record<string, string | number | boolean>> | undefined;
}

export interface ServerState {
  readonly running: boolean;
  readonly pid?: number | undefined;
  readonly port?: number | undefined;
  readonly logPath: string;
  /** Of the server, as it says itself; undefined when it does not run. */
  readonly version?: string | undefined;
  /** What it was started with. */
  readonly arguments: readonly string[];
}

export interface RunOptions {
  readonly signal: AbortSignal;
  readonly progress: (text: string) => void;
  /** Milliseconds in which it has to be up. */
  readonly readyMillis?: number;
}

/** What a call has made of a server. */
interface Started {
  readonly state: ServerState;
  /** Not yet, of a member that is up and still copies its data or catches up. */
  readonly playing: boolean;
}

/** After a restart the next server is stopped only when this one plays its role, so it is given more time for it. */
interface Occasion {
  readonly restart: boolean;
  /** Whether its data was there before it was launched: it may hold a configuration. */
  readonly data: boolean;
}

const READY_MILLIS = 120_000;
/** How long a member that has just come up is given to be primary or secondary again: usually it takes a second or two. */
const MEMBER_MILLIS = 10_000;
/** A member that comes up says for a moment, until it has read its configuration, that it has none. */
const LOADING_MILLIS = 1_000;
const STOP_MILLIS = 60_000;
/** After it a process that we started and do not want any more is killed: nothing of value was acknowledged yet. */
const DISCARD_MILLIS = 5_000;
/** How long a killed process may hold its port. */
const DYING_MILLIS = 5_000;
const POLL_MILLIS = 50;
const ANSWER_MILLIS = 2_000;
/** How long a server that is told to end waits for clients to notice; its own default is 15 s. All clients are near. */
const SHUTDOWN_MILLIS = 100;
/** The exit code of mongod and mongos when another process has the port. */
const EXIT_ADDRESS_IN_USE = 48;
const PORT_ATTEMPTS = 3;

/**
 * Makes the server run as `spec` says and waits until it plays its role, or is a member that still copies its data. One that runs so already is left alone; one
 * that runs otherwise is restarted, never two of one cluster at a time, and none while another has not come back.
 *
 * A server that this call started and that does not come up is stopped again, so that nothing runs that no state knows.
 *
 * @throws AlfabravoError when the folder is another cluster's, the port is taken, or the server dies or stays silent
 */
export async function ensureServer(spec: ServerSpec, options: RunOptions): Promise<ServerState> {
  const { state, playing } = await ensured(spec, options);
  if (playing) restartQueue(spec).isBack(spec.name);
  return state;
}

async function ensured(spec: ServerSpec, options: RunOptions): Promise<Started> {
  const folder = processFolder(spec.dataDir, spec.name);
  const marker = await claimFolder(folder.path, spec);
  // Before anything is ended or taken over.
  await refuseOtherPort(spec, folder, marker);
  await untilNotDying(marker.process);
  const running = await findRunning(folder, marker);
  if (running && marker.ending) {
    await endProcess(running, spec.name, STOP_MILLIS);
  } else if (running) {
    if (await runsAs(running, spec, folder, marker)) {
      const adopted = await adopt(spec, folder, marker, running, options);
      return adopted ?? start(spec, folder, { ...marker, process: undefined }, options);
    }
    return restartQueue(spec).restart(spec.name, options.signal, async (stopped) => {
      await programOf(spec);
      // Its own port is in use by itself.
      if (spec.port !== 0 && spec.port !== marker.port) await portFor(spec, folder, marker);
      options.progress("restarting with changed settings");
      stopped();
      await end(folder, marker, running, STOP_MILLIS);
      return start(spec, folder, { ...marker, process: undefined, ending: undefined }, options, true);
    });
  }
  return start(spec, folder, { ...marker, process: undefined, ending: undefined }, options);
}

/** What is there, without changing anything. Undefined when the folder does not exist. */
export async function observeServer(spec: Pick<ServerSpec, "dataDir" | "name">): Promise<ServerState | undefined> {
  const folder = processFolder(spec.dataDir, spec.name);
  const marker = await readMarker(folder.path);
  if (!marker) return undefined;
  const running = await findRunning(folder, marker);
  const words = running ? await commandLine(running.pid) : undefined;
  return {
    running: running !== undefined,
    ...(running ? { pid: running.pid } : {}),
    port: marker.port,
    logPath: folder.logPath,
    version: running && marker.port !== undefined ? await versionOf(marker.port) : undefined,
    arguments: words ? argumentsOf(words, marker) : (marker.arguments ?? []),
  };
}

export async function isRunning(spec: Pick<ServerSpec, "dataDir" | "name">): Promise<boolean> {
  const folder = processFolder(spec.dataDir, spec.name);
  const marker = await readMarker(folder.path);
  return marker !== undefined && (await findRunning(folder, marker)) !== undefined;
}

/**
 * Stops the server in good order and keeps its data. Does nothing when it does not run.
 *
 * @throws AlfabravoError when it does not end in time
 */
export async function stopServer(
  spec: Pick<ServerSpec, "dataDir" | "name">,
  progress: (text: string) => void = () => undefined,
): Promise<void> {
  const folder = processFolder(spec.dataDir, spec.name);
  const marker = await readMarker(folder.path);
  if (!marker) return;
  // One that is to stay down is not waited for.
  restartQueue({ cluster: marker.cluster, dataDir: spec.dataDir }).isBack(spec.name);
  const running = await findRunning(folder, marker);
  if (running) {
    progress(`stopping pid ${running.pid}`);
    await end(folder, marker, running, STOP_MILLIS);
  }
  await writeMarker(folder.path, { ...marker, process: undefined, ending: undefined });
}

/**
 * Stops every server whose folder lies in `dataDir`, also those that no state knows because the update that started
 * them was killed.
 *
 * @returns their names
 */
export async function stopAllServers(dataDir: string): Promise<readonly string[]> {
  const names = await readdir(dataDir).catch(() => []);
  const stopped = await Promise.all(
    names.map(async (name) => {
      const state = await observeServer({ dataDir, name }).catch(() => undefined);
      if (!state?.running) return undefined;
      await stopServer({ dataDir, name });
      return name;
    }),
  );
  return stopped.filter((name) => name !== undefined);
}

/** Where the program is; undefined when it is not there or cannot be run. */
export async function findProgram(binDir: string, program: string): Promise<string | undefined> {
  const file = path.join(binDir, program);
  return access(file, constants.X_OK).then(
    () => file,
    () => undefined,
  );
}

/** The port that an earlier run chose for this process, if any: it is known before anything is started. */
export async function rememberedPort(spec: Pick<ServerSpec, "dataDir" | "name">): Promise<number | undefined> {
  const marker = await readMarker(processFolder(spec.dataDir, spec.name).path).catch(() => undefined);
  return marker?.port;
}

function serverArguments(spec: ServerSpec, folder: ProcessFolder, port: number): readonly string[] {
  const common = [
    ...["--port", String(port), "--bind_ip", LOOPBACK],
    ...["--logpath", folder.logPath, "--logappend", "--keyFile", spec.keyfile],
  ];
  const parameters = Object.entries(spec.setParameters ?? {}).flatMap(([name, value]) => [
    "--setParameter",
    `${name}=${value}`,
  ]);
  if (spec.program === "mongos") {
    return [
      ...["--configdb", spec.configdb ?? "", ...common, "--nounixsocket"],
      ...["--setParameter", `mongosShutdownTimeoutMillisForSignaledShutdown=${SHUTDOWN_MILLIS}`],
      ...parameters,
    ];
  }
  return [
    ...[`--${spec.role}`, "--replSet", spec.replicaSet ?? ""],
    ...common,
    ...["--dbpath", folder.dbPath, "--nounixsocket"],
    ...["--wiredTigerCacheSizeGB", String(spec.wiredTigerCacheSizeGB ?? 0.25)],
    ...["--oplogSize", String(spec.oplogSizeMB ?? 128)],
    ...["--setParameter", "diagnosticDataCollectionEnabled=false"],
    ...["--setParameter", `shutdownTimeoutMillisForSignaledShutdown=${SHUTDOWN_MILLIS}`],
    ...parameters,
  ];
}

/** Takes over a server that runs. Undefined when it ends instead of coming up. */
async function adopt(
  spec: ServerSpec,
  folder: ProcessFolder,
  marker: Marker,
  running: ProcessIdentity,
  options: RunOptions,
): Promise<Started | undefined> {
  const port = marker.port ?? spec.port;
  await writeMarker(folder.path, { ...marker, process: running });
  const death = async () => ((await isAlive(running)) ? undefined : "it has ended");
  try {
    return await ready(spec, folder, port, options, death, running, { restart: false, data: false });
  } catch (error) {
    options.signal.throwIfAborted();
    if (await isAlive(running)) throw error;
    return undefined;
  }
}

/** A process that was killed has no command line any more and still holds its locks for a moment. */
async function untilNotDying(identity: ProcessIdentity | undefined): Promise<void> {
  if (!identity) return;
  const end = performance.now() + DYING_MILLIS;
  while (performance.now() < end && (await isAlive(identity)) && !(await commandLine(identity.pid))) {
    await delay(POLL_MILLIS);
  }
}

async function start(
  spec: ServerSpec,
  folder: ProcessFolder,
  marker: Marker,
  options: RunOptions,
  restart = false,
): Promise<Started> {
  const program = await programOf(spec);
  const occasion = { restart, data: await hasData(folder) };
  for (let attempt = 1; ; attempt++) {
    const port = await portFor(spec, folder, marker);
    const chosenNow = spec.port === 0 && marker.port === undefined;
    const started = await launch(spec, folder, program, { ...marker, port });
    try {
      return await ready(spec, folder, port, options, started.death, started.identity, occasion);
    } catch (error) {
      await discard(folder, { ...marker, port }, started.identity);
      await writeMarker(folder.path, { ...marker, port: chosenNow ? undefined : port });
      // Someone took the port between our choice and the server's start: another one is as good.
      if (chosenNow && started.exitCode() === EXIT_ADDRESS_IN_USE && attempt < PORT_ATTEMPTS) continue;
      throw error;
    }
  }
}

async function programOf(spec: ServerSpec): Promise<string> {
  const program = await findProgram(spec.binDir, spec.program);
  if (program) return program;
  throw new AlfabravoError(`there is no ${spec.program} that can be run in ${spec.binDir}`, {
    where: spec.binDir,
    next: "set MONGODB_BIN_DIR to a folder that holds mongod and mongos",
  });
}

/** A member's port is part of its identity in its replica set. */
async function refuseOtherPort(spec: ServerSpec, folder: ProcessFolder, marker: Marker): Promise<void> {
  const { port: remembered } = marker;
  const port = spec.port === 0 ? (remembered ?? 0) : spec.port;
  if (remembered !== undefined && port !== remembered && spec.program === "mongod" && (await hasData(folder))) {
    throw new AlfabravoError(
      `${spec.name} is known to its replica set as ${LOOPBACK}:${remembered}, and port ${port} is asked for`,
      {
        where: folder.path,
        next: `keep port ${remembered}; a member moves by adding a new one beside it and removing the old one`,
      },
    );
  }
}

async function portFor(spec: ServerSpec, folder: ProcessFolder, marker: Marker): Promise<number> {
  await refuseOtherPort(spec, folder, marker);
  const { port: remembered } = marker;
  if (spec.port === 0 && remembered === undefined) return pickPort();
  const port = spec.port === 0 ? (remembered ?? 0) : spec.port;
  if (await isPortFree(port)) return port;
  const holder = await holderOrNobody(port);
  if (holder === "nobody") return port;
  const who = holder ? `process ${holder.pid} (${holder.command})` : "another process, which cannot be seen from here";
  throw new AlfabravoError(`port ${port}, which ${spec.name} needs, is in use by ${who}`, {
    where: `${LOOPBACK}:${port}`,
    next: `end that process${spec.port === 0 ? "" : ", or choose another port"}, then run again`,
  });
}

/**
 * Who has a port that is not free. A process that was killed may hold its port for a moment after it can no longer be
 * seen, while the system takes it apart.
 */
async function holderOrNobody(port: number): Promise<Awaited<ReturnType<typeof holderOfPort>> | "nobody"> {
  const end = performance.now() + DYING_MILLIS;
  while (performance.now() < end) {
    const holder = await holderOfPort(port);
    if (holder) return holder;
    if (await isPortFree(port)) return "nobody";
    await delay(POLL_MILLIS);
  }
  return undefined;
}

interface Launched {
  readonly identity: ProcessIdentity;
  /** Why it has ended; undefined while it runs. */
  readonly death: () => Promise<string | undefined>;
  readonly exitCode: () => number | null;
}

async function launch(spec: ServerSpec, folder: ProcessFolder, program: string, marker: Marker): Promise<Launched> {
  if (spec.program === "mongod") await makeFolder(folder.dbPath);
  const words = serverArguments(spec, folder, marker.port ?? 0);
  // The port is remembered before the server can be known to anyone under it.
  await writeMarker(folder.path, { ...marker, process: undefined, arguments: words });
  const output = await open(folder.outputPath, "w", 0o600);
  try {
    const child = spawn(program, words, {
      cwd: folder.path,
      // A session of its own: it lives on when whoever started it is interrupted or killed.
      detached: true,
      stdio: ["ignore", output.fd, output.fd],
      env: serverEnvironment(),
    });
    const failure = new Promise<Error>((resolve) => child.once("error", resolve));
    const { pid } = child;
    if (pid === undefined) {
      throw new AlfabravoError(`${program} cannot be started: ${(await failure).message}`, { where: program });
    }
    child.unref();
    const identity = (await identify(pid)) ?? { pid, started: "ended at once" };
    await writeMarker(folder.path, { ...marker, process: identity, arguments: words });
    const ended = () => child.exitCode !== null || child.signalCode !== null;
    return {
      identity,
      exitCode: () => child.exitCode,
      death: async () => (ended() ? `it ended with ${child.signalCode ?? `exit code ${child.exitCode}`}` : undefined),
    };
  } finally {
    await output.close();
  }
}

/**
 * What a server needs of our environment. The rest may hold passphrases and tokens, and a server lives on, where its
 * environment can be read, long after us.
 */
const INHERITED = [
  ...["PATH", "HOME", "TMPDIR", "LANG", "TZ"],
  // Of the program's libraries and its allocator, where they do not lie in the usual places.
  ...["LD_LIBRARY_PATH", "GLIBC_TUNABLES"],
  // The stand-in for mongos runs on Node and starts faster with it.
  "NODE_COMPILE_CACHE",
  // A test run marks what it starts with it, so that it can end what is left of it.
  "ALFABRAVO_CI_RUN",
];

function serverEnvironment(): NodeJS.ProcessEnv {
  const passed = INHERITED.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return { ...Object.fromEntries(passed), LC_ALL: "C" };
}

async function ready(
  spec: ServerSpec,
  folder: ProcessFolder,
  port: number,
  options: RunOptions,
  death: () => Promise<string | undefined>,
  identity: ProcessIdentity,
  occasion: Occasion,
): Promise<Started> {
  const { signal, progress, readyMillis = READY_MILLIS } = options;
  const end = performance.now() + readyMillis;
  let last = "no answer yet";
  let playing = true;
  let memberSince: number | undefined;
  let loneSince: number | undefined;
  for (;;) {
    signal.throwIfAborted();
    const reason = await death();
    if (reason !== undefined) throw await failed(spec, folder, `${reason} while starting`);
    try {
      const hello = await askServer(LOOPBACK, port, { hello: 1 }, ANSWER_MILLIS);
      const state = roleOf(hello);
      if (state.lone) loneSince ??= performance.now();
      else loneSince = undefined;
      const loading = loneSince !== undefined && occasion.data && performance.now() - loneSince < LOADING_MILLIS;
      if (state.plays && !loading) break;
      if (state.seen !== last) progress(state.seen);
      last = state.seen;
      memberSince = state.member ? (memberSince ?? performance.now()) : undefined;
    } catch (error) {
      memberSince = undefined;
      last = error instanceof Error ? error.message : String(error);
    }
    // It is up and a member; copying its data may take it hours. Its replica set waits for it, or does without it.
    const patience = occasion.restart ? readyMillis : Math.min(readyMillis, MEMBER_MILLIS);
    if (memberSince !== undefined && performance.now() > memberSince + patience) {
      playing = false;
      break;
    }
    if (memberSince === undefined && performance.now() > end) {
      throw await failed(spec, folder, `it did not come up within ${readyMillis / 1000} s (last seen: ${last})`);
    }
    await delay(POLL_MILLIS, undefined, { signal });
  }
  const state: ServerState = {
    running: true,
    pid: identity.pid,
    port,
    logPath: folder.logPath,
    version: await versionOf(port),
    arguments: serverArguments(spec, folder, port),
  };
  return { state, playing };
}

interface Role {
  readonly plays: boolean;
  /** It belongs to a replica set. */
  readonly member: boolean;
  /** It waits to be told its replica set. */
  readonly lone: boolean;
  readonly seen: string;
}

/** A mongod plays its role as primary, secondary or arbiter, or when it waits to be told its replica set. */
function roleOf(hello: Record<string, unknown>): Role {
  const none = { plays: false, member: false, lone: false };
  if (hello.ok !== 1) return { ...none, seen: `hello says ${String(hello.errmsg ?? "no")}` };
  if (hello.msg === "isdbgrid") return { ...none, plays: true, seen: "routing" };
  const lone = hello.isreplicaset === true;
  const plays = hello.isWritablePrimary === true || hello.secondary === true || hello.arbiterOnly === true || lone;
  const member = typeof hello.setName === "string";
  return { plays, member, lone, seen: plays ? "ready" : "answers, but is neither primary nor secondary yet" };
}

async function failed(spec: ServerSpec, folder: ProcessFolder, what: string): Promise<AlfabravoError> {
  const lines = await tellingLines([folder.outputPath, folder.logPath]);
  const shown = lines.length > 0 ? `; its last words:\n${lines.map((line) => `  ${line}`).join("\n")}` : "";
  return new AlfabravoError(`${spec.program} ${spec.name} is not usable: ${what}${shown}`, {
    where: folder.logPath,
    next: `read ${folder.logPath}, correct the cause, then run again: its data is kept`,
  });
}

async function versionOf(port: number): Promise<string | undefined> {
  const info = await askServer(LOOPBACK, port, { buildInfo: 1 }, ANSWER_MILLIS).catch(() => undefined);
  return typeof info?.version === "string" ? info.version : undefined;
}

/** The server that runs on this folder, whether its start could still be written down or not. */
async function findRunning(folder: ProcessFolder, marker: Marker): Promise<ProcessIdentity | undefined> {
  const isServer = (words: readonly string[]) => isServerOf(words, folder);
  const { process: known } = marker;
  if (known && (await isAlive(known)) && isServer((await commandLine(known.pid)) ?? [])) return known;
  const [found] = await findProcesses(isServer);
  return found;
}

/**
 * Whether these words are how this project starts a server on this folder. That the log is named proves nothing: who
 * reads along with it names it too. The program itself may be a launcher or an interpreter.
 */
function isServerOf(words: readonly string[], folder: ProcessFolder): boolean {
  const log = words.indexOf("--logpath");
  return log > 0 && words[log + 1] === folder.logPath && words.includes("--keyFile") && words.includes("--port");
}

async function runsAs(
  running: ProcessIdentity,
  spec: ServerSpec,
  folder: ProcessFolder,
  marker: Marker,
): Promise<boolean> {
  const words = await commandLine(running.pid);
  const port = spec.port === 0 ? marker.port : spec.port;
  if (!words || port === undefined) return false;
  const wanted = serverArguments(spec, folder, port);
  // The program itself, and an interpreter before it, may lie elsewhere than last time.
  return words.slice(-wanted.length).join("\0") === wanted.join("\0");
}

function argumentsOf(words: readonly string[], marker: Marker): readonly string[] {
  return words.slice(-(marker.arguments?.length ?? words.length));
}

/** As `endProcess`, and written down first: should we be killed meanwhile, the next run does not take it for one that stays. */
async function end(
  folder: ProcessFolder,
  marker: Marker,
  identity: ProcessIdentity,
  deadlineMillis: number,
): Promise<void> {
  await writeMarker(folder.path, { ...marker, process: identity, ending: true });
  await endProcess(identity, marker.name, deadlineMillis);
}

/** Ends a process that is provably ours and waits until it is gone. */
async function endProcess(identity: ProcessIdentity, name: string, deadlineMillis: number): Promise<void> {
  const end = performance.now() + deadlineMillis;
  if (!(await isAlive(identity))) return;
  signalProcess(identity.pid, "SIGTERM");
  while (await isAlive(identity)) {
    if (performance.now() > end) {
      throw new AlfabravoError(
        `${name} (pid ${identity.pid}) did not end within ${deadlineMillis / 1000} s of SIGTERM`,
        {
          where: `pid ${identity.pid}`,
          next: "look at its log; when it hangs for good, end it with SIGKILL (its journal keeps the data) and run again",
        },
      );
    }
    await delay(POLL_MILLIS);
  }
}

async function discard(folder: ProcessFolder, marker: Marker, identity: ProcessIdentity): Promise<void> {
  try {
    await end(folder, marker, identity, DISCARD_MILLIS);
  } catch {
    if (await isAlive(identity)) signalProcess(identity.pid, "SIGKILL");
  }
}

function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // It ended by itself in the meantime.
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}

/** Whether there is data of a mongod in the process's folder. */
export function holdsData(spec: Pick<ServerSpec, "dataDir" | "name">): Promise<boolean> {
  return hasData(processFolder(spec.dataDir, spec.name));
}

async function hasData(folder: ProcessFolder): Promise<boolean> {
  const files = await readdir(folder.dbPath).catch(() => []);
  return files.some((file) => file.startsWith("WiredTiger"));
}

/** Restarts the servers of one cluster one after the other, and no other while one has not come back. */
class RestartQueue {
  #last: Promise<unknown> = Promise.resolve();
  readonly #notBack = new Set<string>();

  /** @param act calls `stopped` when it is about to end the server */
  restart(name: string, signal: AbortSignal, act: (stopped: () => void) => Promise<Started>): Promise<Started> {
    const mine = this.#last.then(async () => {
      signal.throwIfAborted();
      const others = [...this.#notBack].filter((other) => other !== name);
      if (others.length > 0) {
        throw new AlfabravoError(
          `${name} was not restarted because ${others.join(" and ")} did not come back; it still runs with its old settings`,
          {
            where: name,
            next: `correct what keeps ${others.join(" and ")} from playing its role, then run again: ${name} is restarted then`,
          },
        );
      }
      return act(() => this.#notBack.add(name));
    });
    this.#last = mine.then(
      ({ playing }) => (playing ? this.isBack(name) : undefined),
      () => undefined,
    );
    return mine;
  }

  isBack(name: string): void {
    this.#notBack.delete(name);
  }
}

const queues = new Map<string, RestartQueue>();

function restartQueue({ cluster, dataDir }: Pick<ServerSpec, "cluster" | "dataDir">): RestartQueue {
  const key = `${path.resolve(dataDir)}\0${cluster}`;
  const queue = queues.get(key) ?? new RestartQueue();
  queues.set(key, queue);
  return queue;
}
