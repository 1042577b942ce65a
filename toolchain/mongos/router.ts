/** The way to config servers and shards, as command handlers see it. `ClusterRouter` implements it. */

import type { Doc, Fields, Value } from "./bson/document.ts";
import type { CollectionRouting, DatabaseEntry, ShardEntry } from "./catalog/entries.ts";
import type { CommandRegistry, PrivilegeCheck } from "./commands/registry.ts";
import type { AuthenticatedUser, OperationContext, ReadPreference } from "./context.ts";
import type { CursorStore } from "./cursors/store.ts";

export interface RunOptions {
  /** Default: primary. */
  readonly readPreference?: ReadPreference;
  /** Document sequences sent beside the command. */
  readonly sequences?: ReadonlyMap<string, readonly Doc[]>;
  /** True for reads and other commands that may be sent again after a lost connection. Default: false. */
  readonly idempotent?: boolean;
  /** Return a reply with `ok: 0` instead of throwing it. */
  readonly returnErrors?: boolean;
  /** Leave out the client's session (lsid, txnNumber): for the router's own questions. */
  readonly withoutSession?: boolean;
  /** Version fields for the shard: `shardVersion`, `databaseVersion`. */
  readonly version?: Fields;
  /** Send the client's read concern (a read) and write concern (a write) along. Default: false. */
  readonly withReadConcern?: boolean;
  readonly withWriteConcern?: boolean;
  /** The command is a write that carries the client's txnNumber when it is a retryable one. */
  readonly retryableWrite?: boolean;
  /** Read concern to send instead of the client's. */
  readonly readConcern?: Doc | Fields;
  /** Send the client's `comment` along. */
  readonly withComment?: boolean;
  /** Send no maxTimeMS (getMore of a cursor that does not wait). */
  readonly withoutMaxTime?: boolean;
  /** This member and no other (cursors live on one member). */
  readonly host?: string;
  /** Add the member that answered to the reply as `$host`. */
  readonly withHost?: boolean;
  /** commitTransaction: a lost connection is no transient transaction error. */
  readonly commit?: boolean;
  /** coordinateCommitTransaction of a transaction that another router ran: the shard is no new participant. */
  readonly recovering?: boolean;
  /** Statement ids of a batch's part, for retryable writes. */
  readonly stmtIds?: readonly number[];
}

/** A replica set: runs one command on the member that the read preference asks for. */
export interface ServerGroup {
  readonly id: string;
  /**
   * Runs a command and returns the reply (session, cluster time, remaining maxTimeMS are added; a cursor in the reply is
   * not registered). Throws CommandError for `ok: 0` (all fields of the reply kept), 133 FailedToSatisfyReadPreference
   * after 15 s without a fitting member, 50 at the context's deadline.
   */
  run(ctx: OperationContext, db: string, command: Fields | Doc, options?: RunOptions): Promise<Doc>;
  /** All documents of a query or an aggregate (`{find: ...}` or `{aggregate: ..., cursor: {}}`), over as many batches as needed. */
  readAll(ctx: OperationContext, db: string, command: Fields | Doc, options?: RunOptions): Promise<Doc[]>;
  /** Connection string `set/host,host` as known now. */
  connectionString(): string;
}

/** The config servers. */
export interface ConfigServers extends ServerGroup {
  /**
   * `find` on the config servers, read concern majority. From the primary; from the nearest member when there is none.
   */
  find(
    ctx: OperationContext,
    namespace: { db: string; collection: string },
    query: { filter?: Fields | Doc; sort?: Fields; projection?: Fields; limit?: number },
  ): Promise<Doc[]>;
}

