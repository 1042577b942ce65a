import { detectDrift } from "../infra/cluster/drift.ts";
import { observeHealth } from "../infra/cluster/health.ts";
import type { Check } from "../infra/cluster/verify/cluster.ts";
import { AlfabravoError } from "../infra/model/problem.ts";
import { topologyTable } from "../infra/plan/topology-table.ts";
import { createProgress, formatElapsed, type Progress } from "../toolchain/index.ts";
import { findDeployment, onCluster, openDeployment } from "./support/deployment.ts";
import { type Engine, runEngine } from "./support/engine.ts";
import type { CommandOptions } from "./support/options.ts";
import { exitCode } from "./support/outcome.ts";
import { environmentOf } from "./support/project.ts";
import { maskPassword, renderCheckTitles, renderConnections, renderSummary, renderVerdict } from "./support/render.ts";
import { claimStack, openEngine } from "./support/stack.ts";
import { verdictCode, verifyDeployment } from "./verify.ts";

export interface UpOptions extends CommandOptions {
  /** Run the checks at the end. */
  readonly verify: boolean;
}

/**
 * Builds or repairs the cluster and verifies it. Safe to interrupt at any moment and to run again.
 * Local processes are started without asking; on every other stack the engine shows its plan and asks, unless `yes`.
 */
export async function up(options: UpOptions): Promise<number> {
  const startedAt = performance.now();
  const progress = createProgress({ json: options.json });
  const engine = await openEngine(progress);
  using claim = await claimStack(engine, options.stack, progress);
  const changedByHand = !claim.isNew && (await differsFromState(engine, options.stack, progress));
  progress.stop();

  const ask = !options.yes && environmentOf(options.stack) !== "local";
  const run = await runEngine(
    engine,
    [
      "up",
      "--stack",
      options.stack,
      "--suppress-outputs",
      "--suppress-progress",
      ...(changedByHand ? ["--refresh"] : []),
      ...(ask ? [] : ["--yes", "--skip-preview"]),
    ],
    options.json ? "capture" : "inherit",
  );
  if (run.exitCode !== 0) {
    throw new AlfabravoError(`stack ${options.stack} is not up`, {
      where: `stack ${options.stack}`,
      next: "read what the engine says above, put it right, and run `up` again: it goes on where it stopped",
      ...(options.json ? { cause: new Error(`${run.stdout}\n${run.stderr}`.trim()) } : {}),
    });
  }

  const deployment = await openDeployment(engine, options.stack);
  const checks: Check[] = options.verify ? await verifyDeployment(deployment, progress) : [];
  progress.stop();
  const masked = Object.fromEntries(
    Object.entries(deployment.uris).map(([datacenter, uri]) => [datacenter, maskPassword(uri)]),
  );
  const elapsedMillis = Math.round(performance.now() - startedAt);
  const code = options.verify ? verdictCode(checks) : exitCode.fine;
  if (options.json) {
    console.log(JSON.stringify({ stack: options.stack, verdict: code, elapsedMillis, uris: masked, checks }, null, 2));
    return code;
  }
  const { spec, dataFolder } = deployment;
  console.log(`\n${topologyTable(spec)}\n`);
  if (options.verify) console.log(`${renderCheckTitles(checks)}\n`);
  console.log(
    [
      `${spec.name} is up on stack ${options.stack} in ${formatElapsed(elapsedMillis)}: ${renderSummary(spec)}`,
      ...(options.verify ? [renderVerdict(checks)] : []),
      `data: ${dataFolder}`,
      "",
      "Connect:",
      renderConnections(masked),
      "",
      "Next:",
      ...nextSteps(options.stack),
    ].join("\n"),
  );
  return code;
}

/**
 * Whether the cluster is no longer what the last update left: changed by hand, or some of it does not answer. Only then
 * has the engine to read every resource again; one look at the whole costs a fraction of that.
 */
async function differsFromState(engine: Engine, stack: string, progress: Progress): Promise<boolean> {
  const deployment = await findDeployment(engine, stack).catch((error: unknown) => {
    progress.log(`what was deployed cannot be looked at: ${error instanceof Error ? error.message : String(error)}`);
    return "unknown" as const;
  });
  if (deployment === undefined) return false;
  if (deployment === "unknown") return true;
  const { spec, connection, memberCredential } = deployment;
  return onCluster(progress, "compare with the last update", async (op) => {
    const health = await observeHealth(op, { spec, memberCredential });
    const missing = health.filter(({ serves }) => !serves);
    if (missing.length > 0) {
      op.progress(`${missing.map(({ name }) => name).join(", ")} ${missing.length === 1 ? "does" : "do"} not serve`);
      return true;
    }
    const { changes, unseen } = await detectDrift(op, { spec, connection, memberCredential });
    const drifted = changes.filter(({ action }) => action !== "seen");
    if (drifted.length > 0) op.progress(`${drifted.length} changed by hand`);
    return drifted.length > 0 || unseen.length > 0;
  });
}

function nextSteps(stack: string): string[] {
  const on = stack === "local" ? "" : ` --stack ${stack}`;
  const steps = [
    [`npx alfabravo status --show-secrets${on}`, "connection strings with their passwords"],
    [`npx alfabravo verify${on}`, "every check with its evidence"],
    [`npx alfabravo drift${on}`, "has anybody changed it by hand?"],
    [`npx pulumi preview --stack ${stack}`, "what a change of stacks/reference.ts would do"],
    [`npx alfabravo down${on}`, "stop it; the data stays"],
  ] as const;
  const width = Math.max(...steps.map(([command]) => command.length));
  return steps.map(([command, does]) => `  ${command.padEnd(width)}   ${does}`);
}
