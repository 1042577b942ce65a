/** Starts the router as its flags say, and ends it at a signal. */
import { rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import { checkPrivileges } from "./auth/authorization.ts";
import { ClusterRouter } from "./cluster-router.ts";
import { LogId, log, logTo } from "./log.ts";
import { BadOptions, parseOptions, readKeyFile, usage } from "./options.ts";
import { Dispatcher } from "./server/dispatcher.ts";
import { Listener } from "./server/listener.ts";
import { reportUptime } from "./server/uptime-reporter.ts";
import { serverVersion, standIn } from "./version.ts";

async function start(): Promise<void> {
  const options = parseOptions(process.argv.slice(2));
  if (options === "version") {
    console.log(`mongos version v${serverVersion}\n${standIn}`);
    return;
  }
  if (options === "help") {
    console.log(usage);
    return;
  }
  if (options.logPath !== undefined) logTo(options.logPath, options.logAppend);
  log("I", "CONTROL", standIn, { version: serverVersion, pid: process.pid, port: options.port, node: process.version });
  const buildInfo = { version: serverVersion, modules: [], standIn: true };
  log("I", "CONTROL", "Build Info", { buildInfo }, "initandlisten", LogId.buildInfo);
  const key = options.keyFile === undefined ? undefined : readKeyFile(options.keyFile);
  const router = new ClusterRouter(
    {
      started: new Date(),
      pid: process.pid,
      host: os.hostname(),
      port: options.port,
      argv: ["mongos", ...options.argv],
      configdb: options.configdb,
      version: serverVersion,
      parameters: options.parameters,
    },
    { key, applicationName: `mongos ${options.port}`, connectTimeoutMs: 10_000 },
  );
  if (key !== undefined) router.setPrivilegeCheck(checkPrivileges);
  const dispatcher = new Dispatcher(router, key !== undefined);
  const listener = new Listener(
    (client, command) => dispatcher.dispatch(client, command),
    (client) => router.connections.set(client.id, client),
    (client) => {
      router.connections.delete(client.id);
      router.onClientGone(client);
    },
  );

  let stopping = false;
  const stop = (signal: string): void => {
    if (stopping) return;
    stopping = true;
    log("I", "CONTROL", "Shutting down", { signal });
    listener.close();
    router.close();
    if (options.pidFilePath !== undefined) rmSync(options.pidFilePath, { force: true });
    process.exit(0);
  };
  process.on("SIGTERM", () => stop("SIGTERM"));
  process.on("SIGINT", () => stop("SIGINT"));
  process.on("SIGHUP", () => {});
  router.onShutdown(() => stop("shutdown command"));

  const waiting = setInterval(
    () => log("I", "SHARDING", "Waiting for the config servers", { configdb: options.configdb }),
    5_000,
  );
  await router.config.monitor.anyMember();
  clearInterval(waiting);
  router
    .warm()
    .catch((error: unknown) => log("W", "SHARDING", "The list of shards is not known yet", { error: String(error) }));
  const port = await listener.listen(options.port, options.bindIp);
  reportUptime(router);
  if (options.pidFilePath !== undefined) writeFileSync(options.pidFilePath, `${process.pid}\n`);
  const listening = { port, ssl: "off", bindIp: options.bindIp };
  log("I", "NETWORK", "Waiting for connections", listening, "listener", LogId.waitingForConnections);
}

/** Runs until a signal or the shutdown command; an impossible start ends the process (2 for bad flags, else 48). */
export async function main(): Promise<void> {
  try {
    await start();
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    log("F", "CONTROL", "Cannot start", { error: message });
    console.error(`mongos stand-in: ${message}`);
    process.exit(error instanceof BadOptions ? 2 : 48);
  }
}
