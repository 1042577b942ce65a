import path from "node:path";
import { homeFolder } from "../../toolchain/index.ts";

/** The checkout: Pulumi.yaml lies here. */
export const projectRoot = path.resolve(import.meta.dirname, "../..");

/** The name in Pulumi.yaml. */
export const projectName = "alfabravo";

/** Where a stack of local processes keeps its data unless its configuration says otherwise. */
export function dataFolder(stack: string): string {
  return path.join(homeFolder(projectRoot), "data", stack);
}

/** The environment that a stack's name begins with: `local` of `local-ci` (stacks/index.ts). */
export function environmentOf(stack: string): string {
  return stack.replace(/-.*/, "");
}
