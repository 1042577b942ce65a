import type { Connection } from "../../model/connection.ts";
import type { BalancerState } from "../../model/state.ts";
import type { Operation } from "../context.ts";
import { told } from "../errors.ts";
import { readConfig } from "../metadata.ts";

/** The balancer's settings; a chunk size that nobody has set is undefined. */
export async function observeBalancer(op: Operation, connection: Connection): Promise<BalancerState> {
  return told("read the balancer's settings", connection.hosts.join(","), async () => {
    const rows = await readConfig(await op.connections.reader(connection), "settings");
    const balancer = rows.find((row) => row._id === "balancer");
    const chunkSize = rows.find((row) => row._id === "chunksize")?.value;
    const window = balancer?.activeWindow as { start?: string; stop?: string } | undefined;
    return {
      // `mode` is what counts; `stopped` alone is written by old tools. "autoSplitOnly" moves nothing.
      enabled: balancer?.mode === undefined ? balancer?.stopped !== true : balancer.mode === "full",
      activeWindow: window?.start && window.stop ? { start: window.start, stop: window.stop } : null,
      ...(chunkSize === undefined ? {} : { chunkSizeMiB: Number(chunkSize) }),
    };
  });
}
