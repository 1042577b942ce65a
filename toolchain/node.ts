import path from "node:path";
import { isExecutable } from "./process.ts";

const OLDEST_MAJOR = 24;

/** The Node.js that runs TypeScript as it is: the one that npm installed in the checkout, else this process's own. */
export function nodeProgram(checkout: string): string {
  const pinned = path.join(checkout, "node_modules", "node", "bin", "node");
  const ownMajor = Number(process.versions.node.split(".")[0]);
  return !isExecutable(pinned) && ownMajor >= OLDEST_MAJOR ? process.execPath : pinned;
}
