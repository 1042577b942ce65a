import { existsSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import path from "node:path";
import { MARKER } from "../infra/cluster/process/folder.ts";
import { stopAllServers } from "../infra/cluster/process/server-process.ts";
import { AlfabravoError } from "../infra/model/problem.ts";
import { createProgress } from "../toolchain/index.ts";
import { findDeployment } from "./support/deployment.ts";
import { runEngine } from "./support/engine.ts";
import type { CommandOptions } from "./support/options.ts";
import { exitCode } from "./support/outcome.ts";
import { dataFolder } from "./support/project.ts";
import { claimStack, openEngine } from "./support/stack.ts";

export interface DownOptions extends CommandOptions {
  /** Delete the data folder too. */
  readonly purge: boolean;
}

/** Stops everything that the stack started. The data folder stays unless `purge` is given. */
export async function down(options: DownOptions): Promise<number> {
  const progress = createProgress({ json: options.json });
  const engine = await openEngine(progress);
  const deployment = await findDeployment(engine, options.stack).catch(() => undefined);
  const folder = deployment?.dataFolder ?? dataFolder(options.stack);
  using _claim = await claimStack(engine, options.stack, progress);
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
  if (options.purge) await purge(folder);
  if (options.json) console.log(JSON.stringify({ stack: options.stack, data: options.purge ? "deleted" : folder }));
  else if (options.purge) console.log(`stack ${options.stack} is down, its data is deleted`);
  else {
    console.log(`stack ${options.stack} is down; its data stays in ${folder}`);
    console.log(
      "next: `npx alfabravo up` starts it again on the same data; `npx alfabravo down --purge` deletes the data",
    );
  }
  return exitCode.fine;
}

/**
 * Deletes what the stack's processes have written, and nothing else: a data folder may have been set to one that holds
 * other things. Every folder of ours has a marker (infra/cluster/process/).
 * @throws AlfabravoError naming what is not ours, which stays
 */
async function purge(folder: string): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  for (const entry of entries) {
    const at = path.join(folder, entry.name);
    if (entry.isDirectory() && existsSync(path.join(at, MARKER))) await rm(at, { recursive: true });
  }
  await rm(path.join(folder, "keyfile"), { force: true });
  const left = await readdir(folder).catch(() => []);
  if (left.length === 0) {
    await rm(folder, { recursive: true, force: true });
    return;
  }
  throw new AlfabravoError(`the data is deleted, but the folder holds other things: ${left.slice(0, 5).join(", ")}`, {
    where: folder,
    next: "they were not made by this stack; delete them yourself if you want to",
  });
}
