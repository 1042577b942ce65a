import type { Document, MongoClient } from "mongodb";
import type { Connection } from "../../model/connection.ts";
import { normaliseHost } from "../../model/host.ts";
import { AlfabravoError } from "../../model/problem.ts";
import type { ShardState } from "../../model/state.ts";
import { DEFAULT_STALL_MILLIS } from "../balance.ts";
import type { Operation } from "../context.ts";
import { asAlfabravoError, Code, hasCode, told } from "../errors.ts";
import { admin, readConfig, WRITE_MILLIS } from "../metadata.ts";
import { observeShardHosts } from "../observe/shards.ts";
import { waitFor } from "../wait.ts";

export interface ShardRequest {
  readonly desired: ShardState;
  /** Members of the shard's replica set, at least one. */
  readonly hosts: readonly string[];
}

export interface RemoveShardOptions {
  /** Where databases with this primary shard go; by default to the shard that holds the fewest databases. */
  readonly moveDatabasesTo?: string | undefined;
  /** Milliseconds without any progress after which draining stops with the reason. Default 120,000. */
  readonly stallMillis?: number | undefined;
}

/**
 * Adds the shard when it is not there, and gives it its zones; zones that are not declared are taken from it.
 *
 * @returns the shard as read back
 * @throws AlfabravoError when a shard of that name is another replica set, when the replica set is a shard under another
 *   name, or when the shard is being drained
 */
export async function applyShard(op: Operation, connection: Connection, request: ShardRequest): Promise<ShardState> {
  const { desired, hosts } = request;
  const { name, replicaSet } = desired;
  const where = connection.hosts.join(",");
  const client = await op.connections.router(connection);
  const find = async () => {
    const shards = await observeShardHosts(op, connection);
    const mine = new Set(hosts.map(normaliseHost));
    const namesake = shards.find(({ state }) => state.name === name);
    const other = shards.find((shard) => shard.state.name !== name && shard.hosts.some((host) => mine.has(host)));
    if (namesake && namesake.state.replicaSet !== replicaSet) {
      throw new AlfabravoError(
        `the shard ${name} is the replica set ${namesake.state.replicaSet}, not ${replicaSet}; it is left alone`,
        {
          where: name,
          next: `declare it with the replica set ${namesake.state.replicaSet}, or use another shard name`,
        },
      );
    }
    if (other) {
      throw new AlfabravoError(`the replica set ${replicaSet} is a shard already, under the name ${other.state.name}`, {
        where: other.state.name,
        next: `declare the shard under the name ${other.state.name}; a shard cannot be renamed`,
      });
    }
    return namesake?.state;
  };
  let present = await find();
  if (!present) {
    op.progress(`adding the shard ${name}`);
    await told(
      `add the shard ${name}`,
      where,
      () =>
        admin(client, {
          addShard: `${replicaSet}/${hosts.map(normaliseHost).join(",")}`,
          name,
          writeConcern: { w: "majority", wtimeout: WRITE_MILLIS },
          maxTimeMS: WRITE_MILLIS,
        }),
      (error) =>
        error instanceof Error && /exists in another|local database/.test(error.message)
          ? "its databases have names that the cluster has too: rename or remove them on the replica set, then run again"
          : "look at what the message names: a shard is a replica set of --shardsvr members with the cluster's keyfile, and belongs to no other cluster",
    );
    present = (await find()) ?? { ...desired, zones: [] };
  }
  if (present.draining) {
    throw new AlfabravoError(`the shard ${name} is being drained, so it cannot be what is declared`, {
      where: name,
      next: "let the removal finish and run again, or stop it by hand (set draining back in config.shards)",
    });
  }
  const wanted = new Set(desired.zones);
  for (const zone of wanted) {
    if (present.zones.includes(zone)) continue;
    op.progress(`giving the zone ${zone} to ${name}`);
    await told(`add ${name} to the zone ${zone}`, where, () =>
      admin(client, { addShardToZone: name, zone, maxTimeMS: WRITE_MILLIS }),
    );
  }
  for (const zone of present.zones) {
    if (wanted.has(zone)) continue;
    op.progress(`taking the zone ${zone} from ${name}`);
    await told(
      `remove ${name} from the zone ${zone}`,
      where,
      () => admin(client, { removeShardFromZone: name, zone, maxTimeMS: WRITE_MILLIS }),
      "the last shard of a zone that still has ranges keeps it: remove the ranges first",
    );
  }
  const state = await find();
  if (!state) throw new AlfabravoError(`the shard ${name} is missing right after it was added`, { where });
  return state;
}

/** What `removeShard` last said: how much is still on the shard. */
interface Remaining {
  readonly chunks: number;
  readonly jumboChunks: number;
  readonly databases: readonly string[];
}

/**
 * Drains a shard and removes it, with progress. Never forced: jumbo chunks are named, and when nothing moves any more it
 * stops with the reason; the shard then goes on draining and the next run goes on.
 */
