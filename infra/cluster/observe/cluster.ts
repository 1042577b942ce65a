import type { Connection, Credential } from "../../model/connection.ts";
import { AlfabravoError, type Problem } from "../../model/problem.ts";
import type { Namespace, Snapshot } from "../../model/state.ts";
import type { Operation } from "../context.ts";
import { defaultNext, describeError } from "../errors.ts";
import { observeBalancer } from "./balancer.ts";
import { observeAllCollections } from "./collections.ts";
import { observeDatabases } from "./databases.ts";
import { observeDefaults } from "./defaults.ts";
import { observeReplicaSet } from "./replica-set.ts";
import { observeShards } from "./shards.ts";
import { observeUsers } from "./users.ts";

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

/** A part of a cluster: a field of the snapshot, one replica set, or the indexes of one collection. */
export interface Unseen extends Problem {
  /** Which part: a field of `Snapshot`, `replicaSets[name]`, or `indexesPath(namespace)`. */
  readonly path: string;
}

export interface Observation {
  readonly snapshot: Snapshot;
  /** What could not be seen, and why. Its part of the snapshot is empty and means nothing. */
  readonly unseen: readonly Unseen[];
}

/** How unseen indexes of a collection are named. */
export function indexesPath(namespace: Namespace): string {
  return `collections[${namespace}].indexes`;
}

/**
 * Everything that the project manages, read all at once. What cannot be read does not hide the rest: it is listed.
 * It never throws but for an abort.
 */
export async function observeCluster(op: Operation, address: ClusterAddress): Promise<Observation> {
  const { connection, memberCredential, replicaSets } = address;
  const unseen: Unseen[] = [];
  const look = async <T>(path: string, nothing: T, read: () => Promise<T>): Promise<T> => {
    try {
      return await read();
    } catch (error) {
      op.signal.throwIfAborted();
      const next = error instanceof AlfabravoError ? error.next : undefined;
      unseen.push({ path, message: error instanceof AlfabravoError ? error.message : describeError(error), fix: next });
      return nothing;
    }
  };
  const [sets, shards, databases, collections, balancer, defaults, users] = await Promise.all([
    Promise.all(
      replicaSets.map((set) =>
        look(`replicaSets[${set.name}]`, undefined, () => {
          if (memberCredential === undefined) {
            throw new AlfabravoError("the configuration of a replica set is seen only by asking its members", {
              next: "give the members' credential (the keyfile) as well",
            });
          }
          return observeReplicaSet(op, { ...set, credential: memberCredential, tlsCaFile: connection.tlsCaFile });
        }),
      ),
    ),
    look("shards", [], () => observeShards(op, connection)),
    look("databases", [], () => observeDatabases(op, connection)),
    look("collections", [], async () => {
      const reading = await observeAllCollections(op, connection, address.namespaces ?? []);
      for (const [namespace, error] of reading.unseen) {
        unseen.push({ path: indexesPath(namespace), message: describeError(error), fix: defaultNext(error) });
      }
      return reading.collections;
    }),
    look("balancer", { enabled: true }, () => observeBalancer(op, connection)),
    look("defaults", {}, () => observeDefaults(op, connection)),
    look("users", [], () => observeUsers(op, connection)),
  ]);
  return {
    snapshot: {
      replicaSets: sets.filter((set) => set !== undefined),
      shards,
      databases,
      collections,
      balancer,
      defaults,
      users,
    },
    // In one order, whichever part failed first.
    unseen: unseen.toSorted((a, b) => (a.path < b.path ? -1 : 1)),
  };
}
