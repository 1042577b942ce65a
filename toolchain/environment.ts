import { randomBytes } from "node:crypto";
import { existsSync, linkSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { cacheRoot } from "./cache.ts";
import { ToolchainError } from "./errors.ts";
import { nodeProgram } from "./node.ts";
import type { Toolchain } from "./toolchain.ts";

/** The checkout that this file belongs to. */
export const checkoutRoot = path.resolve(import.meta.dirname, "..");

/**
 * The variables with which Pulumi runs: its engine and language host, MongoDB, and where nothing else is chosen a state
 * folder and a random passphrase inside the project. Whatever the user has set wins.
 * @param env the user's environment
 * @throws ToolchainError when the project's `.alfabravo` folder cannot be written
 */
export function toolEnvironment(
  toolchain: Omit<Toolchain, "mongodb"> & Partial<Pick<Toolchain, "mongodb">>,
  projectRoot: string,
  env: NodeJS.ProcessEnv = process.env,
): Record<string, string> {
  const { pulumi, languageHost, mongodb } = toolchain;
  const own = homeFolder(projectRoot, env);
  const cache = cacheRoot(env);
  const variables: Record<string, string> = {
    PATH: pathWith(
      [path.dirname(pulumi.path), path.dirname(languageHost.path), path.join(checkoutRoot, "node_modules", ".bin")],
      env.PATH,
    ),
    ...(mongodb && { MONGODB_BIN_DIR: mongodb.binDir }),
    ALFABRAVO_LANGUAGE_HOST: path.join(checkoutRoot, "toolchain", "language-host.ts"),
    ALFABRAVO_NODE: nodeProgram(checkoutRoot),
  };
  const suggest = (name: string, value: () => string) => {
    if (env[name] === undefined || env[name] === "") variables[name] = value();
  };
  suggest("PULUMI_SKIP_UPDATE_CHECK", () => "true");
  // The engine's own number grows with the processors, but most steps here wait for servers.
  suggest("PULUMI_PARALLEL", () => "32");
  // The engine's default is four steps a core, and a cluster has more servers than that to start at once.
  suggest("PULUMI_OPTION_PARALLEL", () => "32");
  // Compiled code is kept between runs, which takes a third off every update.
  suggest("NODE_COMPILE_CACHE", () => path.join(cache, "compile-cache"));
  if (!pulumi.own) suggest("PULUMI_HOME", () => path.join(cache, "pulumi-home"));
  if (pulumi.offline) suggest("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", () => "true");
  // A token means that the state lies with the service which issued it.
  if (!env.PULUMI_ACCESS_TOKEN) suggest("PULUMI_BACKEND_URL", () => stateFolder(own));
  if (env.PULUMI_CONFIG_PASSPHRASE === undefined) suggest("PULUMI_CONFIG_PASSPHRASE_FILE", () => passphraseFile(own));
  return variables;
}

/** Where a checkout keeps state, passphrase and data: `ALFABRAVO_HOME`, else `.alfabravo` inside it. */
export function homeFolder(projectRoot: string, env: NodeJS.ProcessEnv = process.env): string {
  return env.ALFABRAVO_HOME ? path.resolve(projectRoot, env.ALFABRAVO_HOME) : path.join(projectRoot, ".alfabravo");
}

/** These folders first, and nowhere else. */
function pathWith(folders: readonly string[], searchPath: string | undefined): string {
  const rest = (searchPath ?? "").split(path.delimiter).filter((folder) => folder !== "" && !folders.includes(folder));
  return [...new Set(folders), ...rest].join(path.delimiter);
}

function writing<T>(folder: string, write: () => T): T {
  try {
    return write();
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const next = "make it writable, or set PULUMI_BACKEND_URL and PULUMI_CONFIG_PASSPHRASE_FILE yourself";
    throw new ToolchainError({ what: "the project's own folder cannot be written", where: folder, why, next, cause });
  }
}

function stateFolder(own: string): string {
  const folder = path.join(own, "state");
  writing(own, () => mkdirSync(folder, { recursive: true, mode: 0o700 }));
  return pathToFileURL(folder).href;
}

function passphraseFile(own: string): string {
  const file = path.join(own, "passphrase");
  if (existsSync(file)) return file;
  writing(own, () => {
    mkdirSync(own, { recursive: true, mode: 0o700 });
    // Linked when complete: two commands at once end with one passphrase, and neither reads half of it.
    const draft = `${file}.${process.pid}`;
    writeFileSync(draft, randomBytes(32).toString("base64url"), { mode: 0o600 });
    try {
      linkSync(draft, file);
    } catch (error) {
      if (!existsSync(file)) throw error;
    } finally {
      rmSync(draft, { force: true });
    }
  });
  return file;
}
