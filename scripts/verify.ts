import { type Check, verifyCluster } from "../infra/cluster/verify/cluster.ts";
import { createProgress, type Progress } from "../toolchain/index.ts";
import { type Deployment, onCluster, openDeployment } from "./support/deployment.ts";
import type { CommandOptions } from "./support/options.ts";
import { exitCode } from "./support/outcome.ts";
import { renderChecks, renderVerdict } from "./support/render.ts";
import { openEngine } from "./support/stack.ts";

/** Proves that every constraint holds. Exit code 2 when a check failed, 1 when one could not be made. */
export async function verify(options: CommandOptions): Promise<number> {
  const progress = createProgress({ json: options.json });
  const engine = await openEngine(progress);
  const deployment = await openDeployment(engine, options.stack);
  const checks = await verifyDeployment(deployment, progress);
  progress.stop();
  if (options.json) {
    console.log(JSON.stringify({ stack: options.stack, verdict: verdictCode(checks), checks }, null, 2));
  } else {
    console.log(`${renderChecks(checks)}\n\n${renderVerdict(checks)}`);
  }
  return verdictCode(checks);
}

export function verifyDeployment(deployment: Deployment, progress: Progress): Promise<Check[]> {
  const { spec, connection, memberCredential } = deployment;
  return onCluster(progress, "verify", (op) => verifyCluster(op, { spec, connection, memberCredential }));
}

/** A failed check outweighs one that could not be made. */
export function verdictCode(checks: readonly Check[]): number {
  if (checks.some(({ status }) => status === "failed")) return exitCode.notAsDeclared;
  return checks.some(({ status }) => status === "unknown") ? exitCode.couldNotTell : exitCode.fine;
}
