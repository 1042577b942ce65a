import type { Connection, Credential } from "../../model/connection.ts";
import type { Problem } from "../../model/problem.ts";
import type { Namespace, Snapshot } from "../../model/state.ts";
import type { Operation } from "../context.ts";

export interface ClusterAddress {
  readonly connection: Connection;
  /** To ask members directly; without it replica sets cannot be seen. */
  readonly memberCredential?: Credential | undefined;
  readonly replicaSets: readonly {
    readonly name: string;
    readonly role: "config" | "shard";
    readonly hosts: readonly string[];
  }[];
  /** Collections to look at although they may not be sharded. */
  readonly namespaces?: readonly Namespace[] | undefined;
}

export interface Observation {
  readonly snapshot: Snapshot;
  /** What could not be seen, and why. */
  readonly unseen: readonly Problem[];
}

export async function observeCluster(op: Operation, address: ClusterAddress): Promise<Observation> {
  throw new Error("observeCluster is not written yet");
}
