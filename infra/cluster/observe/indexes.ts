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

/** Reads the indexes of many collections. */
export async function readIndexes(
  client: MongoClient,
  version: ServerVersion,
  namespaces: readonly Namespace[],
  progress: (text: string) => void,
): Promise<IndexReading> {
  if (version.hasListCatalog && namespaces.length >= CATALOG_FROM) {
    try {
      return { indexes: await readCatalog(client, new Set(namespaces)), unseen: new Map() };
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
      if (found) indexes.set(namespace, found);
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

/** Every shard tells of every collection that it holds a part of; an index counts when any of them has it. */
async function readCatalog(client: MongoClient, wanted: ReadonlySet<Namespace>): Promise<Map<Namespace, Document[]>> {
  const rows = await client
    .db("admin")
    .aggregate<{ ns: string; indexes?: { spec: Document }[] }>(
      [
        { $listCatalog: {} },
        { $match: { type: "collection" } },
        { $project: { _id: 0, ns: 1, indexes: "$md.indexes" } },
      ],
      { maxTimeMS: READ_MILLIS, cursor: { batchSize: 20_000 } },
    )
    .toArray();
  const found = new Map<Namespace, Map<string, Document>>();
  for (const { ns, indexes } of rows) {
    if (!wanted.has(ns)) continue;
    const known = found.get(ns) ?? new Map<string, Document>();
    for (const { spec } of indexes ?? []) known.set(String(spec.name), spec);
    found.set(ns, known);
  }
  return new Map([...found].map(([ns, indexes]) => [ns, [...indexes.values()]]));
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