/** What the router knows of the sharding metadata. Everything is cached; `invalidate*` makes the next look-up read anew. */
export interface Catalog {
  /** All shards, sorted by name. */
  shards(ctx: OperationContext): Promise<readonly ShardEntry[]>;
  /** A database's primary shard and version; undefined when the database does not exist. `config` and `admin` live on the config servers (`primary: "config"`). */
  database(ctx: OperationContext, name: string): Promise<DatabaseEntry | undefined>;
  /** As `database`, creating it on a shard of the config servers' choice when it does not exist. */
  databaseOrCreate(ctx: OperationContext, name: string): Promise<DatabaseEntry>;
  /** Routing table of a sharded collection; undefined for an unsharded one. */
  collection(ctx: OperationContext, ns: string): Promise<CollectionRouting | undefined>;
  invalidateShards(): void;
  invalidateDatabase(name: string): void;
  invalidateCollection(ns: string): void;
  /** Forgets everything (flushRouterConfig). */
  clear(): void;
}

export interface ShardReply {
  readonly shard: string;
  readonly reply: Doc;
}

export interface Router {
  readonly config: ConfigServers;
  readonly catalog: Catalog;
  readonly commands: CommandRegistry;
  readonly cursors: CursorStore;
  /** When the router started, and what it is. */
  readonly info: RouterInfo;

  /** A shard by name; ShardNotFound (70) when it is unknown (the list of shards is read anew first). `"config"` gives the config servers. */
  shard(ctx: OperationContext, id: string): Promise<ServerGroup>;

  /**
   * Runs a command on the primary shard of a database with the database version, retrying when the database moved.
   * `ns` adds the version of an unsharded collection. A database that does not exist: NamespaceNotFound (26), or created
   * first with `create: true`. Databases `config` and `admin` go to the config servers.
   */
  onPrimaryShard(
    ctx: OperationContext,
    db: string,
    command: Fields | Doc,
    options?: RunOptions & { ns?: string; create?: boolean },
  ): Promise<Doc>;

  /**
   * Runs a command on every shard that owns chunks of the collection (all those a query may touch, when one is given),
   * with the shard version of each, and again on all of them after a StaleConfig. An unsharded collection: its primary
   * shard alone. Throws the first error, the shard's name in it.
   */
  onShardsOwning(
    ctx: OperationContext,
    ns: string,
    command: Fields | Doc,
    options?: RunOptions & { query?: Doc; collation?: Doc | undefined },
  ): Promise<readonly ShardReply[]>;

  /** Runs an unversioned command on all shards. */
  onAllShards(
    ctx: OperationContext,
    db: string,
    command: Fields | Doc,
    options?: RunOptions,
  ): Promise<readonly ShardReply[]>;

  /** Which shards a query on a collection would be sent to, sorted by name (for explain). */
  targets(ctx: OperationContext, ns: string, query: Doc, collation?: Doc): Promise<readonly string[]>;

  /** Makes the next command look the cluster-wide read and write concern up again. */
  invalidateDefaults(): void;

  /** A context for the router's own work: no session, no limit. */
  background(): OperationContext;

  /** Ends the process (command shutdown). */
  shutdown(): void;

  setPrivilegeCheck(check: PrivilegeCheck): void;
  /** The installed check; undefined when the cluster runs without authentication. */
  readonly privilegeCheck: PrivilegeCheck | undefined;
  /** Called whenever a user may have changed (createUser ...), so that cached privileges are dropped. */
  usersChanged(): void;
  /** Register a listener for `usersChanged`. */
  onUsersChanged(listener: () => void): void;
  /** Users whose sessions run now, for currentOp and the like. */
  readonly connections: ReadonlyMap<number, { readonly users: ReadonlyMap<string, AuthenticatedUser> }>;
  /** Highest cluster time seen, as it is sent on (`{clusterTime, signature}`). */
  readonly clusterTime: Value | undefined;
}

export interface RouterInfo {
  readonly started: Date;
  readonly pid: number;
  readonly host: string;
  readonly port: number;
  readonly argv: readonly string[];
  readonly configdb: string;
  readonly version: string;
  /** `--setParameter` of the command line. */
  readonly parameters: ReadonlyMap<string, string>;
}
