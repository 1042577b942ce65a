import type { Document, MongoClient } from "mongodb";
import { fromBsonText, readableBson, readableValue } from "../../model/bson-text.ts";
import { keyText } from "../../model/key.ts";
import { AlfabravoError, formatProblems, type Problem } from "../../model/problem.ts";
import type { CollectionState, IndexState, Namespace } from "../../model/state.ts";
import { canonicalCollection } from "../../plan/canonical.ts";
import { collectionRules, type Findings } from "../../plan/rules.ts";
import type { Operation } from "../context.ts";
import { READ_MILLIS, splitNamespace } from "../metadata.ts";

/** How many duplicates are listed. */
const LISTED = 10;
/** How long looking through a whole collection may take, in milliseconds: it grows with the data. */
const SCAN_MILLIS = 600_000;

/** @throws AlfabravoError with everything that forbids a collection to become what is desired */
export async function checkCollection(
  op: Operation,
  client: MongoClient,
  desired: CollectionState,
  observed: CollectionState | undefined,
): Promise<void> {
  const { namespace } = desired;
  const { problems } = await collectionFindings(op, client, desired, observed);
  if (problems.length === 0) return;
  throw new AlfabravoError(`${namespace} cannot become what is declared:\n${formatProblems(problems)}`, {
    where: namespace,
    next: "correct what is listed, then run again; nothing has been touched",
  });
}

/**
 * What forbids a collection to become what is desired, all of it at once and before anything is touched: the rules of
 * the declaration (U2, U3), and duplicates of a unique shard key in the data (U4). `warnings` say what would surprise.
 */
export async function collectionFindings(
  op: Operation,
  client: MongoClient,
  desired: CollectionState,
  observed: CollectionState | undefined,
): Promise<Findings> {
  const { namespace, key, unique } = desired;
  if (!observed || observed.key.length > 0 || key.length === 0) {
    const { problems, warnings } = collectionRules(desired, observed);
    return { problems, warnings: [...warnings, ...removedRanges(desired, observed)] };
  }
  const empty = await isEmpty(client, namespace);
  const facts = { allIndexes: observed.indexes, documents: empty ? 0 : undefined };
  const { problems, warnings } = collectionRules(desired, observed, facts);
  if (!unique || empty) return { problems, warnings };
  op.progress(`${namespace}: looking for duplicates of ${keyText(key)}`);
  return { problems: [...problems, ...(await duplicates(client, namespace, { key }))], warnings };
}

/** Zone ranges that are there and not declared: they go, whoever made them. */
function removedRanges(desired: CollectionState, observed: CollectionState | undefined): Problem[] {
  const [want, have] = [canonicalCollection(desired), observed && canonicalCollection(observed)];
  const declared = new Set(want.ranges.map(({ min }) => min));
  const removed = (have?.ranges ?? []).filter(({ min }) => !declared.has(min));
  const path = `${want.namespace}.ranges`;
  const listed = removed.slice(0, LISTED).map(
    ({ zone, min, max }): Problem => ({
      path,
      message: `the range of the zone ${zone} from ${readableBson(min)} to ${readableBson(max)} is not declared: it is removed`,
      rule: "zone ranges of a declared collection are those of the declaration, and documents follow them",
      fix: "declare it if it is to stay",
    }),
  );
  if (removed.length > LISTED) {
    listed.push({ path, message: `${removed.length - LISTED} more ranges are not declared and are removed` });
  }
  return listed;
}

/**
 * Values of the key that several documents have. A missing field counts as null, as it does in an index (U5).
 *
 * @param index an index that is to be unique; with its key alone, the shard key
 */
export async function duplicates(
  client: MongoClient,
  namespace: Namespace,
  index: Pick<IndexState, "key"> & Partial<IndexState>,
): Promise<Problem[]> {
  const { key, name } = index;
  const { database, collection } = splitNamespace(namespace);
  const values = key.map(({ field }) => ({ $ifNull: [`$${field}`, null] }));
  const inIndex: Document[] = [
    ...(index.partialFilterExpression === undefined ? [] : [fromBsonText(index.partialFilterExpression)]),
    ...(index.sparse ? [{ $or: key.map(({ field }) => ({ [field]: { $exists: true } })) }] : []),
  ];
  const groups = await client
    .db(database)
    .collection(collection)
    .aggregate<{ _id: unknown[]; count: number; ids: unknown[] }>(
      [
        ...(inIndex.length === 0 ? [] : [{ $match: { $and: inIndex } }]),
        { $group: { _id: values, count: { $sum: 1 }, first: { $min: "$_id" }, last: { $max: "$_id" } } },
        { $match: { count: { $gt: 1 } } },
        { $sort: { count: -1, _id: 1 } },
        { $limit: LISTED + 1 },
        { $project: { count: 1, ids: ["$first", "$last"] } },
      ],
      {
        allowDiskUse: true,
        // An index compares simply unless it says otherwise, whatever the collection's own collation is.
        collation: (index.collation === undefined ? { locale: "simple" } : fromBsonText(index.collation)) as {
          locale: string;
        },
        maxTimeMS: SCAN_MILLIS,
      },
    )
    .toArray();
  const listed = groups.slice(0, LISTED).map(
    ({ _id, count, ids }): Problem => ({
      path: `${namespace} { ${key.map(({ field }, i) => `${field}: ${readableValue(_id[i])}`).join(", ")} }`,
      message: `${count} documents have these values, among them _id ${ids.map(readableValue).join(" and ")}`,
      rule: `the ${name === undefined ? "shard key" : `index ${name}`} is declared unique, and a missing field counts as null (U4, U5)`,
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
      .findOne({}, { projection: { _id: 1 }, maxTimeMS: READ_MILLIS })) === null
  );
}

/** The options with which a collection was made; undefined when there is none. */
export async function collectionOptions(client: MongoClient, namespace: string): Promise<Document | undefined> {
  const { database, collection } = splitNamespace(namespace);
  const [info] = await client
    .db(database)
    .listCollections({ name: collection }, { nameOnly: false, maxTimeMS: READ_MILLIS })
    .toArray();
  if (info && "type" in info && info.type !== "collection") {
    throw new AlfabravoError(`${namespace} is a ${info.type}, not a collection`, {
      where: namespace,
      next: "declare another name, or drop it",
    });
  }
  return info && "options" in info ? (info.options as Document) : undefined;
}
