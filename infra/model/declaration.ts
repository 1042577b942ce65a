/**
 * What people write: the argument of `defineCluster`. Everything but the name and the datacenters has a default, and
 * the defaults give a cluster that survives the loss of any one datacenter as far as two datacenters can.
 */
import type { KeyInput } from "./key.ts";
import type { BsonText, HostPort, ReplicaSetSettings } from "./state.ts";
import type { DatacenterValues, RangeInput } from "./zone-range.ts";

export interface ClusterDeclaration {
  /**
   * Stable identity of the cluster.
   * @example "chat"
   */
  readonly name: string;
  /**
   * The datacenters, in an order that counts: the first one is home to the config servers' primary, and each shard has
   * its third member in the datacenter after its own. A bare string is the name.
   * @example ["alfa", "bravo"]
   */
  readonly datacenters: readonly (string | DatacenterDeclaration)[];
  /**
   * How many shards have their home in each datacenter. They are called `shard0000`, `shard0001`, … in rounds: one for
   * each datacenter, then the second for each. To add a datacenter to a cluster with more than one round, write
   * `shards`, so that no shard changes its name. Not together with `shards`.
   * @default 1
   */
  readonly shardsPerDatacenter?: number | undefined;
  /**
   * The shards, each with a name that is its identity.
   * @default one per datacenter
   * @example [{ name: "shard0000", home: "alfa" }, { name: "shard0001", home: "bravo" }]
   */
  readonly shards?: readonly ShardDeclaration[] | undefined;
  /**
   * The config servers.
   * @default three members: one datacenter 3; two datacenters 2 + 1; three or more 1 + 1 + 1, witnesses first
   */
  readonly configServers?: ConfigServersDeclaration | undefined;
  /**
   * How many mongos run in each datacenter that is no witness. Not together with `routers`.
   * @default 1
   */
  readonly routersPerDatacenter?: number | undefined;
  /**
   * The mongos.
   * @default one per datacenter, called `mongos-` and the datacenter
   * @example [{ name: "mongos-alfa", datacenter: "alfa", host: "10.1.0.5:27017" }]
   */
  readonly routers?: readonly RouterDeclaration[] | undefined;
  /**
   * Databases, by name. Those of the collections need not be named, except to say where they have their primary shard.
   * @default the databases of the collections
   * @example { chat: { primaryShard: "shard0000" } }
   */
  readonly databases?: Readonly<Record<string, DatabaseDeclaration>> | undefined;
  /**
   * Collections, by namespace. `perDatacenter`, `unique` and `sharded` write the usual ones.
   * @default none
   * @example { "chat.messages": perDatacenter({ userid: 1 }), "chat.users": unique({ userid: 1 }) }
   */
  readonly collections?: Readonly<Record<string, CollectionDeclaration>> | undefined;
  /** @default enabled, at any time of the day, the server's chunk size */
  readonly balancer?: BalancerDeclaration | undefined;
  /** Default read and write concern of the whole cluster. @default write concern majority; the read concern is not managed */
  readonly defaults?: DefaultsDeclaration | undefined;
  /** @default `admin` (root) and `application` (readWrite on the databases) */
  readonly users?: UsersDeclaration | undefined;
}

export interface DatacenterDeclaration {
  /** Stable identity; the members' `datacenter` tag and the zone have this value. @example "alfa" */
  readonly name: string;
  /** Shown to people; may change at any time. @default the name */
  readonly label?: string | undefined;
  /** A witness holds config servers and perhaps voting members, and is home to no shard. @default false */
  readonly witness?: boolean | undefined;
}

export interface ShardDeclaration {
  /** Stable identity of the shard and of its replica set. @example "shard0000" */
  readonly name: string;
  /** The datacenter in which its primary belongs. @example "alfa" */
  readonly home: string;
  /** The zones that it carries. @default the zone of its home */
  readonly zones?: readonly string[] | undefined;
  /** @default two electable members at home and one with priority 0 in the next datacenter */
  readonly members?: readonly MemberDeclaration[] | undefined;
  /** @default the server's */
  readonly settings?: ReplicaSetSettings | undefined;
}

export interface ConfigServersDeclaration {
  /** Name of the replica set. @default "configReplSet" */
  readonly name?: string | undefined;
  /** The datacenter in which the primary belongs. @default the first datacenter that holds a member and is no witness */
  readonly home?: string | undefined;
  /** @default see `configServers` */
  readonly members?: readonly MemberDeclaration[] | undefined;
  /** @default the server's */
  readonly settings?: ReplicaSetSettings | undefined;
}

export interface MemberDeclaration {
  /** @example "alfa" */
  readonly datacenter: string;
  /** Stable identity of the process. @default replica set, datacenter and a count: `shard0000-alfa-0` */
  readonly name?: string | undefined;
  /** Where it listens. @default given by the environment @example "db1.alfa.example.net:27018" */
  readonly host?: HostPort | undefined;
  /**
   * 0 to 1000; 0 never becomes primary.
   * @default shards: 1 at home, 0 elsewhere; config servers: 2 at home, 1 elsewhere; 0 for a member that is hidden, delayed, without a vote or an arbiter
   */
  readonly priority?: number | undefined;
  /** @default 1 */
  readonly votes?: 0 | 1 | undefined;
  /** Hidden members serve no reads of applications; they need priority 0. @default false */
  readonly hidden?: boolean | undefined;
  /** An arbiter votes and holds no data. @default false */
  readonly arbiterOnly?: boolean | undefined;
  /** In seconds; a delayed member needs priority 0. @default 0 */
  readonly secondaryDelaySecs?: number | undefined;
  /** Beside `datacenter`, which every member but an arbiter has. @default none @example { disk: "ssd" } */
  readonly tags?: Readonly<Record<string, string>> | undefined;
}

