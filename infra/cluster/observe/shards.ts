import type { Document } from "mongodb";
import type { Connection } from "../../model/connection.ts";
import { normaliseHost } from "../../model/host.ts";
import type { ShardState } from "../../model/state.ts";
import type { Operation } from "../context.ts";
import { told } from "../errors.ts";
import { READ_MILLIS, readConfig } from "../metadata.ts";

/** Every shard of the cluster, by name. */
export async function observeShards(op: Operation, connection: Connection): Promise<ShardState[]> {
  return (await observeShardHosts(op, connection)).map(({ state }) => state);
}

/** Whether a shard owns a part of a sharded collection, those of the server itself left out. */
export async function ownsChunks(op: Operation, connection: Connection, shard: string): Promise<boolean> {
  return told(`read the chunks of ${shard}`, connection.hosts.join(","), async () => {
    const client = await op.connections.reader(connection);
    const own = await readConfig(client, "collections", { _id: /^config\./ as never }, { uuid: 1 });
    const chunk = await client
      .db("config")
      .collection("chunks", { readPreference: "primaryPreferred", readConcern: { level: "majority" } })
      .findOne(
        { shard, uuid: { $nin: own.map(({ uuid }) => uuid) }, ns: { $not: /^config\./ } },
        { projection: { _id: 1 }, maxTimeMS: READ_MILLIS },
      );
    return chunk !== null;
  });
}

export interface ShardHosts {
  readonly state: ShardState;
  /** The members that clients may see, as the cluster knows them. */
  readonly hosts: readonly string[];
}

/** Like `observeShards`, with the members of each shard. */
export async function observeShardHosts(op: Operation, connection: Connection): Promise<ShardHosts[]> {
  return told("read the shards", connection.hosts.join(","), async () => {
    const rows = await readConfig(await op.connections.reader(connection), "shards");
    return rows.map(shardFromRow).sort((a, b) => (a.state.name < b.state.name ? -1 : 1));
  });
}

function shardFromRow(row: Document): ShardHosts {
  // `replicaSet/host:port,host:port`
  const text = String(row.host);
  const slash = text.indexOf("/");
  const hosts = text
    .slice(slash + 1)
    .split(",")
    .filter(Boolean)
    .map(normaliseHost);
  return {
    state: {
      name: String(row._id),
      replicaSet: slash < 0 ? "" : text.slice(0, slash),
      zones: [...((row.tags as string[] | undefined) ?? [])].sort(),
      draining: row.draining === true,
    },
    hosts,
  };
}
