/**
 * The one shape in which the project speaks of a cluster: what is declared and what is observed are both written
 * in these types, so that one pure `diff` can compare them (plan/diff.ts).
 *
 * All of it is plain data: it crosses process boundaries as JSON and lies in Pulumi's state. A field that is
 * `undefined` on the desired side is not managed.
 */

/**
 * A BSON document as canonical Extended JSON text (version 2), its keys in their order.
 * Text, because objects lose the order of their keys on the way through Pulumi's property maps, and order is part
 * of a BSON document's value. Two documents are equal when their canonical texts are (model/bson-text.ts).
 */
export type BsonText = string;

/** `"host:port"`, lower case, never without the port (model/host.ts). */
export type HostPort = string;

/** `"database.collection"`. */
export type Namespace = string;

/** One field of an index or shard key: ascending, descending, or the name of a special index kind. */
export interface KeyPart {
  readonly field: string;
  readonly kind: 1 | -1 | "hashed" | "text" | "2d" | "2dsphere" | "wildcard";
}

/** A member of a replica set as `replSetGetConfig` shows it. Identity: `host`. */
export interface MemberState {
  readonly host: HostPort;
  readonly priority: number;
  readonly votes: 0 | 1;
  readonly hidden: boolean;
  readonly arbiterOnly: boolean;
  readonly secondaryDelaySecs: number;
  readonly tags: Readonly<Record<string, string>>;
}

/** Identity: `name`. */
export interface ReplicaSetState {
  readonly name: string;
  readonly role: "config" | "shard";
  readonly members: readonly MemberState[];
  readonly settings: ReplicaSetSettings;
}

/** Units are in the names. A setting that is not named keeps its value. */
export interface ReplicaSetSettings {
  readonly electionTimeoutMillis?: number | undefined;
  readonly heartbeatTimeoutSecs?: number | undefined;
  readonly catchUpTimeoutMillis?: number | undefined;
  readonly chainingAllowed?: boolean | undefined;
}

/** A row of `config.shards`. Identity: `name`. */
export interface ShardState {
  readonly name: string;
  readonly replicaSet: string;
  /** The zones that this shard carries (old name: shard tags), sorted. */
  readonly zones: readonly string[];
  readonly draining: boolean;
}

/** A row of `config.tags`: documents from `min` (inclusive) to `max` (exclusive) belong to `zone`. Identity: `min`. */
export interface ZoneRange {
  readonly zone: string;
  readonly min: BsonText;
  readonly max: BsonText;
}

/** Identity: `key` and `collation`, as for the server; the name is a label. */
export interface IndexState {
  readonly name: string;
  readonly key: readonly KeyPart[];
  readonly unique: boolean;
  readonly sparse: boolean;
  readonly hidden: boolean;
  readonly expireAfterSeconds?: number | undefined;
  readonly partialFilterExpression?: BsonText | undefined;
  readonly collation?: BsonText | undefined;
}

/** Identity: `namespace`. */
export interface CollectionState {
  readonly namespace: Namespace;
  /** The shard key; empty when the collection is not sharded. */
  readonly key: readonly KeyPart[];
  /** Whether the shard key is unique. */
  readonly unique: boolean;
  /** Sorted by `min` in BSON order. */
  readonly ranges: readonly ZoneRange[];
  /** All indexes but `_id_` and the shard key's own. */
  readonly indexes: readonly IndexState[];
  /** Whether the balancer may move this collection's chunks. */
  readonly balancing: boolean;
  /** Per-collection chunk size in MiB (configureCollectionBalancing, MongoDB 5.3 on). */
  readonly chunkSizeMiB?: number | undefined;
}

/** Identity: `name`. */
export interface DatabaseState {
  readonly name: string;
  readonly primaryShard?: string | undefined;
}

/** `config.settings`. */
export interface BalancerState {
  readonly enabled: boolean;
  /** `HH:MM`, in the time zone of the config server primary; undefined on the desired side: not managed; null: no window. */
  readonly activeWindow?: { readonly start: string; readonly stop: string } | null | undefined;
  /** In MiB; the server's default is 64 before 6.0 and 128 from 6.0 on. */
  readonly chunkSizeMiB?: number | undefined;
}

/** Cluster-wide defaults (`getDefaultRWConcern`). */
export interface ClusterDefaultsState {
  readonly readConcern?: "local" | "available" | "majority" | undefined;
  readonly writeConcern?: { readonly w: number | string; readonly wtimeoutMillis: number } | undefined;
}

/** Identity: `database` and `name`. Passwords are never part of a state. */
export interface UserState {
  readonly name: string;
  readonly database: string;
  readonly roles: readonly { readonly role: string; readonly database: string }[];
}

/** A whole cluster, declared or observed. */
export interface Snapshot {
  readonly replicaSets: readonly ReplicaSetState[];
  readonly shards: readonly ShardState[];
  readonly databases: readonly DatabaseState[];
  readonly collections: readonly CollectionState[];
  readonly balancer: BalancerState;
  readonly defaults: ClusterDefaultsState;
  readonly users: readonly UserState[];
}
