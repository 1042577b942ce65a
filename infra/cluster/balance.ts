import type { Document, MongoClient } from "mongodb";
import { compareValues, readableBson, toBsonText } from "../model/bson-text.ts";
import type { Connection } from "../model/connection.ts";
import { AlfabravoError } from "../model/problem.ts";
import type { Namespace } from "../model/state.ts";
import type { Operation } from "./context.ts";
import { codeOf, told } from "./errors.ts";
import { READ_MILLIS, readConfig } from "./metadata.ts";
import { serverVersion } from "./server-version.ts";
import { waitFor } from "./wait.ts";

/** The balancer works in rounds of up to ten seconds; looking more often than this tells nothing new. */
const POLL_MILLIS = 250;
/** News comes at most this often, in milliseconds, unless something moved. */
const NEWS_MILLIS = 5_000;
/** When the balancer cannot move anything for a reason that waiting does not change, the wait ends after this long, in milliseconds. */
const BLOCKED_MILLIS = 15_000;
/** A failed migration older than this is no reason for what happens now, in milliseconds. */
const FAILURE_MILLIS = 300_000;
export const DEFAULT_STALL_MILLIS = 120_000;

/** A part of a collection that is not where its zone ranges want it. */
export interface MisplacedChunk {
  readonly min: Document;
  readonly max: Document;
  readonly shard: string;
  /** The zone of its range; undefined when it spans several ranges and must be split first. */
  readonly zone: string | undefined;
  readonly jumbo: boolean;
}

/** Where a sharded collection's chunks lie, against its zone ranges. */
export interface Placement {
  readonly namespace: Namespace;
  readonly chunks: number;
  readonly chunksPerShard: Readonly<Record<string, number>>;
  /** Chunks by the zone of their range; those outside any range under `""`. */
  readonly chunksPerZone: Readonly<Record<string, number>>;
  readonly misplaced: readonly MisplacedChunk[];
  /** Zone ranges in which no chunk begins, so that their documents share a chunk with others. */
  readonly ranges: number;
}

/**
 * Reads where each chunk lies.
 * @throws AlfabravoError when the collection is not sharded
 */
export async function readPlacement(op: Operation, connection: Connection, namespace: Namespace): Promise<Placement> {
  return told(`read the chunks of ${namespace}`, connection.hosts.join(","), async () => {
    const client = await op.connections.reader(connection);
    const [[collection], tags, shards, version] = await Promise.all([
      readConfig(client, "collections", { _id: namespace as never }),
      readConfig(client, "tags", { ns: namespace }, { _id: 0, tag: 1, min: 1, max: 1 }),
      readConfig(client, "shards", {}, { tags: 1 }),
      serverVersion(client),
    ]);
    if (!collection || collection.unsplittable === true) {
      throw new AlfabravoError(`${namespace} is not sharded`, { where: namespace, next: "shard it first" });
    }
    const filter = version.chunksNameCollectionBy === "uuid" ? { uuid: collection.uuid } : { ns: namespace };
    const chunks = await readConfig(client, "chunks", filter, { _id: 0, min: 1, max: 1, shard: 1, jumbo: 1 });
    return placementOf(
      namespace,
      chunks,
      tags,
      new Map(shards.map((shard) => [String(shard._id), new Set(shard.tags ?? [])])),
    );
  });
}

