/** Commands about the router itself, and those that every server answers. */
import { createHash } from "node:crypto";
import os from "node:os";
import { grantedTo } from "../auth/authorization.ts";
import { onCluster } from "../auth/privileges.ts";
import { bsonType, type Doc, type Encodable, type Fields, Value } from "../bson/document.ts";
import type { CommandContext } from "../context.ts";
import { CommandError, errorCode } from "../errors.ts";
import { standIn } from "../version.ts";
import { askConfig, governed, majority, passOn, plainRefusal } from "./arguments.ts";
import { routerOf } from "./find.ts";
import type { CommandTable } from "./registry.ts";

async function buildInfo(ctx: CommandContext): Promise<Fields> {
  const { version } = ctx.router.info;
  const numbers = version.split(".").map(Number);
  return {
    version,
    gitVersion: "none",
    standIn,
    modules: [],
    allocator: "system",
    javascriptEngine: "none",
    sysInfo: "deprecated",
    versionArray: [numbers[0] ?? 0, numbers[1] ?? 0, numbers[2] ?? 0, 0],
    openssl: { running: process.versions.openssl, compiled: process.versions.openssl },
    buildEnvironment: { node: process.version, target_os: process.platform, target_arch: process.arch },
    bits: 64,
    debug: false,
    maxBsonObjectSize: 16_777_216,
    storageEngines: [],
  };
}

function parameters(ctx: CommandContext): Readonly<Record<string, Encodable>> {
  return {
    ...Object.fromEntries(ctx.router.info.parameters),
    authenticationMechanisms: ["SCRAM-SHA-1", "SCRAM-SHA-256"],
    logLevel: 0,
    quiet: false,
    userCacheInvalidationIntervalSecs: 30,
  };
}

async function getParameter(ctx: CommandContext): Promise<Fields> {
  const known = parameters(ctx);
  const first = ctx.body.first();
  const all = (first?.type === bsonType.string && first.text() === "*") || first?.isObject() === true;
  if (all) return known;
  const asked = ctx
    .command()
    .elements()
    .slice(1)
    .map((element) => element.name);
  const found = Object.fromEntries(asked.filter((name) => name in known).map((name) => [name, known[name]]));
  if (Object.keys(found).length === 0) throw new CommandError(errorCode.InvalidOptions, "no option found to get");
  return found;
}

async function setParameter(ctx: CommandContext): Promise<Fields> {
  const [name] = ctx.command().elements().slice(1);
  if (name === undefined)
    throw new CommandError(errorCode.InvalidOptions, "no option found to set, use help:true to see options ");
  if (name.name in parameters(ctx))
    throw new CommandError(errorCode.IllegalOperation, `not allowed to change [${name.name}] at runtime`);
  throw new CommandError(
    errorCode.InvalidOptions,
    `attempted to set unrecognized parameter [${name.name}], use help:true to see options `,
  );
}

async function getCmdLineOpts(ctx: CommandContext): Promise<Fields> {
  const { argv, port, configdb } = ctx.router.info;
  return { argv, parsed: { net: { port }, sharding: { configDB: configdb } } };
}

async function serverStatus(ctx: CommandContext): Promise<Fields> {
  const { info, connections } = ctx.router;
  const upMs = Date.now() - info.started.getTime();
  const memory = process.memoryUsage();
  const megabytes = (bytes: number) => Math.round(bytes / (1024 * 1024));
  return {
    host: `${info.host}:${info.port}`,
    version: info.version,
    process: "mongos",
    pid: BigInt(info.pid),
    uptime: Math.round(upMs / 1000),
    uptimeMillis: BigInt(upMs),
    uptimeEstimate: BigInt(Math.round(upMs / 1000)),
    localTime: new Date(),
    connections: { current: connections.size },
    mem: { bits: 64, resident: megabytes(memory.rss), virtual: megabytes(memory.rss), supported: true },
    sharding: { configsvrConnectionString: ctx.router.config.connectionString() },
  };
}

async function hostInfo(ctx: CommandContext): Promise<Fields> {
  const cpus = os.cpus();
  return {
    system: {
      currentTime: new Date(),
      hostname: `${ctx.router.info.host}:${ctx.router.info.port}`,
      cpuAddrSize: 64,
      memSizeMB: BigInt(Math.round(os.totalmem() / (1024 * 1024))),
      numCores: cpus.length,
      cpuArch: os.machine(),
    },
    os: { type: os.type(), name: os.version(), version: os.release() },
    extra: { cpuString: cpus[0]?.model ?? "" },
  };
}

