import { AlfabravoError } from "../model/problem.ts";
import type { ClusterSpec, CollectionSpec, ReplicaSetSpec, ShardSpec, UserSpec } from "../model/spec.ts";
import type { CollectionState, MemberState, ReplicaSetState, ShardState, Snapshot, UserState } from "../model/state.ts";
import { canonicalSnapshot } from "./canonical.ts";

/**
 * What the cluster looks like when it is as declared.
 * @throws AlfabravoError while a member has no host yet; `withHosts` (model/host.ts) gives them theirs.
 */
export function desiredSnapshot(spec: ClusterSpec): Snapshot {
  return canonicalSnapshot({
    replicaSets: [spec.configServers, ...spec.shards.map((shard) => shard.replicaSet)].map(desiredReplicaSet),
    shards: spec.shards.map(desiredShard),
    databases: spec.databases.map(({ name, primaryShard }) => ({ name, primaryShard })),
    collections: spec.collections.map(desiredCollection),
    balancer: spec.balancer,
    defaults: spec.defaults,
    users: spec.users.map(desiredUser),
  });
}

/** @throws AlfabravoError while a member has no host. */
export function desiredReplicaSet(set: ReplicaSetSpec): ReplicaSetState {
  return {
    name: set.name,
    role: set.role,
    settings: set.settings,
    members: set.members.map((member): MemberState => {
      if (member.host === undefined) {
        throw new AlfabravoError(`the member ${member.name} has no host yet`, {
          where: `replica set ${set.name}`,
          next: "declare its host, or give it one with withHosts before asking for the desired state",
        });
      }
      const { host, priority, votes, hidden, arbiterOnly, secondaryDelaySecs, tags } = member;
      return { host, priority, votes, hidden, arbiterOnly, secondaryDelaySecs, tags };
    }),
  };
}

export function desiredShard({ name, replicaSet, zones }: ShardSpec): ShardState {
  return { name, replicaSet: replicaSet.name, zones, draining: false };
}

export function desiredCollection(spec: CollectionSpec): CollectionState {
  const { namespace, key, unique, ranges, indexes, balancing, chunkSizeMiB } = spec;
  return { namespace, key, unique, ranges, indexes, balancing, chunkSizeMiB };
}

export function desiredUser({ name, database, roles }: UserSpec): UserState {
  return { name, database, roles };
}
