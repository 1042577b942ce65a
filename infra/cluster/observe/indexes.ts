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

/** The indexes of each collection as the server describes them; a collection that does not exist is not in the map. */
export async function readIndexes(
  client: MongoClient,
  version: ServerVersion,
  namespaces: readonly Namespace[],
  progress: (text: string) => void,
): Promise<Map<Namespace, Document[]>> {
  if (version.hasListCatalog && namespaces.length >= CATALOG_FROM) {
    try {
      return await readCatalog(client, new Set(namespaces));
    } catch (error) {
      progress(`the catalog cannot be read at once (${describeError(error)}); asking collection by collection`);
    }
  }
  const found = new Map<Namespace, Document[]>();
  await mapConcurrently(namespaces, LIST_INDEXES_AT_A_TIME, async (namespace) => {
    const indexes = await listIndexes(client, namespace);
    if (indexes) found.set(namespace, indexes);
  });
  return found;
}

/** @returns undefined when the collection does not exist */
export async function listIndexes(client: MongoClient, namespace: Namespace): Promise<Document[] | undefined> {
  const { database, collection } = splitNamespace(namespace);
  try {
    return await client
      .db(database)
      .collection(collection)
      .listIndexes({ batchSize: 100, maxTimeMS: READ_MILLIS })
      .toArray();
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
