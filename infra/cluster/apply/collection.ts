import type { Document, MongoClient } from "mongodb";
import type { Connection } from "../../model/connection.ts";
import { defaultIndexName, isKeyPrefix, keyDocument, keyText, sameKey } from "../../model/key.ts";
import { AlfabravoError } from "../../model/problem.ts";
import type { CollectionState } from "../../model/state.ts";
import { canonicalCollection } from "../../plan/canonical.ts";
import { waitForCompliance } from "../balance.ts";
import type { Operation } from "../context.ts";
import { Code, hasCode, told } from "../errors.ts";
import { admin, readConfig, splitNamespace, WRITE_MILLIS } from "../metadata.ts";
import { observeCollections, rangeFromRow } from "../observe/collections.ts";
import { observeDatabases } from "../observe/databases.ts";
import { serverVersion } from "../server-version.ts";
import { applyDatabase } from "./database.ts";
import { applyIndexes, indexDocument } from "./indexes.ts";
import { checkCollection, collectionOptions, isEmpty } from "./preflight.ts";
import { applyRanges, setBalancing } from "./ranges.ts";

export interface CollectionOptions {
  /** What was applied last: indexes in it that are no longer desired are dropped; others are left alone. */
  readonly previous?: CollectionState | undefined;
  /** Wait until every chunk lies in its zone (M5). Default true. */
  readonly waitForBalance?: boolean | undefined;
  /** Milliseconds without any progress of the balancer after which the wait stops with the reason. Default 120,000. */
  readonly stallMillis?: number | undefined;
}

/**
 * Makes a collection what is desired. Zone ranges come before the shard key, so that the chunks of an empty collection
 * are placed at once; the data of one that has some is moved by the balancer, and waited for. Data is never dropped.
 *
 * @returns the collection as read back
 * @throws AlfabravoError before anything is touched when the collection cannot become what is desired
 */
export async function applyCollection(
  op: Operation,
  connection: Connection,
  desired: CollectionState,
  options: CollectionOptions = {},
): Promise<CollectionState> {
  const want = canonicalCollection(desired);
  const { namespace } = want;
  const client = await op.connections.router(connection);
  const observe = async () => {
    const [state] = await observeCollections(op, connection, [namespace]);
    return state;
  };

  let have = await observe();
  if (have) checkKeyChange(want, have);
  await checkCollection(op, client, want, have);
  const sharding = want.key.length > 0 && !have?.key.length;

  await makeDatabase(op, connection, namespace);
  if (have && have.key.length > 0 && !sameKey(have.key, want.key)) {
    await refine(op, client, want);
    have = await observe();
  }
  await applyRanges(
    op,
    client,
    want,
    have ?? { ranges: await readRanges(client, namespace), key: [], balancing: true },
  );
  if (sharding) await shard(op, client, want, have !== undefined);
  else if (!have) await create(client, namespace);

  const present = await observe();
  if (!present) throw gone(namespace);
  await applyIndexes(op, client, want, present, options.previous);
  if (want.key.length > 0) await applyBalancing(op, client, want, present);
  if (want.key.length > 0 && want.ranges.length > 0 && options.waitForBalance !== false && want.balancing) {
    await waitForCompliance(op, connection, namespace, { stallMillis: options.stallMillis });
  }
  const state = await observe();
  if (!state) throw gone(namespace);
  return state;
}

function gone(namespace: string): AlfabravoError {
  return new AlfabravoError(`${namespace} is missing right after it was made`, {
    where: namespace,
    next: "another program drops it: stop it, then run again",
  });
}

/** Ranges of a collection that may not exist yet: they are kept by name. */
async function readRanges(client: MongoClient, namespace: string): Promise<CollectionState["ranges"]> {
  return (await readConfig(client, "tags", { ns: namespace })).map(rangeFromRow);
}

async function makeDatabase(op: Operation, connection: Connection, namespace: string): Promise<void> {
  const { database } = splitNamespace(namespace);
  if ((await observeDatabases(op, connection)).some(({ name }) => name === database)) return;
  await applyDatabase(op, connection, { name: database });
}

