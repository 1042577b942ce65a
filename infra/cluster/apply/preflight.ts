import { type Document, type MongoClient, MongoServerError } from "mongodb";
import { readableValue } from "../../model/bson-text.ts";
import { keyText } from "../../model/key.ts";
import { AlfabravoError, formatProblems, type Problem } from "../../model/problem.ts";
import type { CollectionState, KeyPart } from "../../model/state.ts";
import type { Operation } from "../context.ts";
import { splitNamespace } from "../metadata.ts";

/** How many duplicates are listed. */
const LISTED = 10;

/**
 * What forbids to shard a collection that already exists, found before anything is touched: unique indexes that could
 * not hold over all shards (U3), and duplicates of a unique shard key in the data (U4). All of it at once.
 *
 * @throws AlfabravoError with every problem
 */
export async function checkSharding(
  op: Operation,
  client: MongoClient,
  desired: CollectionState,
  observed: CollectionState,
): Promise<void> {
  const { namespace, key, unique } = desired;
  const problems: Problem[] = observed.indexes
    .filter((index) => index.unique && !heldByShards(key, index.key))
    .map((index) => ({
      path: `${namespace}.indexes.${index.name}`,
      message: `the unique index ${index.name} ${keyText(index.key)} does not begin with the shard key ${keyText(key)}`,
      rule: "each shard enforces uniqueness for itself, so the server shards no collection with such an index (U3)",
      fix: "drop the index, make the shard key its beginning, or guard the field with a proxy collection",
    }));
  if (unique) {
    const ranged = observed.indexes.find((index) => sameFields(index.key, key) && !index.unique);
    // The observed collection is not sharded, so the index on the future shard key is among its ordinary ones.
    if (ranged) {
      problems.push({
        path: `${namespace}.indexes.${ranged.name}`,
        message: `the index ${ranged.name} ${keyText(ranged.key)} is on the shard key and is not unique`,
        rule: "a collection has one index with the same key and options; the unique one cannot be made beside it",
        fix: "drop it (the unique index takes its place), then run again",
      });
    }
    op.progress(`${namespace}: looking for duplicates of ${keyText(key)}`);
    problems.push(...(await duplicates(client, desired)));
  }
  if (problems.length > 0) {
    throw new AlfabravoError(`${namespace} cannot be sharded:\n${formatProblems(problems)}`, {
      where: namespace,
      next: "correct what is listed, then run again; nothing has been touched",
    });
  }
}

/** The server's rule: an index on `_id`, or one whose first fields are those of the shard key. */
function heldByShards(shardKey: readonly KeyPart[], indexKey: readonly KeyPart[]): boolean {
  return indexKey[0]?.field === "_id" || shardKey.every((part, i) => indexKey[i]?.field === part.field);
}

function sameFields(a: readonly KeyPart[], b: readonly KeyPart[]): boolean {
  return a.length === b.length && a.every((part, i) => part.field === b[i]?.field && part.kind === b[i]?.kind);
}

/** Values of the key that several documents have. A missing field counts as null, as it does in an index (U5). */
export async function duplicates(client: MongoClient, { namespace, key }: CollectionState): Promise<Problem[]> {
  const { database, collection } = splitNamespace(namespace);
  const values = key.map(({ field }) => ({ $ifNull: [`$${field}`, null] }));
  const groups = await client
    .db(database)
    .collection(collection)
    .aggregate<{ _id: unknown[]; count: number; ids: unknown[] }>(
      [
        { $group: { _id: values, count: { $sum: 1 }, first: { $min: "$_id" }, last: { $max: "$_id" } } },
        { $match: { count: { $gt: 1 } } },
        { $sort: { count: -1, _id: 1 } },
        { $limit: LISTED + 1 },
        { $project: { count: 1, ids: ["$first", "$last"] } },
      ],
      // An index compares simply, whatever the collection's own collation is.
      { allowDiskUse: true, collation: { locale: "simple" } },
    )
    .toArray();
  const listed = groups.slice(0, LISTED).map(
    ({ _id, count, ids }): Problem => ({
      path: `${namespace} { ${key.map(({ field }, i) => `${field}: ${readableValue(_id[i])}`).join(", ")} }`,
      message: `${count} documents have these values, among them _id ${ids.map(readableValue).join(" and ")}`,
      rule: "the shard key is declared unique, and a missing field counts as null (U4, U5)",
      fix: "keep one of them, or drop unique",
    }),
  );
  if (groups.length > LISTED) {
    listed.push({ path: namespace, message: `there are more duplicates than these ${LISTED}` });
  }
  return listed;
}

/** Whether a collection holds no document. */
export async function isEmpty(client: MongoClient, namespace: string): Promise<boolean> {
  const { database, collection } = splitNamespace(namespace);
  return (
    (await client
      .db(database)
      .collection(collection)
      .findOne({}, { projection: { _id: 1 } })) === null
  );
}

/** The options with which a collection was made; undefined when there is none. */
export async function collectionOptions(client: MongoClient, namespace: string): Promise<Document | undefined> {
  const { database, collection } = splitNamespace(namespace);
  const [info] = await client.db(database).listCollections({ name: collection }, { nameOnly: false }).toArray();
  if (info && "type" in info && info.type !== "collection") {
    throw new AlfabravoError(`${namespace} is a ${info.type}, not a collection`, {
      where: namespace,
      next: "declare another name, or drop it",
    });
  }
  return info && "options" in info ? (info.options as Document) : undefined;
}

/** Whether the server said no because two documents have the same key. */
export function isDuplicate(error: unknown): boolean {
  return error instanceof MongoServerError && error.code === 11000;
}
