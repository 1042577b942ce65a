import { existsSync } from "node:fs";
import { readdir, rm, rmdir } from "node:fs/promises";
import path from "node:path";
import { MARKER } from "../infra/cluster/process/folder.ts";
import { stopAllServers } from "../infra/cluster/process/server-process.ts";
import { AlfabravoError } from "../infra/model/problem.ts";
import { createProgress } from "../toolchain/index.ts";
import { type Engine, runEngine } from "./support/engine.ts";
import type { CommandOptions } from "./support/options.ts";
import { exitCode } from "./support/outcome.ts";
import { claimStack, configuredDataFolder, openEngine, readOutputs } from "./support/stack.ts";

export interface DownOptions extends CommandOptions {
  /** Delete the data folder too. */
  readonly purge: boolean;
}

/** Stops everything that the stack started. The data folder stays unless `purge` is given. */
export async function down(options: DownOptions): Promise<number> {
  const progress = createProgress({ json: options.json });
  const engine = await openEngine(progress);
  using _claim = await claimStack(engine, options.stack, progress);
  const folder = await dataFolderOf(engine, options.stack);
  progress.stop();
  const run = await runEngine(
    engine,
    ["destroy", "--stack", options.stack, "--yes", "--skip-preview", "--suppress-outputs", "--suppress-progress"],
    options.json ? "capture" : "inherit",
  );
  if (run.exitCode !== 0) {
    throw new AlfabravoError(`stack ${options.stack} was not taken down whole`, {
      where: `stack ${options.stack}`,
      next: "read what the engine says above, put it right, and run `down` again: it goes on where it stopped",
      ...(run.stderr || run.stdout ? { cause: new Error(`${run.stdout}\n${run.stderr}`.trim()) } : {}),
    });
  }
  // An update that was killed may have started servers that no state knows of; their folders tell.
  await stopAllServers(folder);
  const purged = options.purge && (await purge(folder));
  if (options.json) console.log(JSON.stringify({ stack: options.stack, dataFolder: folder, purged }));
  else if (options.purge) {
    const data = purged ? `its data in ${folder} is deleted` : `there was no data to delete in ${folder}`;
    console.log(`stack ${options.stack} is down; ${data}`);
  } else {
    console.log(`stack ${options.stack} is down; its data stays in ${folder}`);
    console.log(
      "next: `npx alfabravo up` starts it again on the same data; `npx alfabravo down --purge` deletes the data",
    );
  }
  return exitCode.fine;
}

/** What the last update recorded; when none got that far, or the keyfile is gone, what the settings say. */
async function dataFolderOf(engine: Engine, stack: string): Promise<string> {
  const recorded = (await readOutputs(engine, stack))?.dataFolder;
  return typeof recorded === "string" ? recorded : configuredDataFolder(engine, stack);
}

/**
 * Deletes what the stack's processes have written, and nothing else: a data folder may have been set to one that holds
 * other things. Every folder of ours has a marker (infra/cluster/process/).
 * @returns whether there was anything
 * @throws AlfabravoError naming what is not ours, which stays
 */
async function purge(folder: string): Promise<boolean> {
  if (!existsSync(folder)) return false;
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  for (const entry of entries) {
    const at = path.join(folder, entry.name);
    if (entry.isDirectory() && existsSync(path.join(at, MARKER))) await rm(at, { recursive: true });
  }
  await rm(path.join(folder, "keyfile"), { force: true });
  const left = await readdir(folder).catch(() => []);
  if (left.length === 0) {
    await rmdir(folder);
    return true;
  }
  throw new AlfabravoError(`the data is deleted, but the folder holds other things: ${left.slice(0, 5).join(", ")}`, {
    where: folder,
    next: "they were not made by this stack; delete them yourself if you want to",
  });
}
