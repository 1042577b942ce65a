/** Runs the project's own commands as a user does: whole processes, each on a stack and in a home of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

/** The checkout. */
export const root = path.resolve(import.meta.dirname, "../..");

export interface Outcome {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly environment?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** In a process group of its own, so that the whole group can be killed. */
  readonly detached?: boolean;
  /** Milliseconds after which it is ended with SIGTERM. */
  readonly timeout?: number;
  readonly onStart?: (child: ChildProcess) => void;
}

/** Runs a command to its end, whatever that is. */
export function outcomeOf(program: string, args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: options.cwd ?? root,
      env: { ...process.env, ...options.environment },
      stdio: ["ignore", "pipe", "pipe"],
      detached: options.detached ?? false,
      ...(options.timeout === undefined ? {} : { timeout: options.timeout }),
    });
    let stdout = "";
    let stderr = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    child.on("error", reject);
    child.on("close", (code, signal) => resolve({ code, signal, stdout, stderr }));
    options.onStart?.(child);
  });
}

/** Runs a command that must succeed and returns its standard output. @throws Error with all that it printed */
export async function run(program: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const { code, signal, stdout, stderr } = await outcomeOf(program, args, options);
  if (code === 0) return stdout;
  throw new Error(`${program} ${args.join(" ")} ended with ${code ?? signal}:\n${stdout}\n${stderr}`);
}

/** One home of the command line: state, passphrase and data of a local stack that no other test or user meets. */
export class CommandHome implements AsyncDisposable {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async make(): Promise<CommandHome> {
    return new CommandHome(await mkdtemp(path.join(tmpdir(), "alfabravo-home-")));
  }

  /** Its name begins with the environment, `local`. */
  get stack(): string {
    return `local-${path.basename(this.folder).slice(-6)}`;
  }

  get environment(): Record<string, string> {
    return { ALFABRAVO_HOME: this.folder };
  }

  /** `alfabravo --stack <this one> ...`, to its end. */
  outcome(args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
    return outcomeOf(process.execPath, this.#command(args), this.#options(options));
  }

  /** The same, and it must succeed. */
  alfabravo(args: readonly string[], options: RunOptions = {}): Promise<string> {
    return run(process.execPath, this.#command(args), this.#options(options));
  }

  /** `npx pulumi <args> --stack <this one>`, to its end. */
  pulumi(args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
    const program = path.join(root, "toolchain/pulumi-cli/pulumi.mjs");
    return outcomeOf(process.execPath, [program, ...args, "--stack", this.stack], this.#options(options));
  }

  /** Stops the cluster, and removes its data and the stack's settings. */
  async [Symbol.asyncDispose](): Promise<void> {
    const down = await this.outcome(["down", "--purge"]);
    await rm(path.join(root, "stacks", `Pulumi.${this.stack}.yaml`), { force: true });
    if (down.code !== 0) throw new Error(`the cluster in ${this.folder} is not down:\n${down.stdout}\n${down.stderr}`);
    await rm(this.folder, { recursive: true, force: true });
  }

  #command(args: readonly string[]): string[] {
    return [path.join(root, "scripts/alfabravo.ts"), "--stack", this.stack, ...args];
  }

  #options(options: RunOptions): RunOptions {
    return { ...options, environment: { ...this.environment, ...options.environment } };
  }
}
