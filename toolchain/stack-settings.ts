/** The settings file of a stack, `stacks/Pulumi.<stack>.yaml`, as far as its state's encryption is concerned. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** The name in Pulumi.yaml, under which a file backend keeps the stacks. */
const PROJECT = "alfabravo";

/** Whether a folder of state knows the stack. A backend that is no folder is left to tell for itself: undefined. */
export function hasStackState(backend: string | undefined, stack: string): boolean | undefined {
  if (!backend?.startsWith("file://")) return undefined;
  const stacks = path.join(fileURLToPath(backend), ".pulumi", "stacks", PROJECT);
  return [".json", ".json.gz"].some((ending) => existsSync(path.join(stacks, `${stack}${ending}`)));
}

/** Stacks of local processes need no settings file to exist; every other one is declared by its own. */
export function isDeclaredStack(projectRoot: string, stack: string): boolean {
  return /^local(-|$)/.test(stack) || existsSync(settingsFile(projectRoot, stack));
}

/**
 * Drops the encryption salt from the settings of a stack whose state is gone: it fits the passphrase of that state, and
 * would refuse the one of the next. Settings that hold secrets keep it, since they are worth more than a fresh start.
 * @returns whether it was dropped
 */
export function forgetSaltOfLostState(projectRoot: string, stack: string): boolean {
  const file = settingsFile(projectRoot, stack);
  if (!existsSync(file)) return false;
  const text = readFileSync(file, "utf8");
  const kept = text.replace(/^encryptionsalt:.*\n?/m, "");
  if (kept === text || /^\s+secure:/m.test(text)) return false;
  writeFileSync(file, kept);
  return true;
}

function settingsFile(projectRoot: string, stack: string): string {
  return path.join(projectRoot, "stacks", `Pulumi.${stack}.yaml`);
}
