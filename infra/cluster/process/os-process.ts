/** Processes as the operating system sees them. A pid alone proves nothing, since ids are used again. */
import { execFile } from "node:child_process";
import { readdir, readFile, readlink } from "node:fs/promises";
import { promisify } from "node:util";

const run = promisify(execFile);

/** One process for all time: no other one has this pid and this start. */
export interface ProcessIdentity {
  readonly pid: number;
  /** When it started, in the system's own words. */
  readonly started: string;
}

/** Undefined when there is no such process, or only its corpse. */
export async function identify(pid: number): Promise<ProcessIdentity | undefined> {
  const started = process.platform === "linux" ? await startedOnLinux(pid) : await ps(pid, "lstart");
  return started === undefined ? undefined : { pid, started };
}

export async function isAlive(identity: ProcessIdentity): Promise<boolean> {
  return (await identify(identity.pid))?.started === identity.started;
}

/** The words with which it was started; undefined when it is gone or hidden. Without /proc they are split at blanks. */
export async function commandLine(pid: number): Promise<readonly string[] | undefined> {
  if (process.platform !== "linux") return (await ps(pid, "command"))?.split(/\s+/);
  const text = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  return text === "" ? undefined : text.replace(/\0$/, "").split("\0");
}

/** Every process whose command line is as asked. */
export async function findProcesses(
  matches: (words: readonly string[]) => boolean,
): Promise<readonly ProcessIdentity[]> {
  const found = await Promise.all(
    (await allPids()).map(async (pid) => {
      const words = await commandLine(pid);
      return words && matches(words) ? identify(pid) : undefined;
    }),
  );
  return found.filter((identity) => identity !== undefined);
}

/** Every process that was started with this exact word. */
export function findByArgument(argument: string): Promise<readonly ProcessIdentity[]> {
  return findProcesses((words) => words.includes(argument));
}

/** Who listens on a port of this machine, when the system lets us see it. */
export async function holderOfPort(port: number): Promise<{ pid: number; command: string } | undefined> {
  if (process.platform !== "linux") return undefined;
  const sockets = new Set<string>();
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    const lines = (await readFile(table, "utf8").catch(() => "")).split("\n").slice(1);
    for (const line of lines) {
      const [, local, , state, , , , , , inode] = line.trim().split(/\s+/);
      const LISTEN = "0A";
      if (state === LISTEN && Number.parseInt(local?.split(":")[1] ?? "", 16) === port)
        sockets.add(`socket:[${inode}]`);
    }
  }
  if (sockets.size === 0) return undefined;
  for (const pid of await allPids()) {
    const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => []);
    for (const descriptor of descriptors) {
      const target = await readlink(`/proc/${pid}/fd/${descriptor}`).catch(() => "");
      // The name alone: the rest of a command line may hold what others would not like to read in an error.
      const command = sockets.has(target) ? (await commandLine(pid))?.[0] : undefined;
      if (command !== undefined) return { pid, command };
    }
  }
  return undefined;
}

async function allPids(): Promise<readonly number[]> {
  if (process.platform === "linux") {
    return (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  }
  const { stdout } = await run("ps", ["-axo", "pid="]);
  return stdout.trim().split(/\s+/).map(Number);
}

async function startedOnLinux(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  if (stat === undefined) return undefined;
  // The second field is the command in parentheses, which may hold blanks and parentheses itself.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [state] = fields;
  // A killed process with several threads is a corpse by its first one while the others still hold ports and locks.
  if (state === "X" || (state === "Z" && (await threads(pid)) <= 1)) return undefined;
  const ticksSinceBoot = fields[19];
  const boot = (await readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => "")).trim();
  return `${boot}/${ticksSinceBoot}`;
}

async function threads(pid: number): Promise<number> {
  return (await readdir(`/proc/${pid}/task`).catch(() => [])).length;
}

async function ps(pid: number, column: "lstart" | "command"): Promise<string | undefined> {
  const { stdout } = await run("ps", ["-o", `${column}=`, "-p", String(pid)]).catch(() => ({ stdout: "" }));
  return stdout.trim() || undefined;
}