/** Both lists are walked once, in order: 10,000 ranges are no matter. */
export function placementOf(
  namespace: Namespace,
  chunks: readonly Document[],
  tags: readonly Document[],
  zonesOfShard: ReadonlyMap<string, ReadonlySet<string>>,
): Placement {
  const byMin = (a: Document, b: Document) => compareValues(a.min, b.min);
  const ranges = tags.toSorted(byMin);
  const perShard: Record<string, number> = {};
  const perZone: Record<string, number> = {};
  const misplaced: MisplacedChunk[] = [];
  let next = 0;
  for (const chunk of chunks.toSorted(byMin)) {
    const shard = String(chunk.shard);
    perShard[shard] = (perShard[shard] ?? 0) + 1;
    // Ranges that end where the chunk begins, or before, concern no later chunk either.
    for (let range = ranges[next]; range && compareValues(range.max, chunk.min) <= 0; range = ranges[next]) next += 1;
    const range = ranges[next];
    const overlaps = range !== undefined && compareValues(range.min, chunk.max) < 0;
    const whole = overlaps && compareValues(range.min, chunk.min) <= 0 && compareValues(chunk.max, range.max) <= 0;
    const zone = whole ? String(range.tag) : "";
    perZone[zone] = (perZone[zone] ?? 0) + 1;
    if (!overlaps || (whole && zonesOfShard.get(shard)?.has(zone))) continue;
    misplaced.push({
      min: chunk.min as Document,
      max: chunk.max as Document,
      shard,
      zone: whole ? zone : undefined,
      jumbo: chunk.jumbo === true,
    });
  }
  return {
    namespace,
    chunks: chunks.length,
    chunksPerShard: perShard,
    chunksPerZone: perZone,
    misplaced,
    ranges: ranges.length,
  };
}

/**
 * Waits until every chunk lies on a shard of its zone (M5), with progress.
 *
 * The balancer does the moving. The wait stops with the reason when nothing has moved for `stallMillis`: the balancer is
 * off, outside its window, or cannot move a jumbo chunk.
 */
export async function waitForCompliance(
  op: Operation,
  connection: Connection,
  namespace: Namespace,
  options: { readonly stallMillis?: number | undefined } = {},
): Promise<Placement> {
  const stallMillis = options.stallMillis ?? DEFAULT_STALL_MILLIS;
  const client = await op.connections.reader(connection);
  const begin = performance.now();
  let [changed, newsAt] = [begin, Number.NEGATIVE_INFINITY];
  let last = "";
  let first: number | undefined;
  for (;;) {
    op.signal.throwIfAborted();
    const placement = await readPlacement(op, connection, namespace);
    if (placement.misplaced.length === 0) {
      if (last !== "") {
        const seconds = ((performance.now() - begin) / 1000).toFixed(1);
        op.progress(`${namespace}: every chunk lies in its zone, after ${seconds} s`);
      }
      return placement;
    }
    const now = performance.now();
    const seen = placement.misplaced.map((chunk) => `${chunk.shard}${JSON.stringify(chunk.min)}`).join();
    if (seen !== last) {
      [last, changed] = [seen, now];
    }
    if (changed === now || now - newsAt > NEWS_MILLIS) {
      newsAt = now;
      const documents = await documentsIn(client, namespace, placement.misplaced);
      first ??= documents;
      const moved = first !== undefined && documents !== undefined ? first - documents : 0;
      const rate = moved > 0 ? `, ${Math.round(moved / ((performance.now() - begin) / 1000))} documents a second` : "";
      const counted = documents === undefined ? "" : `, ${documents.toLocaleString("en")} documents`;
      op.progress(
        `${namespace}: ${placement.misplaced.length} of ${placement.chunks} chunks not yet in their zone${counted}${rate}`,
      );
    }
    const still = now - changed;
    if (still > Math.min(stallMillis, BLOCKED_MILLIS)) {
      const reason = await reasonOfStall(client, placement);
      if (reason.certain || still > stallMillis) throw stalled(connection, placement, still, reason);
    }
    await waitFor(
      "the next look",
      async () =>
        performance.now() - now > POLL_MILLIS ? { done: true, value: undefined } : { done: false, seen: "" },
      { deadlineMillis: 60_000, intervalMillis: POLL_MILLIS, signal: op.signal, describe: String },
    );
  }
}

