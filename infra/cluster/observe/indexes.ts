import type { Document, MongoClient } from "mongodb";
import { toBsonText } from "../../model/bson-text.ts";
import { partsFromDocument } from "../../model/key.ts";
import type { IndexState, Namespace } from "../../model/state.ts";
import { mapConcurrently } from "../concurrency.ts";
import { Code, describeError, hasCode } from "../errors.ts";
import { READ_MILLIS, splitNamespace } from "../metadata.ts";
import type { ServerVersion } from "../server-version.ts";

/** How many collections are asked for their indexes at a time. */
const LIST_INDEXES_AT_A_TIME = 16;
/** From this many collections on, one read of the whole catalog costs less than asking each. */
const CATALOG_FROM = 24;

export interface IndexReading {
  /** The indexes of each collection as the server describes them; a collection that does not exist is not in the map. */
  readonly indexes: ReadonlyMap<Namespace, Document[]>;
  /** Why the indexes of a collection could not be read: in an outage, those of one shard may be out of reach. */
  readonly unseen: ReadonlyMap<Namespace, unknown>;
}

/** For each sharded collection, the shards that own a part of it. */
export type Owners = ReadonlyMap<Namespace, ReadonlySet<string>>;

/**
 * Reads the indexes of many collections. One that is missing on a shard that owns a part of its collection does not
 * count: there it neither speeds up a query nor forbids a duplicate.
 */
export async function readIndexes(
  client: MongoClient,
  version: ServerVersion,
  namespaces: readonly Namespace[],
  owners: Owners,
  progress: (text: string) => void,
): Promise<IndexReading> {
  if (version.hasListCatalog && namespaces.length >= CATALOG_FROM) {
    try {
      return { indexes: await readCatalog(client, new Set(namespaces), owners), unseen: new Map() };
    } catch (error) {
      progress(`the catalog cannot be read at once (${describeError(error)}); asking collection by collection`);
    }
  }
  const indexes = new Map<Namespace, Document[]>();
  const unseen = new Map<Namespace, unknown>();
  let outOfReach: unknown;
  await mapConcurrently(namespaces, LIST_INDEXES_AT_A_TIME, async (namespace) => {
    // Each that hangs costs its whole time limit; after a round of them the others are not waited for.
    if (unseen.size >= LIST_INDEXES_AT_A_TIME) {
      unseen.set(namespace, outOfReach);
      return;
    }
    try {
      const found = await listIndexes(client, namespace);
      if (!found) return;
      const shards = owners.get(namespace) ?? new Set();
      indexes.set(namespace, shards.size > 1 ? await whole(client, namespace, found, shards) : found);
    } catch (error) {
      unseen.set(namespace, error);
      outOfReach = error;
    }
  });
  return { indexes, unseen };
}

/** @returns undefined when the collection does not exist */
export async function listIndexes(client: MongoClient, namespace: Namespace): Promise<Document[] | undefined> {
  const { database, collection } = splitNamespace(namespace);
  try {
    // A collection has at most 64 indexes, so one batch holds them all. Without a primary any member will do.
    const { cursor } = await client
      .db(database)
      .command(
        { listIndexes: collection, cursor: { batchSize: 100 }, maxTimeMS: READ_MILLIS },
        { readPreference: "primaryPreferred" },
      );
    return cursor.firstBatch;
  } catch (error) {
    if (hasCode(error, Code.NamespaceNotFound)) return undefined;
    throw error;
  }
}

/** Those of the indexes that all shards have, ready. The list of a sharded collection comes from one shard only. */
async function whole(
  client: MongoClient,
  namespace: Namespace,
  found: readonly Document[],
  shards: ReadonlySet<string>,
): Promise<Document[]> {
  const { database, collection } = splitNamespace(namespace);
  const stats = await client
    .db(database)
    // A secondary that has yet to learn of the chunks would ask its primary first, which may be gone.
    .collection(collection, { readPreference: "primaryPreferred", readConcern: { level: "available" } })
    .aggregate<{ name: string; shard?: string; building?: boolean }>(
      [{ $indexStats: {} }, { $project: { _id: 0, name: 1, shard: 1, building: 1 } }],
      { maxTimeMS: READ_MILLIS },
    )
    .toArray();
  const on = Map.groupBy(
    stats.filter(({ building }) => building !== true),
    ({ name }) => name,
  );
  return found.filter((index) => {
    const has = new Set(on.get(String(index.name))?.map(({ shard }) => shard));
    return [...shards].every((shard) => has.has(shard));
  });
}

