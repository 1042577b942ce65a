import { detectDrift } from "../infra/cluster/drift.ts";
import { formatProblems, type Problem } from "../infra/model/problem.ts";
import type { Change } from "../infra/plan/change.ts";
import { changeText } from "../infra/plan/change-text.ts";
import { createProgress } from "../toolchain/index.ts";
import { onCluster, openDeployment } from "./support/deployment.ts";
import type { CommandOptions } from "./support/options.ts";
import { exitCode } from "./support/outcome.ts";
import { openEngine } from "./support/stack.ts";

/** Compares the live cluster with what was declared. Exit code 2 on drift, 1 when part of it could not be seen. */
export async function drift(options: CommandOptions): Promise<number> {
  const progress = createProgress({ json: options.json });
  const engine = await openEngine(progress);
  const { spec, connection, memberCredential } = await openDeployment(engine, options.stack);
  const { changes, unseen } = await onCluster(progress, "compare", (op) =>
    detectDrift(op, { spec, connection, memberCredential }),
  );
  progress.stop();
  const drifted = changes.filter(({ action }) => action !== "seen");
  const seen = changes.filter(({ action }) => action === "seen");
  const code = driftCode(drifted, unseen);
  if (options.json)
    console.log(JSON.stringify({ stack: options.stack, verdict: code, drifted, seen, unseen }, null, 2));
  else console.log(renderDrift({ stack: options.stack, drifted, seen, unseen }));
  return code;
}

/** A difference outweighs what could not be seen: it is certain. */
export function driftCode(drifted: readonly Change[], unseen: readonly Problem[]): number {
  if (drifted.length > 0) return exitCode.notAsDeclared;
  return unseen.length > 0 ? exitCode.couldNotTell : exitCode.fine;
}

interface DriftReport {
  readonly stack: string;
  readonly drifted: readonly Change[];
  readonly seen: readonly Change[];
  readonly unseen: readonly Problem[];
}

export function renderDrift({ stack, drifted, seen, unseen }: DriftReport): string {
  const parts: string[] = [];
  if (drifted.length > 0) {
    parts.push(
      `${drifted.length} difference${drifted.length === 1 ? "" : "s"} from the declaration:`,
      ...drifted.map((change) => `  ${changeText(change)}`),
      `to put it right: npx alfabravo up --stack ${stack}`,
    );
  } else if (unseen.length === 0) {
    parts.push("no drift: the cluster is as declared");
  }
  if (unseen.length > 0) parts.push("could not be seen:", formatProblems(unseen));
  if (seen.length > 0) parts.push("seen, not managed:", ...seen.map((change) => `  ${changeText(change)}`));
  return parts.join("\n");
}
