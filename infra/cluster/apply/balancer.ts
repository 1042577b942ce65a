import type { Connection } from "../../model/connection.ts";
import type { BalancerState } from "../../model/state.ts";
import type { Operation } from "../context.ts";

export async function applyBalancer(
  op: Operation,
  connection: Connection,
  desired: BalancerState,
): Promise<BalancerState> {
  throw new Error("applyBalancer is not written yet");
}

/** Back to the server's defaults. */
export async function resetBalancer(op: Operation, connection: Connection): Promise<void> {
  throw new Error("resetBalancer is not written yet");
}
