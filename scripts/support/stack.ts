/** A stack as the commands see it: the engine that runs it, and the deployment that it made. */
import { rm } from "node:fs/promises";
import path from "node:path";
import { AlfabravoError } from "../../infra/model/problem.ts";
import { homeFolder, type Progress, prepareToolchain, toolEnvironment } from "../../toolchain/index.ts";
import { forgetSaltOfLostState, hasStackState } from "../../toolchain/stack-settings.ts";
import { type Engine, runEngine } from "./engine.ts";
import { backendFolder, clearStaleLocks, hasPendingOperations, lockStack, restoreState } from "./killed-update.ts";
import { dataFolder, projectName, projectRoot } from "./project.ts";

/** Installs what is missing and returns the engine with its environment. */
export async function openEngine(progress: Progress): Promise<Engine> {
  const toolchain = await prepareToolchain({ progress });
  return {
    program: toolchain.pulumi.path,
    cwd: projectRoot,
    environment: toolEnvironment(toolchain, projectRoot),
  };
}

/** The right to change a stack until it is disposed. */
export interface StackClaim extends Disposable {
  /** Nothing was ever deployed on it. */
  readonly isNew: boolean;
}

/**
 * Makes the stack ready for an update: nobody else is at it, it exists, and nothing that a killed update left behind is
 * in the way. Disposing ends the claim on the stack.
 */
export async function claimStack(engine: Engine, stack: string, progress: Progress): Promise<StackClaim> {
  const release = await lockStack(homeFolder(projectRoot), stack);
  try {
    const isNew = await prepareStack(engine, stack, progress);
    return { isNew, [Symbol.dispose]: release };
  } catch (error) {
    release();
    throw error;
  }
}

/** @returns whether the stack was made only now */
async function prepareStack(engine: Engine, stack: string, progress: Progress): Promise<boolean> {
  const backendUrl = backendOf(engine);
  const folder = backendFolder(backendUrl);
  if (folder) {
    const removed = await clearStaleLocks(folder, stack);
    if (removed > 0) progress.log(`removed the lock of an update of stack ${stack} that was killed`);
  }
  if (folder && (await restoreState(folder, stack))) {
    progress.log("the state was cut off while it was written; went back to the one before, what is there is adopted");
  }
  const known = hasStackState(backendUrl, stack);
  if (known === false) forgetSaltOfLostState(projectRoot, stack);
  if (!known) {
    await engineStep(engine, ["stack", "select", "--create", stack], `stack ${stack} could not be made`);
  }
  if (folder && (await hasPendingOperations(folder, stack))) await forgetPendingOperations(engine, stack, progress);
  return known === false;
}

/**
 * Every create of ours adopts what is already there, so an operation that was begun and never reported needs no
 * inspection by hand: the next update simply does it again. Importing a state drops its pending operations.
 */
async function forgetPendingOperations(engine: Engine, stack: string, progress: Progress): Promise<void> {
  const file = path.join(homeFolder(projectRoot), `${stack}.recovered.json`);
  await engineStep(
    engine,
    ["stack", "export", "-s", stack, "--file", file],
    `the state of stack ${stack} could not be read`,
  );
  await engineStep(
    engine,
    ["stack", "import", "-s", stack, "--file", file],
    `the state of stack ${stack} could not be mended`,
  );
  await rm(file, { force: true });
  progress.log("an earlier update was interrupted; this one does its unfinished steps again");
}

async function engineStep(engine: Engine, args: readonly string[], failure: string): Promise<string> {
  const run = await runEngine(engine, [...args, "--non-interactive"], "capture");
  if (run.exitCode !== 0) {
    throw new AlfabravoError(failure, {
      where: `pulumi ${args.join(" ")}`,
      cause: new Error(run.stderr.trim() || run.stdout.trim()),
      next: "run `npx alfabravo doctor`, then the command above by hand to see more",
    });
  }
  return run.stdout;
}

/**
 * The stack's outputs, its secrets in plain text: never print them whole. Undefined when nothing is deployed.
 * @throws AlfabravoError when they cannot be read, such as with another passphrase
 */
export async function readOutputs(engine: Engine, stack: string): Promise<Record<string, unknown> | undefined> {
  if (hasStackState(backendOf(engine), stack) === false) return undefined;
  const text = await engineStep(
    engine,
    ["stack", "output", "--json", "--show-secrets", "--stack", stack],
    `the outputs of stack ${stack} could not be read`,
  );
  const outputs = JSON.parse(text) as Record<string, unknown>;
  return Object.keys(outputs).length > 0 ? outputs : undefined;
}

/** Where the stack's processes keep their data, also when no update has recorded it: from the settings, or the default. */
export async function configuredDataFolder(engine: Engine, stack: string): Promise<string> {
  const all = await engineStep(
    engine,
    ["config", "--json", "--stack", stack],
    `the settings of stack ${stack} could not be read`,
  );
  const settings = JSON.parse(all) as Record<string, { value?: string }>;
  const set = settings[`${projectName}:dataDir`]?.value;
  return set ? path.resolve(projectRoot, set) : dataFolder(stack);
}

function backendOf(engine: Engine): string | undefined {
  return engine.environment.PULUMI_BACKEND_URL ?? process.env.PULUMI_BACKEND_URL;
}
