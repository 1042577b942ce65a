import path from "node:path";

/** The checkout: Pulumi.yaml lies here, and everything that commands write lies in `.alfabravo/` beneath it. */
export const projectRoot = path.resolve(import.meta.dirname, "../..");

/** The name in Pulumi.yaml. */
export const projectName = "alfabravo";

/** Where a stack of local processes keeps its data unless its configuration says otherwise. */
export function dataFolder(stack: string): string {
  return path.join(projectRoot, ".alfabravo", "data", stack);
}
