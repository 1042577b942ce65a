import type { Connection } from "../../model/connection.ts";
import type { ClusterDefaultsState } from "../../model/state.ts";
import type { Operation } from "../context.ts";

export async function applyDefaults(
  op: Operation,
  connection: Connection,
  desired: ClusterDefaultsState,
): Promise<ClusterDefaultsState> {
  throw new Error("applyDefaults is not written yet");
}

/** Back to the server's defaults. */
export async function resetDefaults(op: Operation, connection: Connection): Promise<void> {
  throw new Error("resetDefaults is not written yet");
}
