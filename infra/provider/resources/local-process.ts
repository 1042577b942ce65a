import { accessSync, constants } from "node:fs";
import { rm } from "node:fs/promises";
import path from "node:path";
import { processFolder } from "../../cluster/process/folder.ts";
import { LOOPBACK } from "../../cluster/process/ports.ts";
import {
  ensureServer,
  holdsData,
  isRunning,
  observeServer,
  type ServerSpec,
  type ServerState,
  stopServer,
} from "../../cluster/process/server-process.ts";
import { AlfabravoError, type Problem } from "../../model/problem.ts";
import { valueDiff } from "../diff.ts";
import type { Fields } from "../fields.ts";
import type { Resource } from "../resource.ts";

export interface LocalProcessInputs extends ServerSpec {
  readonly purge: boolean;
}

export interface LocalProcessState extends LocalProcessInputs {
  readonly running: boolean;
  readonly pid: number | undefined;
  /** `host:port`. */
  readonly host: string;
  readonly logPath: string;
  readonly version: string | undefined;
  /** The one it listens on; the declared one may be 0. */
  readonly actualPort: number;
}

const absolute = { type: "string", pattern: /^\//, patternSays: "an absolute path" } as const;

const inputs = {
  cluster: { type: "string", description: "The cluster's name: data of another cluster is refused.", replaces: true },
  name: {
    type: "string",
    pattern: /^[A-Za-z0-9][\w.-]*$/,
    patternSays: "letters, digits, '.', '_' and '-'",
    description: "The process's name, unique in its cluster; also that of its folder.",
    replaces: true,
  },
  program: { type: "oneOf", values: ["mongod", "mongos"], description: "What to run.", replaces: true },
  binDir: { ...absolute, description: "The folder with the programs. Another one alone changes nothing that runs." },
  dataDir: { ...absolute, description: "The folder of the whole cluster on this machine.", replaces: true },
  role: { type: "oneOf", values: ["configsvr", "shardsvr", "router"], description: "What it is in the cluster." },
  replicaSet: { type: "string", required: false, description: "Of a mongod: the replica set's name." },
  configdb: {
    type: "string",
    required: false,
    description: "Of a mongos: the config servers, `set/host:port,host:port`.",
  },
  port: {
    type: "number",
    integer: true,
    min: 0,
    max: 65_535,
    default: 0,
    description: "The port on loopback; 0 takes a free one, once, and remembers it in the data folder.",
  },
  keyfile: { ...absolute, description: "Path of the keyfile." },
  wiredTigerCacheSizeGB: { type: "number", min: 0.25, required: false, description: "Of a mongod; 0.25 by default." },
  oplogSizeMB: { type: "number", min: 50, required: false, description: "Of a mongod; 128 by default." },
  setParameters: {
    type: "map",
    values: { type: "anyOf", types: [{ type: "string" }, { type: "number" }, { type: "boolean" }] },
    required: false,
    description: "Server parameters.",
  },
  purge: { type: "boolean", default: false, description: "Whether destroying removes the data as well." },
} as const satisfies Fields;

/** What a change of has the process restarted for. */
const SETTINGS = [
  "role",
  "replicaSet",
  "configdb",
  "keyfile",
  "wiredTigerCacheSizeGB",
  "oplogSizeMB",
  "setParameters",
  "purge",
] as const satisfies readonly (keyof LocalProcessInputs)[];

const IDENTITY = ["cluster", "name", "program", "dataDir"] as const satisfies readonly (keyof LocalProcessInputs)[];

export const localProcess: Resource<LocalProcessInputs, LocalProcessState> = {
  name: "LocalProcess",
  description: "A mongod or mongos on loopback that lives on when the update that started it has ended.",
  inputs,
  outputs: {
    ...inputs,
    running: { type: "boolean", description: "Whether it runs." },
    pid: { type: "number", integer: true, required: false, description: "Its process id." },
    host: { type: "string", description: "`host:port`." },
    actualPort: { type: "number", integer: true, description: "The port it listens on." },
    logPath: { type: "string", description: "Its log." },
    version: { type: "string", required: false, description: "The server's version." },
  },

  rules: ({ program, role, replicaSet, configdb, binDir }) => [
    ...roleRules(program, role, replicaSet, configdb),
    ...programRules(program, binDir),
  ],

  /** Whether it still runs is asked of the system: it costs nothing, so an `up` without a refresh starts it again. */
  async diff(state, news) {
    await refuseToLeaveData(state, news);
    const running = state.running && (await isRunning(state));
    return [
      ...[...IDENTITY, ...SETTINGS].flatMap((name) => valueDiff([name], state[name], news[name])),
      ...(news.port === 0 || news.port === state.actualPort ? [] : valueDiff(["port"], state.port, news.port)),
      ...valueDiff(["running"], running, true),
    ];
  },

  preview(known, state) {
    const port = known.port || state?.actualPort;
    return {
      ...known,
      ...(state ? { pid: state.pid, version: state.version, logPath: state.logPath } : {}),
      ...(port ? { actualPort: port, host: `${LOOPBACK}:${port}` } : {}),
      running: true,
    };
  },

  async converge(op, news) {
    const seen = await ensureServer(news, op);
    return { id: `${news.cluster}/${news.name}`, state: recorded(news, seen) };
  },

  async read(_op, state) {
    const seen = await observeServer(state);
    return seen && recorded(state, seen, state);
  },

  async delete(op, state) {
    await stopServer(state, op.progress);
    if (state.purge) await rm(processFolder(state.dataDir, state.name).path, { recursive: true, force: true });
  },
};

/**
 * Another data folder has the process replaced: the new one would start empty, and with all of them the whole cluster.
 * Told in the preview, before anything is touched.
 */
async function refuseToLeaveData(state: LocalProcessState, news: LocalProcessInputs): Promise<void> {
  if (path.resolve(news.dataDir) === path.resolve(state.dataDir) || !(await holdsData(state))) return;
  const from = processFolder(state.dataDir, state.name).path;
  throw new AlfabravoError(
    `the data of ${state.name} lies in ${from}; in the data folder ${news.dataDir}, which is declared now, it would start empty`,
    {
      where: from,
      next: `set the data folder back to ${state.dataDir}; or stop the cluster's servers and move that whole folder to ${news.dataDir}, then run again; or, to begin anew with an empty cluster, destroy this one first`,
    },
  );
}

function recorded(news: LocalProcessInputs, seen: ServerState, previous?: LocalProcessState): LocalProcessState {
  const actualPort = seen.port ?? previous?.actualPort ?? news.port;
  return {
    ...news,
    running: seen.running,
    pid: seen.pid,
    host: `${LOOPBACK}:${actualPort}`,
    actualPort,
    logPath: seen.logPath,
    version: seen.version ?? previous?.version,
  };
}

function roleRules(
  program: LocalProcessInputs["program"] | undefined,
  role: LocalProcessInputs["role"] | undefined,
  replicaSet: string | undefined,
  configdb: string | undefined,
): Problem[] {
  const problems: Problem[] = [];
  if (program === "mongos") {
    if (role && role !== "router") problems.push({ path: "role", message: `is ${role}; a mongos is a router` });
    if (replicaSet !== undefined)
      problems.push({ path: "replicaSet", message: "belongs to a mongod, not to a mongos" });
    if (configdb === "") problems.push({ path: "configdb", message: "is empty; a mongos needs its config servers" });
  } else if (program === "mongod") {
    if (role === "router") problems.push({ path: "role", message: "is router; a mongod is a configsvr or a shardsvr" });
    if (configdb !== undefined) problems.push({ path: "configdb", message: "belongs to a mongos, not to a mongod" });
    if (replicaSet === undefined)
      problems.push({ path: "replicaSet", message: "is missing; every mongod here is a member of one" });
  }
  return problems;
}

/** Told in the preview, before anything is started. */
function programRules(program: string | undefined, binDir: string | undefined): Problem[] {
  if (!program || !binDir) return [];
  try {
    accessSync(path.join(binDir, program), constants.X_OK);
    return [];
  } catch {
    return [
      {
        path: "binDir",
        message: `is ${binDir}, and there is no ${program} in it that can be run`,
        fix: "set MONGODB_BIN_DIR to a folder that holds mongod and mongos",
      },
    ];
  }
}