/** Which shards own a part of each sharded collection, in one question. */
export async function readOwners(
  client: MongoClient,
  version: ServerVersion,
  rows: readonly Document[],
): Promise<Owners> {
  const by = version.chunksNameCollectionBy;
  const idOf = (row: Document) => (by === "uuid" ? row.uuid : row._id);
  const names = new Map(rows.map((row) => [String(idOf(row)), String(row._id)]));
  const owners = new Map<Namespace, Set<string>>();
  if (rows.length === 0) return owners;
  const pairs = await client
    .db("config")
    .collection("chunks", { readPreference: "primaryPreferred", readConcern: { level: "majority" } })
    .aggregate<{ _id: { of: unknown; shard: string } }>(
      [{ $match: { [by]: { $in: rows.map(idOf) } } }, { $group: { _id: { of: `$${by}`, shard: "$shard" } } }],
      { maxTimeMS: READ_MILLIS },
    )
    .toArray();
  for (const { _id } of pairs) {
    const namespace = names.get(String(_id.of));
    if (namespace === undefined) continue;
    const shards = owners.get(namespace) ?? new Set();
    owners.set(namespace, shards.add(_id.shard));
  }
  return owners;
}

/**
 * Every shard tells of every collection that it holds a part of, even of an empty one that is left of what has moved
 * away. Of a collection that is not sharded only one shard knows.
 */
async function readCatalog(
  client: MongoClient,
  wanted: ReadonlySet<Namespace>,
  owners: Owners,
): Promise<Map<Namespace, Document[]>> {
  const rows = await client
    .db("admin")
    .aggregate<{ ns: string; shard?: string; indexes?: { spec: Document; ready?: boolean }[] }>(
      [
        { $listCatalog: {} },
        { $match: { type: "collection" } },
        { $project: { _id: 0, ns: 1, shard: 1, indexes: "$md.indexes" } },
      ],
      { maxTimeMS: READ_MILLIS, cursor: { batchSize: 20_000 } },
    )
    .toArray();
  const found = new Map<Namespace, Map<string, { spec: Document; shards: Set<string> }>>();
  for (const { ns, shard, indexes } of rows) {
    if (!wanted.has(ns)) continue;
    const known = found.get(ns) ?? new Map<string, { spec: Document; shards: Set<string> }>();
    for (const { spec, ready } of indexes ?? []) {
      if (ready === false) continue;
      const entry = known.get(String(spec.name)) ?? { spec, shards: new Set() };
      known.set(String(spec.name), { ...entry, shards: entry.shards.add(String(shard)) });
    }
    found.set(ns, known);
  }
  return new Map(
    [...found].map(([ns, indexes]) => {
      const all = [...(owners.get(ns) ?? [])];
      const present = [...indexes.values()].filter(({ shards }) => all.every((shard) => shards.has(shard)));
      return [ns, present.map(({ spec }) => spec)];
    }),
  );
}

/** An index as `listIndexes` describes it, in the project's terms. */
export function indexFromInfo(info: Document): IndexState {
  return {
    name: String(info.name),
    key: keyFromInfo(info),
    unique: info.unique === true,
    sparse: info.sparse === true,
    hidden: info.hidden === true,
    ...(info.expireAfterSeconds === undefined ? {} : { expireAfterSeconds: Number(info.expireAfterSeconds) }),
    ...(info.partialFilterExpression === undefined
      ? {}
      : { partialFilterExpression: toBsonText(info.partialFilterExpression as Document) }),
    ...(info.collation === undefined ? {} : { collation: toBsonText(info.collation as Document) }),
  };
}

/** A text index shows its fields as weights. */
function keyFromInfo(info: Document): IndexState["key"] {
  const parts = partsFromDocument(info.key as Document);
  if (!("_fts" in info.key)) return parts;
  const fields = Object.keys(info.weights as Document).map((field) => ({ field, kind: "text" as const }));
  return parts.flatMap((part) => (part.field === "_fts" ? fields : part.field === "_ftsx" ? [] : [part]));
}
