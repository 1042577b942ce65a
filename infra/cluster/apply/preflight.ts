import type { Document, MongoClient } from "mongodb";
import { readableValue } from "../../model/bson-text.ts";
import { keyText } from "../../model/key.ts";
import { AlfabravoError, formatProblems, type Problem } from "../../model/problem.ts";
import type { CollectionState } from "../../model/state.ts";
import { collectionRules } from "../../plan/rules.ts";
import type { Operation } from "../context.ts";
import { splitNamespace } from "../metadata.ts";

/** How many duplicates are listed. */
const LISTED = 10;

/** @throws AlfabravoError with everything that forbids a collection to become what is desired */
export async function checkCollection(
  op: Operation,
  client: MongoClient,
  desired: CollectionState,
  observed: CollectionState | undefined,
): Promise<void> {
  const { namespace } = desired;
  const problems = await collectionProblems(op, client, desired, observed);
  if (problems.length === 0) return;
  throw new AlfabravoError(`${namespace} cannot become what is declared:\n${formatProblems(problems)}`, {
    where: namespace,
    next: "correct what is listed, then run again; nothing has been touched",
  });
}

/**
 * What forbids a collection to become what is desired, all of it at once and before anything is touched: the rules of
 * the declaration (U2, U3), and duplicates of a unique shard key in the data (U4).
 */
export async function collectionProblems(
  op: Operation,
  client: MongoClient,
  desired: CollectionState,
  observed: CollectionState | undefined,
): Promise<Problem[]> {
  const { namespace, key, unique } = desired;
  const problems: Problem[] = [];
  if (observed && observed.key.length === 0 && key.length > 0) {
    const empty = await isEmpty(client, namespace);
    const facts = { allIndexes: observed.indexes, documents: empty ? 0 : undefined };
    problems.push(...collectionRules(desired, observed, facts).problems);
    if (unique && !empty) {
      op.progress(`${namespace}: looking for duplicates of ${keyText(key)}`);
      problems.push(...(await duplicates(client, desired)));
    }
  } else {
    problems.push(...collectionRules(desired, observed).problems);
  }
  return problems;
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
