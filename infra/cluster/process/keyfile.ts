import { randomBytes } from "node:crypto";
import { chmod, link, readFile, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { AlfabravoError } from "../../model/problem.ts";
import { makeFolder } from "./folder.ts";

/** Base64 of these makes 1,000 characters of the 1,024 that servers take. */
const KEY_BYTES = 750;
/** Readable by its owner alone: servers refuse a keyfile that others may read. */
const KEYFILE_MODE = 0o400;

/**
 * The keyfile at `file`, made when there is none; an existing one is kept, since the data beside it knows no other.
 *
 * @throws AlfabravoError when what lies there is no keyfile
 */
export async function ensureKeyfile(file: string): Promise<string> {
  const existing = await readKeyfile(file);
  if (existing !== undefined) {
    const { mode } = await stat(file);
    if ((mode & 0o777) !== KEYFILE_MODE) await chmod(file, KEYFILE_MODE);
    return existing;
  }
  await makeFolder(path.dirname(file));
  const draft = `${file}.${process.pid}.${randomBytes(4).toString("hex")}`;
  await writeFile(draft, `${randomBytes(KEY_BYTES).toString("base64")}\n`, { mode: KEYFILE_MODE });
  try {
    // Unlike a rename, a link never takes the place of a keyfile that another run made in the meantime.
    await link(draft, file).catch((error: unknown) => {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    });
  } finally {
    await rm(draft, { force: true });
  }
  const made = await readKeyfile(file);
  if (made === undefined) throw new Error(`${file} was made and is gone again: does something clean that folder?`);
  return made;
}

/** The key itself, without white space; undefined when there is no file. */
export async function readKeyfile(file: string): Promise<string | undefined> {
  const text = await readFile(file, "utf8").catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  const key = text.replaceAll(/\s/g, "");
  if (key.length >= 6 && key.length <= 1024 && /^[A-Za-z0-9+/=]+$/.test(key)) return key;
  throw new AlfabravoError(`${file} is not a keyfile: it needs 6 to 1,024 characters of base64`, {
    where: file,
    next: "restore the keyfile that the servers' data was made with; only if there is no data yet, remove the file",
  });
}
