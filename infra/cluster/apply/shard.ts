import type { Connection } from "../../model/connection.ts";
import type { ShardState } from "../../model/state.ts";
import type { Operation } from "../context.ts";

export interface ShardRequest {
  readonly desired: ShardState;
  /** Members of the shard's replica set, at least one. */
  readonly hosts: readonly string[];
}

export interface RemoveShardOptions {
  /** Where databases with this primary shard go; by default to the shard that holds the fewest databases. */
  readonly moveDatabasesTo?: string | undefined;
  /** Milliseconds without any progress after which draining stops with the reason. Default 120,000. */
  readonly stallMillis?: number | undefined;
}

export async function applyShard(op: Operation, connection: Connection, request: ShardRequest): Promise<ShardState> {
  throw new Error("applyShard is not written yet");
}

export async function removeShard(
  op: Operation,
  connection: Connection,
  name: string,
  options: RemoveShardOptions = {},
): Promise<void> {
  throw new Error("removeShard is not written yet");
}
