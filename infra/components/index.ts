/** Pulumi components and resources, for programs of your own. */
export { Constraints, type ConstraintsArgs } from "./constraints.ts";
export { LocalCluster, type LocalClusterArgs, type TopologyRow } from "./local-cluster.ts";
export {
  Balancer,
  ClusterDefaults,
  Database,
  Keyfile,
  LocalProcess,
  ReplicaSet,
  Shard,
  ShardedCollection,
  User,
} from "./resources.ts";
