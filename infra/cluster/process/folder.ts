/** The data folder of one process: what is remembered there outlives a killed update and a lost state. */
import { mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { AlfabravoError } from "../../model/problem.ts";
import type { ProcessIdentity } from "./os-process.ts";

export const MARKER = "alfabravo.json";

/** Whose folder it is and what runs on it. */
export interface Marker {
  readonly cluster: string;
  readonly name: string;
  /** Chosen once and kept: it is part of a member's identity in its replica set. */
  readonly port?: number | undefined;
  readonly process?: ProcessIdentity | undefined;
  /** The process was told to end: who finds it waits until it is gone. */
  readonly ending?: boolean | undefined;
  /** What the process was started with, after the program itself. */
  readonly arguments?: readonly string[] | undefined;
}

/** The places in the folder of one process. */
export interface ProcessFolder {
  readonly path: string;
  readonly dbPath: string;
  readonly logPath: string;
  /** What the program says before it opens its log. */
  readonly outputPath: string;
}

export function processFolder(dataDir: string, name: string): ProcessFolder {
  const folder = path.join(dataDir, name);
  return {
    path: folder,
    dbPath: path.join(folder, "db"),
    logPath: path.join(folder, "server.log"),
    outputPath: path.join(folder, "output.log"),
  };
}

/**
 * Makes the folder ours, or finds that it is.
 *
 * @throws AlfabravoError when it belongs to another cluster or process, or holds data that nobody marked
 */
export async function claimFolder(folder: string, owner: Pick<Marker, "cluster" | "name">): Promise<Marker> {
  const marker = await readMarker(folder);
  if (marker) {
    if (marker.cluster === owner.cluster && marker.name === owner.name) return marker;
    throw new AlfabravoError(
      `the data folder ${folder} belongs to ${marker.name} of the cluster ${marker.cluster}, not to ${owner.name} of ${owner.cluster}`,
      { where: folder, next: "choose another data folder, or move that one away: nothing in it was touched" },
    );
  }
  const content = await Promise.all([folder, path.join(folder, "db")].map((place) => readdir(place).catch(() => [])));
  const data = content.flat().find((file) => /^(WiredTiger|mongod\.lock|storage\.bson)/.test(file));
  if (data !== undefined) {
    throw new AlfabravoError(
      `the data folder ${folder} holds data of a mongod (${data}) but no ${MARKER} that says whose`,
      {
        where: folder,
        next: "choose another data folder, or move that one away: nothing in it was touched",
      },
    );
  }
  await makeFolder(folder);
  const fresh: Marker = { cluster: owner.cluster, name: owner.name };
  await writeMarker(folder, fresh);
  return fresh;
}

export async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new AlfabravoError(`the folder ${folder} cannot be made: ${cause instanceof Error ? cause.message : cause}`, {
      where: folder,
      next: "choose a data folder on a disk that has room and that you may write to",
      cause,
    });
  }
}

/** Undefined when there is none. */
export async function readMarker(folder: string): Promise<Marker | undefined> {
  const file = path.join(folder, MARKER);
  const text = await readFile(file, "utf8").catch((error: unknown) => {
    if (error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR"))
      return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as Marker;
  } catch (cause) {
    throw new AlfabravoError(`${file} cannot be read as JSON, so nobody can tell whose data lies beside it`, {
      where: file,
      next: "restore the file, or move the folder away",
      cause,
    });
  }
}

/** At once or not at all: a reader never sees half of it. */
export async function writeMarker(folder: string, marker: Marker): Promise<void> {
  const file = path.join(folder, MARKER);
  const draft = `${file}.${process.pid}`;
  await writeFile(draft, `${JSON.stringify(marker, null, 2)}\n`, { mode: 0o600 });
  await rename(draft, file);
}