/** How many documents lie in these chunks; undefined when the server cannot tell. */
async function documentsIn(
  client: MongoClient,
  namespace: Namespace,
  chunks: readonly MisplacedChunk[],
): Promise<number | undefined> {
  const database = client.db(namespace.slice(0, namespace.indexOf(".")));
  try {
    const [row] = await readConfig(client, "collections", { _id: namespace as never }, { key: 1 });
    if (!row) return undefined;
    let sum = 0;
    // Chunks beyond these are many small ones; counting each would cost more than the news is worth.
    for (const { min, max } of chunks.slice(0, 50)) {
      const { numObjects } = await database.command({
        dataSize: namespace,
        keyPattern: row.key,
        min,
        max,
        maxTimeMS: READ_MILLIS,
      });
      sum += Number(numObjects);
    }
    return sum;
  } catch (error) {
    if (codeOf(error) !== undefined) return undefined;
    throw error;
  }
}

interface Reason {
  readonly why: string;
  readonly next: string;
  /** Waiting longer would not help. */
  readonly certain: boolean;
}

async function reasonOfStall(client: MongoClient, { namespace, misplaced }: Placement): Promise<Reason> {
  const [[settings], [collection], shards] = await Promise.all([
    readConfig(client, "settings", { _id: "balancer" as never }),
    readConfig(client, "collections", { _id: namespace as never }),
    readConfig(client, "shards", {}, { tags: 1 }),
  ]);
  const zones = new Set(shards.flatMap((shard) => (shard.tags as string[] | undefined) ?? []));
  const homeless = misplaced.find(({ zone }) => zone !== undefined && !zones.has(zone));
  const jumbo = misplaced.filter((chunk) => chunk.jumbo);
  const window = settings?.activeWindow;
  if (settings?.mode === "off" || settings?.stopped === true) {
    return { why: "the balancer is off", next: "declare the balancer enabled, then run again", certain: true };
  }
  if (collection?.noBalance === true) {
    return {
      why: "balancing is off for this collection",
      next: "declare balancing: true for the collection, then run again",
      certain: true,
    };
  }
  if (homeless) {
    return {
      why: `no shard carries the zone ${homeless.zone}`,
      next: "give the zone to a shard, then run again",
      certain: true,
    };
  }
  if (jumbo.length > 0 && jumbo.length === misplaced.length) {
    const names = jumbo.slice(0, 3).map(({ min }) => readableBson(toBsonText(min)));
    return {
      why: `they are marked jumbo: the chunks from ${names.join(" and ")}`,
      next: "split them by hand, or clear the mark with clearJumboFlag, then run again",
      certain: true,
    };
  }
  const failure = await lastFailure(client, namespace);
  if (failure !== undefined) {
    return {
      why: `the last migration failed: ${failure}`,
      next: /orphan/.test(failure)
        ? "a chunk returns to a shard only when its old copy there is deleted, 15 minutes after it left by default (orphanCleanupDelaySecs): run again then"
        : "correct what the failure names, then run again",
      certain: false,
    };
  }
  if (window !== undefined) {
    return {
      why: `the balancer works from ${window.start} to ${window.stop} only`,
      next: "wait for its window, or widen it",
      certain: false,
    };
  }
  return {
    why: "no reason is known",
    next: "look at the config server primary's log and at config.changelog, then run again",
    certain: false,
  };
}

/** Why the newest migration of a collection failed, when one did in the last minutes. */
async function lastFailure(client: MongoClient, namespace: Namespace): Promise<string | undefined> {
  const [entry] = await client
    .db("config")
    .collection("changelog")
    .find(
      {
        ns: namespace,
        what: /^moveChunk/,
        "details.errmsg": { $exists: true },
        time: { $gt: new Date(Date.now() - FAILURE_MILLIS) },
      },
      { sort: { time: -1 }, limit: 1, maxTimeMS: READ_MILLIS },
    )
    .toArray();
  return entry && String(entry.details.errmsg);
}

function stalled(connection: Connection, placement: Placement, still: number, { why, next }: Reason): AlfabravoError {
  const { namespace, misplaced, chunks } = placement;
  return new AlfabravoError(
    `${misplaced.length} of ${chunks} chunks of ${namespace} are not in their zone, and nothing has moved for ${Math.round(still / 1000)} s: ${why}`,
    { where: `${namespace} at ${connection.hosts.join(",")}`, next },
  );
}
