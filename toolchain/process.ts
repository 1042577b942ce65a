import { type ChildProcess, type ChildProcessByStdio, type SpawnOptions, spawn } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

export interface RunOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** Ends the program after so many milliseconds; it then counts as killed by SIGKILL. */
  readonly timeoutMs?: number;
  /** Every line of standard error as it comes. */
  readonly onErrorLine?: (line: string) => void;
}

export interface Ended {
  /** -1 when a signal ended it. */
  readonly code: number;
  readonly signal: NodeJS.Signals | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

const running = new Set<ChildProcess>();
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

function endAll(): void {
  for (const child of running) child.kill("SIGTERM");
}

/** An interrupted command must not leave a compiler behind; apart from that the signal does what it always does. */
function interrupted(signal: NodeJS.Signals): void {
  endAll();
  for (const name of SIGNALS) process.off(name, interrupted);
  if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
}

/** Starts a program; signals are watched before it runs, or one that comes in between would leave it behind. */
function start(
  command: string,
  args: readonly string[],
  options: SpawnOptions,
): ChildProcessByStdio<null, Readable, Readable> {
  if (running.size === 0) {
    process.on("exit", endAll);
    for (const name of SIGNALS) process.on(name, interrupted);
  }
  const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  running.add(child);
  child.once("close", () => {
    running.delete(child);
    if (running.size > 0) return;
    process.off("exit", endAll);
    for (const name of SIGNALS) process.off(name, interrupted);
  });
  return child;
}

/** Runs a program to its end without a shell. @throws the system's error when it cannot be started (ENOENT, EACCES) */
export function run(command: string, args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = start(command, args, {
      cwd: options.cwd,
      env: options.env ?? process.env,
      timeout: options.timeoutMs,
      killSignal: "SIGKILL",
    });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    createInterface({ input: child.stderr }).on("line", (line) => {
      stderr += `${line}\n`;
      options.onErrorLine?.(line);
    });
    child.on("error", reject);
    child.on("close", (code, signal) => {
      resolve({ code: code ?? -1, signal: signal ?? undefined, stdout, stderr });
    });
  });
}

/** The last lines of a program's output, for an error message. */
export function tail(text: string, lines = 3): string {
  return text.trim().split("\n").slice(-lines).join("\n");
}

/** Whether a file exists and may be executed. */
export function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/** Every executable of this name in the folders of a PATH, in its order. */
export function onPath(name: string, searchPath: string | undefined): string[] {
  return (searchPath ?? "")
    .split(path.delimiter)
    .filter((folder) => folder !== "")
    .map((folder) => path.resolve(folder, name))
    .filter(isExecutable);
}