/** A key is refined in place; any other key would mean to copy every document, which is not done here. */
function checkKeyChange(want: CollectionState, have: CollectionState): void {
  const { namespace } = want;
  if (have.key.length === 0 || want.key.length === 0 || sameKey(have.key, want.key)) return;
  const [from, to] = [keyText(have.key), keyText(want.key)];
  if (!isKeyPrefix(have.key, want.key)) {
    throw new AlfabravoError(`${namespace} is sharded on ${from}, not on ${to}; it is left alone`, {
      where: namespace,
      next: `declare the key that it has, or one that begins with it (it is then refined in place). For another key run db.adminCommand({ reshardCollection: "${namespace}", key: … }) by hand: it copies every document`,
    });
  }
  if (have.unique || want.unique) {
    throw new AlfabravoError(`the unique shard key ${from} of ${namespace} cannot be refined to ${to}`, {
      where: namespace,
      next: "uniqueness would then hold for the longer key only: declare the key that it has, or make another collection",
    });
  }
}

async function refine(op: Operation, client: MongoClient, want: CollectionState): Promise<void> {
  const { namespace, key } = want;
  op.progress(`${namespace}: refining the shard key to ${keyText(key)}`);
  await makeKeyIndex(client, want, false);
  await told(`refine the shard key of ${namespace}`, namespace, () =>
    admin(client, { refineCollectionShardKey: namespace, key: keyDocument(key) }),
  );
}

async function create(client: MongoClient, namespace: string): Promise<void> {
  const { database, collection } = splitNamespace(namespace);
  await told(`make the collection ${namespace}`, namespace, () => client.db(database).createCollection(collection));
}

async function shard(op: Operation, client: MongoClient, want: CollectionState, exists: boolean): Promise<void> {
  const { namespace, key, unique } = want;
  const options: Document = exists ? ((await collectionOptions(client, namespace)) ?? {}) : {};
  if (exists && !(await isEmpty(client, namespace))) {
    op.progress(`${namespace}: making the index of the shard key ${keyText(key)}`);
    await makeKeyIndex(client, want, unique);
  }
  op.progress(`${namespace}: sharding on ${keyText(key)}${unique ? ", unique" : ""}`);
  await told(`shard ${namespace}`, namespace, () =>
    admin(client, {
      shardCollection: namespace,
      key: keyDocument(key),
      unique,
      // Keys are compared simply, so a collection with a collation of its own must be told so.
      ...(options.collation === undefined ? {} : { collation: { locale: "simple" } }),
    }),
  );
}

async function makeKeyIndex(client: MongoClient, { namespace, key }: CollectionState, unique: boolean): Promise<void> {
  const { database, collection } = splitNamespace(namespace);
  const index = indexDocument({ name: defaultIndexName(key), key, unique, sparse: false, hidden: false });
  await told(
    `make the index of the shard key of ${namespace}`,
    namespace,
    () =>
      client.db(database).command({
        createIndexes: collection,
        indexes: [{ ...index, collation: { locale: "simple" } }],
        writeConcern: { w: "majority" },
      }),
    (error) =>
      hasCode(error, Code.DuplicateKey)
        ? "documents with the same key were written meanwhile: stop the writers, remove duplicates, then run again"
        : "look at what the message names, then run again",
  );
}

async function applyBalancing(
  op: Operation,
  client: MongoClient,
  want: CollectionState,
  have: CollectionState,
): Promise<void> {
  const { namespace, balancing, chunkSizeMiB } = want;
  if (balancing !== have.balancing) {
    op.progress(`${namespace}: balancing ${balancing ? "on" : "off"}`);
    await setBalancing(client, namespace, balancing);
  }
  if (chunkSizeMiB === undefined || chunkSizeMiB === have.chunkSizeMiB) return;
  const version = await serverVersion(client);
  if (!version.hasCollectionBalancing) {
    throw new AlfabravoError(`MongoDB ${version.text} has no chunk size per collection`, {
      where: namespace,
      next: "drop chunkSizeMiB from the collection (the balancer has one for all), or use MongoDB 6.0 or newer",
    });
  }
  op.progress(`${namespace}: chunk size ${chunkSizeMiB} MiB`);
  await told(`set the chunk size of ${namespace}`, namespace, () =>
    admin(client, { configureCollectionBalancing: namespace, chunkSize: chunkSizeMiB, maxTimeMS: WRITE_MILLIS }),
  );
}