async function getLog(ctx: CommandContext): Promise<Fields> {
  const which = ctx.body.string("getLog");
  if (which === undefined) throw new CommandError(errorCode.TypeMismatch, "Argument to getLog must be of type String");
  if (which === "*") return { names: ["global", "startupWarnings"] };
  if (which === "global") return { totalLinesWritten: 0, log: [] };
  if (which !== "startupWarnings") throw new CommandError(errorCode.InvalidOptions, `No log named '${which}'`);
  const warning = {
    t: { $date: ctx.router.info.started.toISOString() },
    ...{ s: "W", c: "CONTROL", id: 0, ctx: "main", tags: ["startupWarnings"] },
    msg: `This is no mongos: ${standIn}`,
  };
  return { totalLinesWritten: 1, log: [JSON.stringify(warning)] };
}

async function connectionStatus(ctx: CommandContext): Promise<Fields> {
  const granted = await grantedTo(ctx);
  return {
    authInfo: {
      authenticatedUsers: [...ctx.client.users.values()].map(({ user, db }) => ({ user, db })),
      authenticatedUserRoles: granted.users.flatMap((user) => user.docs("inheritedRoles")),
      ...(ctx.body.bool("showPrivileges") === true
        ? { authenticatedUserPrivileges: granted.users.flatMap((user) => user.docs("inheritedPrivileges")) }
        : {}),
    },
  };
}

/** Operations on the shards, as `$currentOp` over all of them; their ids get the shard's name in front. */
async function currentOp(ctx: CommandContext): Promise<Fields> {
  const own = ctx.body.bool("$ownOps") === true;
  const all = ctx.body.bool("$all") === true;
  const filter = ctx.command().without(ctx.body.first()?.name ?? "currentOp", "$ownOps", "$all", "comment");
  // Shards see one internal user for all clients of the router: whose operation it is shows `effectiveUsers` only.
  const users = [...ctx.client.users.values()].map(({ user }) => user);
  const pipeline: Fields[] = [
    { $currentOp: { allUsers: true, idleConnections: all, idleSessions: all, localOps: true } },
    ...(own ? [{ $match: { "effectiveUsers.user": { $in: users } } }] : []),
    ...(filter.isEmpty() ? [] : [{ $match: filter }]),
  ];
  const replies = await ctx.router.onAllShards(
    ctx,
    "admin",
    { aggregate: 1, pipeline, cursor: { batchSize: 0x7fffffff } },
    { idempotent: true, withoutSession: true },
  );
  const inprog = replies.flatMap(({ shard, reply }) =>
    (reply.doc("cursor")?.docs("firstBatch") ?? []).map((op) =>
      op.with({ shard, ...(op.has("opid") ? { opid: `${shard}:${op.number("opid")}` } : {}) }),
    ),
  );
  return { inprog };
}

async function killOp(ctx: CommandContext): Promise<Fields> {
  const op = ctx.body.find("op");
  if (op === undefined) throw new CommandError(4, 'Did not provide "op" field', { codeName: "NoSuchKey" });
  // Operations of the router itself have plain numbers; killing one that is over is a success as well.
  if (op.isNumber()) return { info: "attempting to kill op" };
  const text = op.type === bsonType.string ? op.text() : "";
  const [, shardId, number] = /^(.+):(-?\d+)$/.exec(text) ?? [];
  if (shardId === undefined || number === undefined)
    throw new CommandError(
      errorCode.BadValue,
      `The op argument to killOp must be of the format shardid:opid but found "${text}"`,
    );
  const shard = await ctx.router.shard(ctx, shardId);
  await shard.run(ctx, "admin", { killOp: 1, op: Number(number) }, { idempotent: true });
  return { shard: shardId, shardid: Number(number) };
}

async function fsync(ctx: CommandContext): Promise<Fields> {
  if (ctx.body.bool("lock") === true) throw plainRefusal("can't do lock through mongos");
  const replies = await ctx.router.onAllShards(ctx, "admin", { fsync: 1 }, { idempotent: true });
  const all = Object.fromEntries(replies.map(({ shard, reply }) => [shard, passOn(reply)]));
  return { numFiles: replies.length, all };
}

/** Sessions carry a digest of their user; shards do not know the cluster's users by name. */
function sessionOwner(user: string, db: string): Encodable {
  return createHash("sha256").update(`${user}@${db}`).digest();
}

async function killAllSessions(ctx: CommandContext): Promise<Fields> {
  const patterns: Fields[] = [];
  for (const one of ctx.body.docs("killAllSessions")) {
    const user = one.string("user") ?? "";
    const db = one.string("db") ?? "";
    const { length } = (await askConfig(ctx, { usersInfo: { user, db } })).docs("users");
    if (length === 0) throw new CommandError(errorCode.UserNotFound, `Could not find user "${user}" for db "${db}"`);
    patterns.push({ uid: sessionOwner(user, db) });
  }
  return killByPattern(ctx, patterns);
}

