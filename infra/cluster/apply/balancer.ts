import type { Connection } from "../../model/connection.ts";
import type { BalancerState } from "../../model/state.ts";
import { diffBalancer } from "../../plan/diff.ts";
import type { Operation } from "../context.ts";
import { told } from "../errors.ts";
import { admin, WRITE_MILLIS, writeConfig } from "../metadata.ts";
import { observeBalancer } from "../observe/balancer.ts";

/** Makes the balancer's settings what is desired. @returns the settings as read back */
export async function applyBalancer(
  op: Operation,
  connection: Connection,
  desired: BalancerState,
): Promise<BalancerState> {
  const fields = new Set(
    diffBalancer(desired, await observeBalancer(op, connection))
      .filter(({ action }) => action !== "seen")
      .map(({ path }) => path),
  );
  if (fields.size === 0) return observeBalancer(op, connection);
  return told("change the balancer's settings", connection.hosts.join(","), async () => {
    const client = await op.connections.router(connection);
    const { activeWindow, chunkSizeMiB, enabled } = desired;
    if (fields.has("activeWindow")) {
      op.progress(
        activeWindow
          ? `balancer: active from ${activeWindow.start} to ${activeWindow.stop}`
          : "balancer: active at any time",
      );
      await writeConfig(
        client,
        "settings",
        "balancer",
        activeWindow ? { $set: { activeWindow } } : { $unset: { activeWindow: "" } },
      );
    }
    if (fields.has("chunkSizeMiB") && chunkSizeMiB !== undefined) {
      op.progress(`balancer: chunk size ${chunkSizeMiB} MiB`);
      await writeConfig(client, "settings", "chunksize", { $set: { value: chunkSizeMiB } });
    }
    if (fields.has("enabled")) {
      op.progress(`balancer: ${enabled ? "on" : "off"}`);
      await admin(client, { [enabled ? "balancerStart" : "balancerStop"]: 1, maxTimeMS: WRITE_MILLIS });
    }
    return observeBalancer(op, connection);
  });
}

/** Back to the server's defaults. */
export async function resetBalancer(op: Operation, connection: Connection): Promise<void> {
  await applyBalancer(op, connection, { enabled: true, activeWindow: null });
  await told("reset the chunk size", connection.hosts.join(","), async () => {
    const client = await op.connections.router(connection);
    await client
      .db("config")
      .collection("settings")
      .deleteOne({ _id: "chunksize" as never }, { writeConcern: { w: "majority" } });
  });
}