export interface RouterDeclaration {
  /** Stable identity of the process. @example "mongos-alfa" */
  readonly name: string;
  /** @example "alfa" */
  readonly datacenter: string;
  /** @default given by the environment */
  readonly host?: HostPort | undefined;
}

export interface DatabaseDeclaration {
  /** The shard that holds the collections that are not sharded. @default chosen by the server, not managed */
  readonly primaryShard?: string | undefined;
}

export interface CollectionDeclaration {
  /**
   * The shard key; an empty list declares a collection that is not sharded.
   * @example { datacenter: 1, userid: 1 }
   */
  readonly key: KeyInput;
  /** Whether the combination of the key's fields is unique (U1). Not with a hashed field. @default false */
  readonly unique?: boolean | undefined;
  /**
   * Zone ranges, written out. At most one of `ranges`, `perDatacenter` and `split`.
   * @default none: the balancer may put documents on any shard
   * @example [{ zone: "alfa", min: { userid: MIN_KEY }, max: { userid: 1000 } }]
   */
  readonly ranges?: readonly RangeInput[] | undefined;
  /** Ranges for each value of the key's first field, without gaps (M3, M10). @default no @example true */
  readonly perDatacenter?: boolean | PerDatacenterDeclaration | undefined;
  /** Ranges that cut the key's first field at given values. @default no @example { at: [1_000_000_000] } */
  readonly split?: SplitDeclaration | undefined;
  /** Further indexes. Those on `_id` and on the shard key make themselves. @default none */
  readonly indexes?: readonly IndexDeclaration[] | undefined;
  /** Whether the balancer may move its chunks. @default true */
  readonly balancing?: boolean | undefined;
  /** Chunk size of this collection in MiB, 1 to 1024. @default not managed */
  readonly chunkSizeMiB?: number | undefined;
}

export interface PerDatacenterDeclaration {
  /** The field that names the datacenter: the first of the key. @default "datacenter" */
  readonly field?: string | undefined;
  /** The zone of each value. @default each datacenter that is no witness, by its name @example { eu: "alfa", us: "bravo" } */
  readonly values?: DatacenterValues | undefined;
}

export interface SplitDeclaration {
  /** The values at which a new piece begins, ascending. @example [1_000_000_000] */
  readonly at: readonly unknown[];
  /** The zones of the pieces, from the lowest: one more than values. @default the datacenters in their order */
  readonly zones?: readonly string[] | undefined;
}

export interface IndexDeclaration {
  /** @example { message_id: 1 } */
  readonly key: KeyInput;
  /** A label: an index is known by its key and collation. @default the server's, e.g. `message_id_1` */
  readonly name?: string | undefined;
  /** Needs the whole shard key as its prefix (U2). @default false */
  readonly unique?: boolean | undefined;
  /** @default false */
  readonly sparse?: boolean | undefined;
  /** Kept up to date but not used by queries. @default false */
  readonly hidden?: boolean | undefined;
  /** Documents go this long after the time in the indexed field. @default never */
  readonly expireAfterSeconds?: number | undefined;
  /** @default all documents @example { active: true } */
  readonly partialFilterExpression?: Readonly<Record<string, unknown>> | BsonText | undefined;
  /** @default simple binary comparison @example { locale: "en", strength: 2 } */
  readonly collation?: Readonly<Record<string, unknown>> | BsonText | undefined;
}

export interface BalancerDeclaration {
  /** @default true */
  readonly enabled?: boolean | undefined;
  /**
   * When chunks may move, as `HH:MM` in the time zone of the config servers' primary; null: at any time.
   * @default null
   * @example { start: "23:00", stop: "05:00" }
   */
  readonly activeWindow?: { readonly start: string; readonly stop: string } | null | undefined;
  /** In MiB, 1 to 1024. @default not managed: the server's, 64 before MongoDB 6.0 and 128 from then on */
  readonly chunkSizeMiB?: number | undefined;
}

export interface DefaultsDeclaration {
  /** @default not managed (the server's is local) */
  readonly readConcern?: "local" | "available" | "majority" | undefined;
  /** null: not managed. @default { w: "majority", wtimeoutMillis: 0 } */
  readonly writeConcern?:
    | { readonly w: number | string; readonly wtimeoutMillis?: number | undefined }
    | null
    | undefined;
}

export interface UsersDeclaration {
  /** Name of the administrator (`root`), in `admin`. @default "admin" */
  readonly admin?: string | undefined;
  /**
   * The user that the application logs in as: `readWrite` on the named databases and nothing else.
   * @default { name: "application", databases: those of the declaration }; false: none
   */
  readonly application?:
    | false
    | { readonly name?: string | undefined; readonly databases?: readonly string[] | undefined }
    | undefined;
  /** A user for monitoring (`clusterMonitor`), by name; true: "monitoring". @default false */
  readonly monitoring?: boolean | string | undefined;
  /** @default none @example [{ name: "report", roles: [{ role: "read", database: "chat" }] }] */
  readonly others?: readonly UserDeclaration[] | undefined;
}

export interface UserDeclaration {
  readonly name: string;
  /** The database that knows the user. @default "admin" */
  readonly database?: string | undefined;
  readonly roles: readonly { readonly role: string; readonly database: string }[];
}
