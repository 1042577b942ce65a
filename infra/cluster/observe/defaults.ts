import type { Connection } from "../../model/connection.ts";
import type { ClusterDefaultsState } from "../../model/state.ts";
import type { Operation } from "../context.ts";

export async function observeDefaults(op: Operation, connection: Connection): Promise<ClusterDefaultsState> {
  throw new Error("observeDefaults is not written yet");
}
