import { type Document, type MongoClient, ReadPreference, type TagSet } from "mongodb";
import type { Connection } from "../model/connection.ts";
import { AlfabravoError } from "../model/problem.ts";
import type { Namespace } from "../model/state.ts";
import { mapConcurrently } from "./concurrency.ts";
import type { Operation } from "./context.ts";
import { Code, describeError, hasCode, told } from "./errors.ts";
import { splitNamespace } from "./metadata.ts";
import { observeShardHosts } from "./observe/shards.ts";

/** A member that does not know a collection asks its primary; this is how long it may take, in milliseconds. */
const READ_MILLIS = 5_000;
/** How many collections are read at a time. */
const AT_A_TIME = 8;
/** How many reads are tried to reach every member of a shard. The router picks at random among those that fit. */
const ATTEMPTS_PER_MEMBER = 16;

/** Which members of one shard have served a routed read of one collection. */
export interface WarmResult {
  readonly namespace: Namespace;
  readonly shard: string;
  /** How many members of the shard clients can read from. */
  readonly members: number;
  /** The members that served a routed read, as `host:port` as they name themselves. */
  readonly served: readonly string[];
  /** Why some have not served, when that is known. */
  readonly problem?: string | undefined;
}

export interface WarmOptions {
  /**
   * Members' tag sets: a router prefers members that are near, so those in other datacenters are reached by their tags.
   * Default: `datacenter` with the name of each zone, as declarations of this project have it.
   */
  readonly tagSets?: readonly TagSet[] | undefined;
}

/**
 * Has every member of every shard serve a read of each collection through a router, so that each knows the
 * collection's routing metadata (M11). A secondary fetches it from its primary at its first routed read, and once the
 * primary's datacenter is gone it cannot: the read would hang.
 *
 * A read preference cannot name one member for certain, for members may share their tags. So the read is an `explain`
 * with execution: it runs on the member like any routed read, with the same check of the routing version, and its
 * answer names the member that ran it. It is repeated until each has been named.
 *
 * @returns for each collection and each shard that holds a part of it, who served
 */
export async function warmMembers(
  op: Operation,
  connection: Connection,
  namespaces: readonly Namespace[],
  options: WarmOptions = {},
): Promise<WarmResult[]> {
  return told("have every member serve a read", connection.hosts.join(","), async () => {
    const client = await op.connections.reader(connection);
    const shards = await observeShardHosts(op, connection);
    const members = new Map(shards.map(({ state, hosts }) => [state.name, hosts]));
    const zones = new Set(shards.flatMap(({ state }) => state.zones));
    const tagSets = options.tagSets ?? [...zones].map((datacenter) => ({ datacenter }));
    const results = await mapConcurrently(namespaces, AT_A_TIME, (namespace) =>
      warmOne(op, client, namespace, members, tagSets),
    );
    return results.flat();
  });
}

async function warmOne(
  op: Operation,
  client: MongoClient,
  namespace: Namespace,
  members: ReadonlyMap<string, readonly string[]>,
  tagSets: readonly TagSet[],
): Promise<WarmResult[]> {
  const served = new Map<string, Set<string>>();
  const problems = new Set<string>();
  const failed = new Set<ReadPreference>();
  const read = async (preference: ReadPreference) => {
    // A preference that no member fits, or whose member hangs, fails again, and each time costs the whole bound.
    if (failed.has(preference)) return;
    try {
      for (const { shard, server } of await explainRead(client, namespace, preference)) {
        served.set(shard, (served.get(shard) ?? new Set()).add(server));
      }
    } catch (error) {
      if (!hasCode(error, Code.FailedToSatisfyReadPreference, Code.MaxTimeMSExpired, Code.StaleConfig)) throw error;
      failed.add(preference);
      problems.add(`read preference ${preferenceText(preference)}: ${describeError(error)}`);
    }
  };
  const complete = () =>
    served.size > 0 && [...served].every(([shard, seen]) => seen.size >= (members.get(shard)?.length ?? 0));

  // The primary, and the secondaries by their tags. Where no secondary has the tags, any will do: the empty set.
  const direct = [
    new ReadPreference("primary"),
    ...(tagSets.length > 0 ? tagSets : [{}]).map((tags) => new ReadPreference("secondary", [tags, {}])),
  ];
  await Promise.all(direct.map(read));
  // Members that share their tags: the router picks one at random.
  const others = [...direct.slice(1), new ReadPreference("nearest"), new ReadPreference("secondary")];
  const most = Math.max(1, ...[...members.values()].map((hosts) => hosts.length));
  for (let attempt = 0; attempt < ATTEMPTS_PER_MEMBER * most && !complete(); attempt += 1) {
    op.signal.throwIfAborted();
    const preference = others[attempt % others.length];
    if (preference) await read(preference);
    if (others.every((other) => failed.has(other))) break;
  }
  if (served.size === 0) {
    throw new AlfabravoError(`no member has served a read of ${namespace}: ${[...problems].join("; ")}`, {
      where: namespace,
      next: "bring the primaries of its shards back, then run again",
    });
  }
  return [...served].map(([shard, seen]) => {
    const count = members.get(shard)?.length ?? seen.size;
    return {
      namespace,
      shard,
      members: count,
      served: [...seen].sort(),
      ...(seen.size < count && problems.size > 0 ? { problem: [...problems].join("; ") } : {}),
    };
  });
}

function preferenceText({ mode, tags }: ReadPreference): string {
  const text = (tags ?? []).filter((set) => Object.keys(set).length > 0).map((set) => JSON.stringify(set));
  return [mode, ...text].join(" ");
}

/** One read of one document from every shard that holds a part of the collection, and who ran it. */
async function explainRead(
  client: MongoClient,
  namespace: Namespace,
  readPreference: ReadPreference,
): Promise<ExplainedShard[]> {
  const { database, collection } = splitNamespace(namespace);
  const answer = await client.db(database).command(
    {
      explain: { find: collection, filter: {}, limit: 1, maxTimeMS: READ_MILLIS },
      verbosity: "executionStats",
      maxTimeMS: READ_MILLIS,
    },
    { readPreference },
  );
  return explainedShards(answer);
}

/** A shard that an explained command reached, and the server that answered for it, as it names itself. */
export interface ExplainedShard {
  readonly shard: string;
  readonly server: string;
}

/** The shards that an explained command reached. */
export function explainedShards(explain: Document): ExplainedShard[] {
  const { shards } = explain.queryPlanner?.winningPlan ?? {};
  return ((shards as Document[] | undefined) ?? []).map((part) => ({
    shard: String(part.shardName),
    server: part.serverInfo ? `${part.serverInfo.host}:${part.serverInfo.port}` : "",
  }));
}
