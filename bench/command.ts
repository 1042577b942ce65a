import { spawn } from "node:child_process";
import path from "node:path";

/** The checkout. */
export const root = path.resolve(import.meta.dirname, "..");

/** Runs a command to its end and returns its standard output. @throws Error with what it printed when it fails */
export function run(
  program: string,
  args: readonly string[],
  environment: Record<string, string> = {},
  cwd = root,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd,
      env: { ...process.env, ...environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(stdout);
      else reject(new Error(`${program} ${args.join(" ")} ended with ${code}:\n${stdout}\n${stderr}`));
    });
  });
}

/** The stack of a benchmark's home: local processes, with state and data of its own. */
export function stackOf(home: string): string {
  return `local-${path.basename(home)}`;
}

/** Our own command, on a stack and in a home of its own, so that a benchmark never meets a cluster that is in use. */
export function alfabravo(home: string, args: readonly string[]): Promise<string> {
  return run(process.execPath, [path.join(root, "scripts/alfabravo.ts"), "--stack", stackOf(home), ...args], {
    ALFABRAVO_HOME: home,
  });
}
