/**
 * What a user declares, after `defineCluster` has filled in the defaults and checked it (model/define-cluster.ts).
 * Unlike a `Snapshot` it still knows datacenters and intentions; `desiredSnapshot` (plan/desired.ts) turns it into one.
 */
import type {
  BalancerState,
  ClusterDefaultsState,
  CollectionState,
  DatabaseState,
  HostPort,
  MemberState,
  ReplicaSetSettings,
  UserState,
} from "./state.ts";

export interface DatacenterSpec {
  /** Stable identity; also the value of the members' `datacenter` tag and the name of the zone. */
  readonly name: string;
  /** Shown to people in place of the name; changing it changes nothing in the cluster. */
  readonly label: string;
  /** A witness holds config servers (and perhaps voting members) but is home to no shard. */
  readonly witness: boolean;
}

export interface MemberSpec extends Omit<MemberState, "host"> {
  /** Stable identity of the process, unique in the cluster, e.g. `shard0000-alfa-0`. */
  readonly name: string;
  readonly datacenter: string;
  /** Where it listens. Undefined until the environment has given it a place (a free port, a container). */
  readonly host: HostPort | undefined;
  /** Holds at least `datacenter`. */
  readonly tags: Readonly<Record<string, string>>;
}

export interface ReplicaSetSpec {
  readonly name: string;
  readonly role: "config" | "shard";
  /** The datacenter in which a primary belongs. */
  readonly home: string;
  readonly members: readonly MemberSpec[];
  readonly settings: ReplicaSetSettings;
}

export interface ShardSpec {
  readonly name: string;
  readonly home: string;
  readonly zones: readonly string[];
  readonly replicaSet: ReplicaSetSpec;
}

/** A mongos. */
export interface RouterSpec {
  readonly name: string;
  readonly datacenter: string;
  readonly host: HostPort | undefined;
}

export type DatabaseSpec = DatabaseState;

export interface CollectionSpec extends CollectionState {
  /** The field that names the datacenter, when the ranges were made per datacenter value (M3, M10). */
  readonly datacenterField?: string | undefined;
}

export interface UserSpec extends UserState {
  /** What it is for, in a word: shown in `status`. */
  readonly purpose: "admin" | "application" | "monitoring" | "other";
}

export interface ClusterSpec {
  readonly name: string;
  readonly datacenters: readonly DatacenterSpec[];
  readonly configServers: ReplicaSetSpec;
  readonly shards: readonly ShardSpec[];
  readonly routers: readonly RouterSpec[];
  readonly databases: readonly DatabaseSpec[];
  readonly collections: readonly CollectionSpec[];
  readonly balancer: BalancerState;
  readonly defaults: ClusterDefaultsState;
  readonly users: readonly UserSpec[];
}
