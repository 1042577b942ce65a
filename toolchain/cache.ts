import { existsSync, mkdirSync, statfsSync, statSync } from "node:fs";
import { mkdir, readdir, readFile, readlink, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import path from "node:path";
import { reasonOf, ToolchainError } from "./errors.ts";
import { acquireLock } from "./lock.mjs";

const NAME_ANOTHER = "set ALFABRAVO_CACHE to a folder that you may write to and that has room";

const NEARLY_FULL_BYTES = 50_000_000;

/** Not a failure of one source but of the place where every source would put its result. */
export class CacheError extends ToolchainError {
  constructor(folder: string, why: string, cause?: unknown) {
    super({ what: "the cache folder cannot be used", where: folder, why, next: NAME_ANOTHER, cause });
  }
}

/**
 * Where tools are kept between checkouts: ALFABRAVO_CACHE, else `alfabravo` in XDG_CACHE_HOME or in `.cache` of the home
 * folder. The folder need not exist.
 */
export function cacheRoot(env: NodeJS.ProcessEnv = process.env): string {
  if (env.ALFABRAVO_CACHE) return path.resolve(env.ALFABRAVO_CACHE);
  // The XDG specification wants relative paths ignored.
  if (env.XDG_CACHE_HOME && path.isAbsolute(env.XDG_CACHE_HOME)) return path.join(env.XDG_CACHE_HOME, "alfabravo");
  try {
    return path.join(env.HOME || homedir(), ".cache", "alfabravo");
  } catch (cause) {
    throw new CacheError("(none)", "HOME is not set and the system knows no home folder of this user", cause);
  }
}

function bytes(count: number): string {
  return count >= 1e9 ? `${(count / 1e9).toFixed(1)} GB` : `${Math.ceil(count / 1e6)} MB`;
}

/** Turns a failure of the cache's file system into one that names the folder; leaves every other error as it is. */
export function cacheFailure(folder: string, error: unknown): unknown {
  if (error instanceof ToolchainError || !(error instanceof Error)) return error;
  const full = /ENOSPC|EDQUOT|no space left on device|disk quota exceeded/i.test(error.message) && isFull(folder);
  const inside = "path" in error && typeof error.path === "string" && path.resolve(error.path).startsWith(folder);
  return full || (inside && "syscall" in error && !String(error.syscall).startsWith("spawn"))
    ? new CacheError(folder, reasonOf(error), error)
    : error;
}

function free(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

/** Whether the folder's file system is the one that ran full: programs that are run here write elsewhere as well. */
function isFull(folder: string): boolean {
  try {
    return free(folder) < NEARLY_FULL_BYTES;
  } catch {
    return false;
  }
}

/** Makes the cache, or a folder in it. @throws CacheError when that is not possible */
export function ensureFolder(cache: string, folder = cache): void {
  try {
    makeFolders(folder);
  } catch (error) {
    throw new CacheError(cache, reasonOf(error), error);
  }
}

/** Level by level: the recursive mkdir of Node.js never returns where the system refuses a folder as "no such file". */
function makeFolders(folder: string): void {
  if (existsSync(folder)) {
    if (!statSync(folder).isDirectory()) mkdirSync(folder);
    return;
  }
  const parent = path.dirname(folder);
  if (parent !== folder) makeFolders(parent);
  try {
    mkdirSync(folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
  }
}

/** @throws CacheError when the folder's file system has less room than `needed` bytes */
function ensureRoom(folder: string, needed: number): void {
  const available = free(folder);
  if (available < needed) {
    throw new CacheError(folder, `it has ${bytes(available)} free and ${bytes(needed)} are needed`);
  }
}

async function exists(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    () => false,
  );
}

export interface Installation {
  /** Bytes that must be free before the work begins. */
  readonly needed: number;
  /** Told once when another process is at the same work. */
  readonly onWait: (pid: number) => void;
  /** Fills the folder; it becomes visible under its name when this is through, and not before. */
  readonly fill: (folder: string) => Promise<void>;
}

/**
 * Makes `<cache>/<name>` once: under a lock between processes, in a folder beside it, renamed at the end. An interrupted
 * attempt leaves nothing that a later one takes for complete.
 * @returns the folder
 * @throws CacheError when the cache cannot be written; what `fill` throws
 */
export async function install(cache: string, name: string, installation: Installation): Promise<string> {
  const target = path.join(cache, name);
  if (await exists(target)) return target;
  ensureFolder(cache, path.dirname(target));
  let release = () => {};
  try {
    release = await acquireLock(path.join(cache, "locks", name.replaceAll("/", "-")), { onWait: installation.onWait });
    if (await exists(target)) return target;
    await removeLeftovers(target);
    ensureRoom(cache, installation.needed);
    const draft = `${target}.partial-${process.pid}`;
    await mkdir(draft);
    try {
      await installation.fill(draft);
      await rename(draft, target);
    } catch (error) {
      await rm(draft, { recursive: true, force: true });
      throw error;
    }
    return target;
  } catch (error) {
    throw cacheFailure(cache, error);
  } finally {
    release();
  }
}

/** Folders of attempts that were killed. Called under the lock, so nobody is at work in them. */
async function removeLeftovers(target: string): Promise<void> {
  const prefix = `${path.basename(target)}.partial-`;
  for (const name of await readdir(path.dirname(target))) {
    if (name.startsWith(prefix)) await rm(path.join(path.dirname(target), name), { recursive: true, force: true });
  }
}

let drafts = 0;

/** A name beside a file that no other process and no other write of this one uses. */
function draftOf(file: string): string {
  drafts += 1;
  return `${file}.${process.pid}.${drafts}`;
}

/** Replaces a small file in one step. @throws CacheError when that is not possible */
export async function writeAtomically(cache: string, file: string, content: string, mode = 0o644): Promise<void> {
  const draft = draftOf(file);
  try {
    ensureFolder(cache, path.dirname(file));
    await writeFile(draft, content, { mode });
    await rename(draft, file);
  } catch (error) {
    throw cacheFailure(cache, error);
  }
}

/** Writes a small file unless it has this content already. @throws CacheError when that is not possible */
export async function ensureFile(cache: string, file: string, content: string, mode: number): Promise<void> {
  const current = await readFile(file, "utf8").catch(() => undefined);
  if (current !== content) await writeAtomically(cache, file, content, mode);
}

/** Makes a symbolic link unless it is there already. @throws CacheError when that is not possible */
export async function ensureLink(cache: string, link: string, target: string): Promise<void> {
  if ((await readlink(link).catch(() => undefined)) === target) return;
  const draft = draftOf(link);
  try {
    ensureFolder(cache, path.dirname(link));
    await rm(draft, { force: true });
    await symlink(target, draft);
    await rename(draft, link);
  } catch (error) {
    throw cacheFailure(cache, error);
  }
}
