import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import { AlfabravoError } from "../../infra/model/problem.ts";

/** A Pulumi engine with the environment in which it runs (toolchain/index.ts). */
export interface Engine {
  readonly program: string;
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
}

export interface EngineRun {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

type Display = "inherit" | "capture";

/**
 * Runs the engine. With `inherit` everything that it prints goes to standard error, since a command's standard output
 * carries results only; with `capture` it is returned. Interrupts reach the engine, which then stops in good order.
 */
export function runEngine(engine: Engine, args: readonly string[], display: Display): Promise<EngineRun> {
  return new Promise((resolve, reject) => {
    let child: ChildProcess | undefined;
    // A terminal sends its interrupt to the whole foreground group, so the engine has it already; other senders do not.
    const forward = (signal: NodeJS.Signals) => {
      if (signal !== "SIGINT" || !process.stdin.isTTY) child?.kill(signal);
    };
    // Before the engine is there: a signal in between would end this process alone.
    process.on("SIGINT", forward).on("SIGTERM", forward);
    child = spawn(engine.program, args, {
      cwd: engine.cwd,
      env: { ...process.env, ...engine.environment },
      stdio: display === "inherit" ? ["inherit", process.stderr, process.stderr] : ["ignore", "pipe", "pipe"],
    });

    let stdout = "";
    let stderr = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    child.on("error", (cause) => {
      reject(
        new AlfabravoError("the Pulumi engine could not be started", {
          where: engine.program,
          next: "run `npx alfabravo doctor` to see what is missing",
          cause,
        }),
      );
    });
    child.on("close", (code, signal) => {
      process.off("SIGINT", forward).off("SIGTERM", forward);
      resolve({ exitCode: code ?? 128 + (signal ? constants.signals[signal] : 0), stdout, stderr });
    });
  });
}
