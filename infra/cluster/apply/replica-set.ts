import type { Credential } from "../../model/connection.ts";
import type { ReplicaSetState } from "../../model/state.ts";
import type { Operation } from "../context.ts";

export interface ReplicaSetRequest {
  readonly desired: ReplicaSetState;
  readonly credential: Credential;
  /** The members among which the primary belongs. */
  readonly homeHosts: readonly string[];
  readonly tlsCaFile?: string | undefined;
}

export async function applyReplicaSet(op: Operation, request: ReplicaSetRequest): Promise<ReplicaSetState> {
  throw new Error("applyReplicaSet is not written yet");
}
