import type { Connection, Credential } from "../model/connection.ts";
import type { Problem } from "../model/problem.ts";
import type { ClusterSpec } from "../model/spec.ts";
import type { HostPort } from "../model/state.ts";
import type { Change } from "../plan/change.ts";
import { desiredSnapshot } from "../plan/desired.ts";
import { diff } from "../plan/diff.ts";
import type { Operation } from "./context.ts";
import { type ClusterAddress, indexesPath, observeCluster } from "./observe/cluster.ts";

export interface DriftRequest {
  readonly spec: ClusterSpec;
  readonly connection: Connection;
  readonly memberCredential?: Credential | undefined;
}

/** Which resources of a difference come from which part of an observation. */
const PARTS: Readonly<Record<Change["resource"]["kind"], string>> = {
  ReplicaSet: "replicaSets",
  Shard: "shards",
  Database: "databases",
  ShardedCollection: "collections",
  Balancer: "balancer",
  ClusterDefaults: "defaults",
  User: "users",
};

/**
 * Every difference between the declaration and the live cluster. A part that could not be seen gives no difference: it
 * is listed as unseen, and the answer is then "could not tell".
 */
export async function detectDrift(
  op: Operation,
  request: DriftRequest,
): Promise<{ changes: Change[]; unseen: readonly Problem[] }> {
  const { spec, connection, memberCredential } = request;
  const { snapshot, unseen } = await observeCluster(op, { ...clusterAddress(spec), connection, memberCredential });
  const blind = new Set(unseen.map(({ path }) => path));
  const changes = diff(desiredSnapshot(spec), snapshot).filter(({ resource, path }) => {
    const part = PARTS[resource.kind];
    if (blind.has(part) || blind.has(`${part}[${resource.name}]`)) return false;
    // Whether a collection that is not sharded exists, and whether a key is unique, is told by the indexes too.
    const toldByIndexes = resource.kind === "ShardedCollection" && /^($|unique$|indexes\[)/.test(path);
    return !(toldByIndexes && blind.has(indexesPath(resource.name)));
  });
  return { changes, unseen };
}

/** Where to look for everything that a declaration names. */
export function clusterAddress(spec: ClusterSpec): Pick<ClusterAddress, "replicaSets" | "namespaces"> {
  return {
    replicaSets: [spec.configServers, ...spec.shards.map((shard) => shard.replicaSet)].map(
      ({ name, role, members }) => ({
        name,
        role,
        hosts: members.map((member) => member.host).filter((host): host is HostPort => host !== undefined),
      }),
    ),
    namespaces: spec.collections.map(({ namespace }) => namespace),
  };
}
