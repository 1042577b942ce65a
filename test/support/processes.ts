import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/** Loopback only: no test server is reachable from another machine. */
export const LOOPBACK = "127.0.0.1";

/** Ports below the range that the kernel hands to outgoing connections, so that no connection takes a port between check and use. */
const FIRST_PORT = 22_000;
const LAST_PORT = 22_999;

const started = new Set<ChildProcess>();

function killAll(): void {
  for (const child of started) child.kill("SIGKILL");
}

// A test run that is ended by a signal or an uncaught error leaves no server behind.
process.once("exit", killAll);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.once(signal, () => {
    killAll();
    // The handler is gone by now: the signal does what it would have done.
    process.kill(process.pid, signal);
  });
}

/**
 * Waits until `probe` gives something other than undefined.
 *
 * A throwing probe counts as "not yet"; its last error becomes the cause of the error thrown after the deadline.
 *
 * @param what named in the error, for example `primary of shard0000`
 * @param deadlineMs milliseconds from now
 * @param abort checked before each probe; a string ends the wait at once with that reason
 */
export async function until<T>(
  what: string,
  deadlineMs: number,
  probe: () => Promise<T | undefined>,
  options: { readonly everyMs?: number; readonly abort?: () => string | undefined } = {},
): Promise<T> {
  const end = performance.now() + deadlineMs;
  let cause: unknown;
  for (;;) {
    const reason = options.abort?.();
    if (reason !== undefined) throw new Error(`Waiting for ${what} ended: ${reason}`, { cause });
    try {
      const value = await probe();
      if (value !== undefined) return value;
    } catch (error) {
      cause = error;
    }
    if (performance.now() > end) {
      const last = cause instanceof Error ? ` Last error: ${cause.message}` : "";
      throw new Error(`Waiting for ${what} took longer than ${deadlineMs} ms.${last}`, { cause });
    }
    await delay(options.everyMs ?? 25);
  }
}

function listen(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen({ port, host: LOOPBACK, exclusive: true }, () => resolve(server));
  });
}

/** `count` different ports that nothing listens on now. */
export async function freePorts(count: number): Promise<number[]> {
  const held: { port: number; server: Server }[] = [];
  const tried = new Set<number>();
  try {
    while (held.length < count) {
      if (tried.size > LAST_PORT - FIRST_PORT) {
        throw new Error(`No ${count} free ports between ${FIRST_PORT} and ${LAST_PORT}: end servers of earlier runs.`);
      }
      const port = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT + 1));
      if (tried.has(port)) continue;
      tried.add(port);
      const server = await listen(port);
      if (server) held.push({ port, server });
    }
    return held.map((h) => h.port);
  } finally {
    await Promise.all(held.map(({ server }) => new Promise((resolve) => server.close(resolve))));
  }
}

export interface ServerProcessOptions {
  /** Named in errors, for example `shard0000/1`. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Where standard output and error go: what a server says before it opens its own log. */
  readonly outputPath: string;
  /** The server's own log, shown when it dies. */
  readonly logPath: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** One operating system process of ours, which can be killed, frozen and started again with the same arguments. */
export class ServerProcess {
  readonly #options: ServerProcessOptions;
  #child: ChildProcess | undefined;

  constructor(options: ServerProcessOptions) {
    this.#options = options;
  }

  get name(): string {
    return this.#options.name;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  get alive(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  start(): void {
    if (this.alive) throw new Error(`${this.name} already runs with pid ${this.pid}.`);
    const output = openSync(this.#options.outputPath, "a");
    const child = spawn(this.#options.command, this.#options.args, {
      stdio: ["ignore", output, output],
      env: this.#options.env ?? process.env,
    });
    closeSync(output);
    child.once("exit", () => started.delete(child));
    // Without a listener a command that does not exist would end the test run; `alive` and `death` report it.
    child.once("error", () => started.delete(child));
    started.add(child);
    this.#child = child;
  }

  /** Why this process is not running, with the last lines of its log; undefined while it runs. */
  death(): string | undefined {
    if (this.alive && this.pid !== undefined) return undefined;
    const how = this.#child?.signalCode ?? `exit code ${this.#child?.exitCode ?? "unknown"}`;
    return `${this.name} (${this.#options.command}) is not running (${how}). Its last log lines:\n${this.lastLines()}`;
  }

  lastLines(count = 15): string {
    const lines = [this.#options.outputPath, this.#options.logPath]
      .filter((path) => existsSync(path))
      .flatMap((path) => readFileSync(path, "utf8").trimEnd().split("\n"));
    return lines.slice(-count).join("\n");
  }

  /** Ends the process and waits until it is gone. SIGKILL by default: as a crash. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#child;
    if (!child || !this.alive || child.pid === undefined) return;
    const gone = once(child, "exit");
    child.kill(signal);
    if (signal !== "SIGKILL") child.kill("SIGCONT");
    await gone;
  }

  /** Stops the process where it is: its port stays open, it answers nothing. */
  freeze(): void {
    this.#child?.kill("SIGSTOP");
  }

  thaw(): void {
    this.#child?.kill("SIGCONT");
  }
}
