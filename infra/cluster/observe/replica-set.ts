import type { Credential } from "../../model/connection.ts";
import type { ReplicaSetState } from "../../model/state.ts";
import type { Operation } from "../context.ts";

export interface ReplicaSetAddress {
  readonly name: string;
  readonly role: "config" | "shard";
  /** Any members: the first that answers with a configuration is believed. */
  readonly hosts: readonly string[];
  readonly credential: Credential;
  readonly tlsCaFile?: string | undefined;
}

export async function observeReplicaSet(
  op: Operation,
  address: ReplicaSetAddress,
): Promise<ReplicaSetState | undefined> {
  throw new Error("observeReplicaSet is not written yet");
}
