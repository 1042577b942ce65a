import type { Document, Filter } from "mongodb";
import { toBsonText } from "../../model/bson-text.ts";
import type { Connection } from "../../model/connection.ts";
import { partsFromDocument, sameKey } from "../../model/key.ts";
import type { CollectionState, KeyPart, Namespace, ZoneRange } from "../../model/state.ts";
import { sortRanges } from "../../model/zone-range.ts";
import type { Operation } from "../context.ts";
import { asAlfabravoError, told } from "../errors.ts";
import { readConfig } from "../metadata.ts";
import { serverVersion } from "../server-version.ts";
import { indexFromInfo, readIndexes, readOwners } from "./indexes.ts";

/**
 * Sharded collections with their key, zone ranges, indexes and balancing; in bulk.
 *
 * @param namespaces only these, sharded or not; without it every sharded collection but the server's own. A collection
 *   that does not exist is not in the result.
 */
export async function observeCollections(
  op: Operation,
  connection: Connection,
  namespaces?: readonly Namespace[],
): Promise<CollectionState[]> {
  const { collections, unseen } = await observe(op, connection, namespaces, namespaces);
  for (const [namespace, error] of unseen) throw asAlfabravoError(error, "read the indexes", namespace);
  return collections;
}

export interface CollectionReading {
  readonly collections: CollectionState[];
  /** Collections whose indexes could not be read, and why. Their `indexes` are empty and mean nothing. */
  readonly unseen: ReadonlyMap<Namespace, unknown>;
}

/** Every sharded collection, and those of `also` whether sharded or not. */
export async function observeAllCollections(
  op: Operation,
  connection: Connection,
  also: readonly Namespace[],
): Promise<CollectionReading> {
  return observe(op, connection, undefined, also);
}

async function observe(
  op: Operation,
  connection: Connection,
  only: readonly Namespace[] | undefined,
  also: readonly Namespace[] = [],
): Promise<CollectionReading> {
  return told("read the sharded collections", connection.hosts.join(","), async () => {
    const client = await op.connections.reader(connection);
    const where: Filter<Document> =
      only === undefined ? { _id: { $not: /^config\./ } as never } : { _id: { $in: only as never[] } };
    // An unsharded collection that the cluster keeps track of (8.0 on) is "unsplittable"; before 5.0 a dropped one leaves a row.
    const sharded = { ...where, dropped: { $ne: true }, unsplittable: { $ne: true } };
    const [rows, tags, version] = await Promise.all([
      readConfig(client, "collections", sharded),
      readConfig(client, "tags", only === undefined ? {} : { ns: { $in: [...only] } }, { _id: 0 }),
      serverVersion(client),
    ]);
    const shardedRows = new Map(rows.map((row) => [String(row._id), row]));
    const ranges = Map.groupBy(tags, (row) => String(row.ns));
    const names = [...new Set([...shardedRows.keys(), ...also])].sort();
    const { indexes, unseen } = await readIndexes(
      client,
      version,
      names,
      await readOwners(client, version, rows),
      op.progress,
    );
    const collections = names.flatMap((namespace): CollectionState[] => {
      const row = shardedRows.get(namespace);
      const infos = indexes.get(namespace);
      if (!row && !infos) return [];
      return [collectionState(namespace, row, ranges.get(namespace) ?? [], infos ?? [])];
    });
    return { collections, unseen };
  });
}

function collectionState(
  namespace: Namespace,
  row: Document | undefined,
  tags: readonly Document[],
  infos: readonly Document[],
): CollectionState {
  const key: KeyPart[] = row ? partsFromDocument(row.key as Document) : [];
  const all = infos.map(indexFromInfo).filter((index) => !sameKey(index.key, [{ field: "_id", kind: 1 }]));
  const ownIndex = (index: (typeof all)[number]) =>
    row !== undefined &&
    sameKey(index.key, key) &&
    index.collation === undefined &&
    !index.sparse &&
    index.partialFilterExpression === undefined;
  const own = all.filter(ownIndex);
  return {
    namespace,
    key,
    // What forbids duplicates is the index, whatever the collection was declared as. A key on _id has the index of _id.
    unique: row?.unique === true || own.some((index) => index.unique),
    ranges: sortRanges(tags.map(rangeFromRow)),
    indexes: all.filter((index) => !ownIndex(index)),
    balancing: row?.noBalance !== true,
    ...(row?.maxChunkSizeBytes === undefined ? {} : { chunkSizeMiB: Number(row.maxChunkSizeBytes) / 1024 / 1024 }),
  };
}

export function rangeFromRow(row: Document): ZoneRange {
  return { zone: String(row.tag), min: toBsonText(row.min as Document), max: toBsonText(row.max as Document) };
}
