import { observeHealth, type ProcessHealth } from "../infra/cluster/health.ts";
import { survivability } from "../infra/plan/survivability.ts";
import { survivabilityTable } from "../infra/plan/survivability-table.ts";
import { topologyTable } from "../infra/plan/topology-table.ts";
import { createProgress } from "../toolchain/index.ts";
import { onCluster, openDeployment } from "./support/deployment.ts";
import type { CommandOptions } from "./support/options.ts";
import { exitCode } from "./support/outcome.ts";
import { maskPassword, renderConnections, renderSummary } from "./support/render.ts";
import { openEngine } from "./support/stack.ts";

export interface StatusOptions extends CommandOptions {
  readonly showSecrets: boolean;
}

/** Shows where everything is and whether it serves. Exit code 2 when something that was declared does not serve. */
export async function status(options: StatusOptions): Promise<number> {
  const progress = createProgress({ json: options.json });
  const engine = await openEngine(progress);
  const { spec, uris, memberCredential, dataFolder } = await openDeployment(engine, options.stack);
  const shown = options.showSecrets
    ? uris
    : Object.fromEntries(Object.entries(uris).map(([name, uri]) => [name, maskPassword(uri)]));

  const health = await onCluster(progress, "look at every process", (op) =>
    observeHealth(op, { spec, memberCredential }),
  );
  progress.stop();
  const code = health.every(({ serves }) => serves) ? exitCode.fine : exitCode.notAsDeclared;
  if (options.json) {
    const survives = survivability(spec);
    console.log(
      JSON.stringify(
        { stack: options.stack, verdict: code, uris: shown, processes: health, survives, dataFolder },
        null,
        2,
      ),
    );
    return code;
  }
  console.log(`${spec.name} on stack ${options.stack}: ${renderSummary(spec)}\n`);
  console.log(`${topologyTable(spec, { states: rolesByName(health) })}\n`);
  for (const { name, host, problem } of health.filter(({ serves }) => !serves))
    console.log(`! ${name} (${host}): ${problem}`);
  console.log(`Connect:\n${renderConnections(shown)}`);
  if (!options.showSecrets) console.log("  (with passwords: npx alfabravo status --show-secrets)");
  console.log(`\nIf a datacenter is lost:\n${survivabilityTable(survivability(spec))}`);
  return code;
}

function rolesByName(health: readonly ProcessHealth[]): Readonly<Record<string, string>> {
  return Object.fromEntries(health.filter(({ role }) => role !== "mongos").map(({ name, role }) => [name, role]));
}
