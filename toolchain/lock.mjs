// Plain JavaScript: the bootstrap needs it before there is a Node.js that runs TypeScript.
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const POLL_MS = 200;

/**
 * The start time of a process, which tells a process from a later one with the same number; "" where the system does
 * not say.
 * @param {number} pid
 */
function startOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The command's name stands in parentheses and may hold spaces; the fields are counted behind it.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch {
    return "";
  }
}

/** @param {number} pid */
function alive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error?.code === "EPERM";
  }
}

/**
 * Who holds a lock file; undefined when there is none.
 * @param {string} file
 */
export function lockHolder(file) {
  let text;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (error?.code === "ENOENT") return undefined;
    throw error;
  }
  const [pid, start] = text.trim().split(" ");
  const number = Number(pid);
  const known = Number.isInteger(number) && number > 0;
  return { pid: known ? number : 0, text, lives: known && alive(number) && startOf(number) === (start ?? "") };
}

/**
 * Takes a lock that other processes respect, waiting while a living process holds it. A lock whose process is gone is
 * taken over. Returns the function that gives it back.
 * @param {string} file
 * @param {{ onWait?: (pid: number) => void }} [options] onWait is told once who holds it
 */
export async function acquireLock(file, { onWait } = {}) {
  mkdirSync(path.dirname(file), { recursive: true });
  const identity = `${process.pid} ${startOf(process.pid)}\n`;
  let told = false;
  while (!create(file, identity)) {
    const holder = lockHolder(file);
    if (holder === undefined) continue;
    if (!holder.lives) {
      takeOver(file, holder.text, identity);
      continue;
    }
    if (!told) onWait?.(holder.pid);
    told = true;
    await delay(POLL_MS);
  }
  return () => {
    if (lockHolder(file)?.text === identity) rmSync(file, { force: true });
  };
}

let drafts = 0;

/**
 * Makes the file with its content in one step, or not at all: a lock is never seen empty.
 * @param {string} file
 * @param {string} content
 */
function create(file, content) {
  drafts += 1;
  const draft = `${file}.${process.pid}.${drafts}`;
  writeFileSync(draft, content);
  try {
    linkSync(draft, file);
    return true;
  } catch (error) {
    if (error?.code === "EEXIST") return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

/**
 * Removes a dead process's lock. Only one process at a time may do so, or a slow one would remove the lock that a quick
 * one has just taken.
 * @param {string} file
 * @param {string} content what the dead process wrote
 * @param {string} identity
 */
function takeOver(file, content, identity) {
  const guard = `${file}.takeover`;
  if (!create(guard, identity)) {
    if (lockHolder(guard)?.lives === false) rmSync(guard, { force: true });
    return;
  }
  try {
    if (lockHolder(file)?.text === content) rmSync(file, { force: true });
  } finally {
    rmSync(guard, { force: true });
  }
}