export async function removeShard(
  op: Operation,
  connection: Connection,
  name: string,
  options: RemoveShardOptions = {},
): Promise<void> {
  const where = connection.hosts.join(",");
  const stallMillis = options.stallMillis ?? DEFAULT_STALL_MILLIS;
  const client = await op.connections.router(connection);
  let last = "";
  let changed = performance.now();
  await waitFor(
    `the shard ${name} to drain`,
    async () => {
      let answer: Document;
      try {
        answer = await admin(client, { removeShard: name, writeConcern: { w: "majority", wtimeout: WRITE_MILLIS } });
      } catch (error) {
        if (hasCode(error, Code.ShardNotFound)) return { done: true, value: undefined };
        throw asAlfabravoError(
          error,
          `remove the shard ${name}`,
          where,
          () => "a shard whose zone has ranges, or the last shard, cannot go: remove the ranges or add a shard first",
        );
      }
      if (answer.state === "completed") {
        op.progress(`${name}: removed`);
        return { done: true, value: undefined };
      }
      // The first answer says only that draining has begun.
      if (answer.remaining === undefined) return { done: false, seen: "draining has begun" };
      const remaining: Remaining = {
        chunks: Number(answer.remaining.chunks ?? 0),
        jumboChunks: Number(answer.remaining.jumboChunks ?? 0),
        databases: ((answer.dbsToMove as string[] | undefined) ?? []).filter((db) => db !== "config"),
      };
      const text = describeRemaining(remaining);
      if (text !== last) {
        [last, changed] = [text, performance.now()];
        op.progress(`${name}: draining, ${text}`);
      }
      const movable = remaining.chunks - remaining.jumboChunks;
      // Databases move when their sharded chunks have left, so that each is moved once.
      const [database] = remaining.databases;
      if (movable <= 0 && database !== undefined) await moveDatabase(op, client, connection, database, name, options);
      if (performance.now() - changed > stallMillis) throw await stuck(client, name, remaining, stallMillis);
      return { done: false, seen: text };
    },
    {
      deadlineMillis: Number.POSITIVE_INFINITY,
      intervalMillis: 500,
      signal: op.signal,
      describe: String,
      fatal: () => true,
    },
  );
}

function describeRemaining({ chunks, jumboChunks, databases }: Remaining): string {
  return [
    `${chunks} chunk${chunks === 1 ? "" : "s"} left`,
    jumboChunks > 0 && `${jumboChunks} of them jumbo`,
    databases.length > 0 && `databases to move: ${databases.join(", ")}`,
  ]
    .filter(Boolean)
    .join(", ");
}

async function moveDatabase(
  op: Operation,
  client: MongoClient,
  connection: Connection,
  database: string,
  from: string,
  options: RemoveShardOptions,
): Promise<void> {
  const [shards, databases] = await Promise.all([
    readConfig(client, "shards", { draining: { $ne: true } }, { _id: 1 }),
    readConfig(client, "databases", {}, { primary: 1 }),
  ]);
  const load = (shard: string) => databases.filter((row) => row.primary === shard).length;
  const target =
    options.moveDatabasesTo ??
    shards
      .map((row) => String(row._id))
      .filter((shard) => shard !== from)
      .sort((a, b) => load(a) - load(b) || (a < b ? -1 : 1))[0];
  if (target === undefined) {
    throw new AlfabravoError(`no shard is left to take the database ${database} from ${from}`, {
      where: from,
      next: "add another shard first",
    });
  }
  op.progress(`${from}: moving the database ${database} to ${target}`);
  await told(`move the database ${database} to ${target}`, connection.hosts.join(","), () =>
    admin(client, { movePrimary: database, to: target, writeConcern: { w: "majority", wtimeout: WRITE_MILLIS } }),
  );
}

async function stuck(
  client: MongoClient,
  name: string,
  remaining: Remaining,
  stallMillis: number,
): Promise<AlfabravoError> {
  const [jumbo, [settings]] = await Promise.all([
    readConfig(client, "chunks", { shard: name, jumbo: true }, { min: 1, ns: 1, uuid: 1 }),
    readConfig(client, "settings", { _id: "balancer" as never }),
  ]);
  const off = settings?.mode === "off" || settings?.stopped === true;
  const named = jumbo.slice(0, 5).map((chunk) => JSON.stringify(chunk.min));
  const why = off
    ? "the balancer is off"
    : jumbo.length > 0
      ? `jumbo chunks cannot be moved, from ${named.join(", ")}`
      : "no other shard may take what is left: its zones are carried by this shard alone, or the balancer is outside its window";
  return new AlfabravoError(
    `draining ${name} has stopped: ${describeRemaining(remaining)}, and nothing has moved for ${stallMillis / 1000} s: ${why}`,
    {
      where: name,
      next: off
        ? "switch the balancer on, then run again"
        : "split jumbo chunks or clear their mark (clearJumboFlag), give the zones to another shard, then run again",
    },
  );
}
