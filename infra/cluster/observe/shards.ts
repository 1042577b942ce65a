import type { Connection } from "../../model/connection.ts";
import type { ShardState } from "../../model/state.ts";
import type { Operation } from "../context.ts";

export async function observeShards(op: Operation, connection: Connection): Promise<ShardState[]> {
  throw new Error("observeShards is not written yet");
}
