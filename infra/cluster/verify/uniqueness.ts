import { type Db, type Document, type MongoClient, MongoServerError, ObjectId } from "mongodb";
import type { CollectionSpec } from "../../model/spec.ts";
import { mapConcurrently } from "../concurrency.ts";
import type { Operation } from "../context.ts";
import { Code, describeError, hasCode } from "../errors.ts";
import { READ_MILLIS, splitNamespace } from "../metadata.ts";
import type { Findings } from "./check.ts";
import type { Facts } from "./facts.ts";
import { unusedKeys } from "./key-values.ts";

/** A transaction that met a change of metadata or an election is tried again this often. */
const ATTEMPTS = 3;

/**
 * U1: a duplicate of a unique shard key is refused, tried on the real collection in each zone. Both inserts are inside a
 * transaction that is always aborted, with key values that no document has, so nothing becomes visible to anyone and
 * nothing stays; that nothing stays is counted afterwards.
 */
export async function checkUniqueness(op: Operation, facts: Facts, found: Findings): Promise<void> {
  const unique = facts.sharded.filter((spec) => spec.unique);
  if (unique.length === 0) found.saw("no collection has a unique shard key");
  const client = await op.connections.reader(facts.connection);
  const tries = unique.flatMap((spec) => unusedKeys(spec).map((key) => ({ spec, ...key })));
  const seen = await mapConcurrently(tries, 8, async ({ spec, values, zone }) => {
    const where = `${spec.namespace}${zone === undefined ? "" : `, zone ${zone}`}`;
    const outcome = await tryDuplicate(op, client, spec, values);
    const { database, collection } = splitNamespace(spec.namespace);
    const left = await client
      .db(database)
      .collection(collection)
      .find(Object.fromEntries(values) as Document, { projection: { _id: 1 }, maxTimeMS: READ_MILLIS })
      .toArray();
    if (left.length > 0) found.wrong(`${where}: the aborted transaction has left ${left.length} documents behind`);
    if (outcome.kind === "accepted") found.wrong(`${where}: a duplicate of the unique key was accepted`);
    if (outcome.kind === "unknown") found.blind(`${where}: ${outcome.why}`);
    if (outcome.kind !== "refused") return undefined;
    return `${where}: a duplicate was refused (11000 ${outcome.index}); ${left.length} documents left behind`;
  });
  for (const text of seen) if (text) found.saw(text);
}

type Outcome =
  | { readonly kind: "refused"; readonly index: string }
  | { readonly kind: "accepted" }
  | { readonly kind: "unknown"; readonly why: string };

async function tryDuplicate(
  op: Operation,
  client: MongoClient,
  spec: CollectionSpec,
  values: ReadonlyMap<string, unknown>,
): Promise<Outcome> {
  const { database, collection } = splitNamespace(spec.namespace);
  for (let attempt = 1; ; attempt += 1) {
    op.signal.throwIfAborted();
    const session = client.startSession();
    try {
      session.startTransaction({ readConcern: { level: "local" }, writeConcern: { w: "majority" } });
      const insert = (db: Db) =>
        db.collection(collection).insertOne(documentOf(values), { session, maxTimeMS: READ_MILLIS });
      await insert(client.db(database));
      try {
        await insert(client.db(database));
      } catch (error) {
        if (hasCode(error, Code.DuplicateKey)) return { kind: "refused", index: indexOf(error) };
        throw error;
      }
      return { kind: "accepted" };
    } catch (error) {
      const transient = error instanceof MongoServerError && error.hasErrorLabel("TransientTransactionError");
      if (!transient || attempt >= ATTEMPTS) return { kind: "unknown", why: describeError(error) };
    } finally {
      // The server may have aborted it already, after the duplicate; it must be over in any case.
      if (session.inTransaction()) await session.abortTransaction().catch(() => undefined);
      await session.endSession();
    }
  }
}

/** A document with these key values; a dotted field is a document in a document. */
function documentOf(values: ReadonlyMap<string, unknown>): Document {
  const document: Document = { _id: new ObjectId() };
  for (const [path, value] of values) {
    const names = path.split(".");
    const last = names.pop() ?? path;
    let inner = document;
    for (const name of names) {
      inner[name] ??= {};
      inner = inner[name] as Document;
    }
    inner[last] = value;
  }
  return document;
}

/** `E11000 duplicate key error collection: chat.users index: userid_1 dup key: …` */
function indexOf(error: unknown): string {
  const message = error instanceof Error ? error.message : "";
  return /index: (\S+)/.exec(message)?.[1] ?? "";
}
