/** Entries of the sharding metadata, as the router keeps them. */
import type { Doc, Value } from "../bson/document.ts";
import type { RoutingTable } from "./routing-table.ts";

export interface ShardEntry {
  readonly id: string;
  /** `set/host:port,host:port` */
  readonly host: string;
  readonly tags: readonly string[];
  readonly draining: boolean;
  /** The entry in config.shards. */
  readonly doc: Doc;
}

export interface DatabaseEntry {
  readonly name: string;
  /** Shard id; `config` for config and admin. */
  readonly primary: string;
  /** `{uuid, timestamp, lastMod}` as the shards want it in `databaseVersion`; missing for config and admin. */
  readonly version: Value | undefined;
}

/** A sharded collection. */
export interface CollectionRouting {
  readonly ns: string;
  readonly uuid: Value;
  /** Shard key pattern. */
  readonly key: Doc;
  readonly unique: boolean;
  readonly defaultCollation: Doc | undefined;
  readonly table: RoutingTable;
  /** The entry in config.collections. */
  readonly doc: Doc;
}