async function killByPattern(ctx: CommandContext, patterns: Encodable): Promise<Fields> {
  const command = { killAllSessionsByPattern: patterns };
  await ctx.router.onAllShards(ctx, "admin", command, { idempotent: true, withoutSession: true });
  return {};
}

async function planCacheClear(ctx: CommandContext): Promise<Fields> {
  await ctx.router.onShardsOwning(ctx, ctx.namespace(), ctx.command(), { idempotent: true });
  return {};
}

/** A router profiles nothing: its level is 0 and stays so. */
async function profile(ctx: CommandContext): Promise<Fields> {
  const level = ctx.body.number("profile") ?? 0;
  if (level !== 0 && level !== -1)
    throw new CommandError(errorCode.BadValue, "Profiling is not permitted on mongos: the level must be 0 or -1");
  return { was: 0, slowms: 100, sampleRate: Value.double(1) };
}

async function shutdown(ctx: CommandContext): Promise<Fields> {
  routerOf(ctx).shutdown();
  return {};
}

async function setDefaultRWConcern(ctx: CommandContext): Promise<Doc> {
  const reply = await askConfig(ctx, ctx.command().with({ writeConcern: majority }));
  ctx.router.invalidateDefaults();
  return reply;
}

async function getDefaultRWConcern(ctx: CommandContext): Promise<Doc> {
  return askConfig(ctx, ctx.command());
}

async function listCommands(ctx: CommandContext): Promise<Fields> {
  const commands: Record<string, Fields> = {};
  for (const name of ctx.router.commands.names()) {
    const definition = ctx.router.commands.find(name)?.definition;
    commands[name] = {
      help: "",
      requiresAuth: definition?.requires !== "public",
      secondaryOk: false,
      adminOnly: definition?.adminOnly === true,
    };
  }
  return { commands };
}

export const serverCommands: CommandTable = {
  buildInfo: { requires: "public", aliases: ["buildinfo"], handler: buildInfo },
  whatsmyuri: { requires: "public", handler: async (ctx) => ({ you: ctx.client.remote }) },
  connectionStatus: { requires: "public", handler: connectionStatus },
  isdbgrid: { requires: "public", handler: async (ctx) => ({ isdbgrid: 1, hostname: ctx.router.info.host }) },
  listCommands: { requires: "public", handler: listCommands },
  getParameter: governed("getParameter", { adminOnly: true, handler: getParameter }),
  setParameter: governed("setParameter", { adminOnly: true, handler: setParameter }),
  getCmdLineOpts: governed("getCmdLineOpts", { adminOnly: true, handler: getCmdLineOpts }),
  serverStatus: governed("serverStatus", { handler: serverStatus }),
  hostInfo: governed("hostInfo", { handler: hostInfo }),
  getLog: governed("getLog", { adminOnly: true, handler: getLog }),
  currentOp: {
    adminOnly: true,
    requires: (ctx) => (ctx.body.bool("$ownOps") === true ? [] : [onCluster("inprog")]),
    handler: currentOp,
  },
  killOp: governed("killOp", { adminOnly: true, handler: killOp }),
  killAllSessions: governed("killAllSessions", { adminOnly: true, handler: killAllSessions }),
  killAllSessionsByPattern: governed("killAllSessionsByPattern", {
    adminOnly: true,
    handler: (ctx) => killByPattern(ctx, ctx.body.find("killAllSessionsByPattern")),
  }),
  planCacheClear: governed("planCacheClear", { handler: planCacheClear }),
  profile: governed("profile", { handler: profile }),
  shutdown: governed("shutdown", { adminOnly: true, handler: shutdown }),
  fsync: governed("fsync", { adminOnly: true, handler: fsync }),
  setFeatureCompatibilityVersion: governed("setFeatureCompatibilityVersion", {
    adminOnly: true,
    handler: (ctx) => askConfig(ctx, ctx.command().with({ writeConcern: majority })),
  }),
  setDefaultRWConcern: governed("setDefaultRWConcern", { adminOnly: true, handler: setDefaultRWConcern }),
  getDefaultRWConcern: governed("getDefaultRWConcern", { adminOnly: true, handler: getDefaultRWConcern }),
  replSetGetStatus: {
    adminOnly: true,
    requires: () => [onCluster("replSetGetStatus")],
    handler: async () => {
      throw new CommandError(0, "replSetGetStatus is not supported through mongos", { extra: { info: "mongos" } });
    },
  },
};
