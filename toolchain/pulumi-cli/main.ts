/** Runs the real engine with the arguments, input and output of `npx pulumi`, in the project's environment. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { constants } from "node:os";
import path from "node:path";
import { checkoutRoot } from "../environment.ts";
import { createProgress, formatToolchainError, prepareToolchain, toolEnvironment } from "../index.ts";
import { run, tail } from "../process.ts";
import { forgetSaltOfLostState, hasStackState, isDeclaredStack } from "../stack-settings.ts";
import { stackToCreate } from "./stacks.ts";

async function main(args: readonly string[]): Promise<number> {
  const progress = createProgress();
  const toolchain = await prepareToolchain({ progress, quietWhenReady: true });
  progress.stop();
  const env = { ...process.env, ...toolEnvironment(toolchain, checkoutRoot) };

  const isNew = (name: string) =>
    inThisProject() && isDeclaredStack(checkoutRoot, name) && hasStackState(env.PULUMI_BACKEND_URL, name) === false;
  const stack = stackToCreate(args, isNew);
  if (stack) {
    forgetSaltOfLostState(checkoutRoot, stack);
    const made = await run(toolchain.pulumi.path, ["stack", "init", stack, "--no-select", "--non-interactive"], {
      env,
      cwd: checkoutRoot,
    });
    if (made.code !== 0) {
      console.error(`error: stack ${stack} could not be created: ${tail(made.stderr)}`);
      return 1;
    }
    console.error(`✓ stack ${stack} created in ${env.PULUMI_BACKEND_URL}`);
  }
  return engine(toolchain.pulumi.path, args, env);
}

/** Whether the engine would take the Pulumi.yaml of this checkout: it looks upwards from the working folder. */
function inThisProject(): boolean {
  let at = process.cwd();
  while (!existsSync(path.join(at, "Pulumi.yaml")) && at !== path.dirname(at)) at = path.dirname(at);
  return at === checkoutRoot;
}

function engine(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  return new Promise((resolve, reject) => {
    // See the bootstrap: what a terminal sends has reached the engine already, and a second interrupt would cut it off.
    const forward = (signal: NodeJS.Signals) => {
      if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
    };
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, forward);
    const child = spawn(program, args, { stdio: "inherit", env });
    child.on("error", reject);
    child.on("close", (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)));
  });
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(formatToolchainError(error));
  process.exitCode = 1;
}
