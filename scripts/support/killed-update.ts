/**
 * What a killed `pulumi up` leaves behind in a file backend, and how the next one gets past it: a lock file whose
 * process is gone, a state file that was cut off in the middle, and operations that were begun and never reported.
 */
import { existsSync } from "node:fs";
import { copyFile, readdir, readFile, rename, rm } from "node:fs/promises";
import { hostname } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { AlfabravoError } from "../../infra/model/problem.ts";
import { acquireLock } from "../../toolchain/lock.mjs";
import { projectName } from "./project.ts";

/**
 * Keeps two commands from changing one stack of this home at once. The lock of a process that is gone does not count.
 * @returns gives the lock back
 * @throws AlfabravoError at once when another command holds it
 */
export function lockStack(home: string, stack: string): Promise<() => void> {
  const file = path.join(home, `${stack}.lock`);
  return acquireLock(file, {
    onWait: (pid) => {
      throw new AlfabravoError(`stack ${stack} is being changed by another command (pid ${pid})`, {
        where: file,
        next: "wait until it has ended, or interrupt it; nothing was changed by this one",
      });
    },
  });
}

interface LockContent {
  readonly pid: number;
  readonly hostname: string;
  readonly timestamp: string;
}

/** The folder of a `file://` backend, or undefined when the state lies elsewhere (a service keeps its own locks). */
export function backendFolder(backendUrl: string | undefined): string | undefined {
  return backendUrl?.startsWith("file://") ? path.join(fileURLToPath(backendUrl), ".pulumi") : undefined;
}

/**
 * Removes locks whose process is gone on this machine.
 * @returns how many were removed
 * @throws AlfabravoError when a lock belongs to a process that lives, or to another machine: two updates of one stack
 * at once would overwrite each other's state.
 */
export async function clearStaleLocks(folder: string, stack: string): Promise<number> {
  const locks = path.join(folder, "locks", "organization", projectName, stack);
  // Beside each file the backend keeps one with its attributes, `*.json.attrs`.
  const names = (await readdir(locks).catch(() => [])).filter((name) => name.endsWith(".json"));
  let removed = 0;
  for (const name of names) {
    const file = path.join(locks, name);
    const lock = await readLock(file);
    if (!lock) continue;
    if (lock.hostname === hostname() && !(await isEngine(lock.pid))) {
      await Promise.all([rm(file, { force: true }), rm(`${file}.attrs`, { force: true })]);
      removed += 1;
      continue;
    }
    throw new AlfabravoError(
      `stack ${stack} is being changed by another process (pid ${lock.pid} on ${lock.hostname})`,
      {
        where: file,
        next: `wait until it has ended; if you are sure that nothing runs, \`npx pulumi cancel -s ${stack} --yes\` removes the lock`,
      },
    );
  }
  return removed;
}

/**
 * Puts the state before the last step in the place of one that was cut off while it was written. What that step did is
 * found again by the next update, since every create adopts what is there. The broken file is kept beside it.
 * @returns whether it had to be done
 * @throws AlfabravoError when there is no whole state to go back to
 */
export async function restoreState(folder: string, stack: string): Promise<boolean> {
  const file = stateFile(folder, stack);
  if (!existsSync(file) || (await isWhole(file))) return false;
  const broken = `${file}.broken`;
  await rename(file, broken);
  for (const backup of [`${file}.bak`, ...(await olderStates(folder, stack))]) {
    if (!(await isWhole(backup))) continue;
    await copyFile(backup, `${file}.new`);
    await rename(`${file}.new`, file);
    return true;
  }
  throw new AlfabravoError(
    `the state of stack ${stack} was cut off while it was written, and no backup of it is whole`,
    {
      where: broken,
      next: "run `up` once more: it starts from an empty state and adopts the processes, data and settings that are there",
    },
  );
}

/** Backups that the backend keeps of every update, the newest first: their names hold the time in nanoseconds. */
async function olderStates(folder: string, stack: string): Promise<string[]> {
  const backups = path.join(folder, "backups", projectName, stack);
  const names = (await readdir(backups).catch(() => [])).filter((name) => name.endsWith(".json"));
  return names
    .sort()
    .reverse()
    .map((name) => path.join(backups, name));
}

async function isWhole(file: string): Promise<boolean> {
  try {
    JSON.parse(await readFile(file, "utf8"));
    return true;
  } catch {
    return false;
  }
}

function stateFile(folder: string, stack: string): string {
  return path.join(folder, "stacks", projectName, `${stack}.json`);
}

/** Whether an interrupted update left operations that were begun and never reported. */
export async function hasPendingOperations(folder: string, stack: string): Promise<boolean> {
  const file = stateFile(folder, stack);
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (!text) return false;
  const state = JSON.parse(text) as { checkpoint?: { latest?: { pending_operations?: unknown[] } } };
  return (state.checkpoint?.latest?.pending_operations?.length ?? 0) > 0;
}

async function readLock(file: string): Promise<LockContent | undefined> {
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (!text) return undefined;
  return JSON.parse(text) as LockContent;
}

/** A process id alone proves nothing, since ids are used again: it must be a Pulumi engine too. */
async function isEngine(pid: number): Promise<boolean> {
  const commandLine = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => undefined);
  if (commandLine !== undefined) return path.basename(commandLine.split("\0")[0] ?? "").startsWith("pulumi");
  if (process.platform === "linux") return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
