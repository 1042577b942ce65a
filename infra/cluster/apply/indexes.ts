import type { Document, MongoClient } from "mongodb";
import { fromBsonText } from "../../model/bson-text.ts";
import { keyDocument, keyText } from "../../model/key.ts";
import { AlfabravoError } from "../../model/problem.ts";
import type { CollectionState, IndexState } from "../../model/state.ts";
import { canonicalCollection, indexIdentity } from "../../plan/canonical.ts";
import type { Operation } from "../context.ts";
import { Code, hasCode, told } from "../errors.ts";
import { splitNamespace, WRITE_MILLIS } from "../metadata.ts";

/**
 * Makes the declared indexes; drops those that were managed and are no longer declared. An index that nobody declared
 * stays. One with other options is made anew only when it was managed before: it might be someone else's.
 */
export async function applyIndexes(
  op: Operation,
  client: MongoClient,
  desired: CollectionState,
  observed: CollectionState,
  previous: CollectionState | undefined,
): Promise<void> {
  const { namespace } = desired;
  const { database, collection } = splitNamespace(namespace);
  const db = client.db(database);
  const byIdentity = (state: CollectionState | undefined) =>
    new Map((state ? canonicalCollection(state).indexes : []).map((index) => [indexIdentity(index), index]));
  const [want, have, managed] = [byIdentity(desired), byIdentity(observed), byIdentity(previous)];
  const drop = (index: IndexState) => {
    op.progress(`${namespace}: dropping the index ${keyText(index.key)}`);
    return told(`drop the index ${index.name} of ${namespace}`, namespace, () =>
      db
        .command({
          dropIndexes: collection,
          index: index.name,
          writeConcern: { w: "majority", wtimeout: WRITE_MILLIS },
        })
        .catch((error: unknown) => {
          if (!hasCode(error, Code.IndexNotFound)) throw error;
        }),
    );
  };

  const conflicts = [...want].filter(([identity, index]) => {
    const twin = have.get(identity);
    return twin !== undefined && !sameBuild(index, twin);
  });
  const foreign = conflicts.find(([identity]) => !managed.has(identity));
  if (foreign) {
    const [identity, index] = foreign;
    throw new AlfabravoError(
      `${namespace} has an index ${keyText(index.key)} (${have.get(identity)?.name}) with other options than declared; it is left alone`,
      { where: namespace, next: "declare it with the options that it has, or drop it by hand and run again" },
    );
  }
  for (const [identity, index] of have) {
    if (managed.has(identity) && !want.has(identity)) await drop(index);
  }
  for (const [identity] of conflicts) {
    const twin = have.get(identity);
    if (twin) await drop(twin);
    have.delete(identity);
  }
  for (const [identity, index] of want) {
    const twin = have.get(identity);
    const changes = twin === undefined ? {} : changeableOptions(index, twin);
    if (twin === undefined) continue;
    if (Object.keys(changes).length === 0) continue;
    op.progress(`${namespace}: changing the index ${keyText(index.key)}`);
    await told(`change the index ${twin.name} of ${namespace}`, namespace, async () => {
      // The server takes one of them at a time only on some versions, so each goes alone.
      for (const [option, value] of Object.entries(changes)) {
        await db.command({ collMod: collection, index: { name: twin.name, [option]: value } });
      }
    });
  }
  const missing = [...want].filter(([identity]) => !have.has(identity)).map(([, index]) => index);
  if (missing.length === 0) return;
  op.progress(`${namespace}: making ${missing.map((index) => `the index ${keyText(index.key)}`).join(", ")}`);
  await told(
    `make the indexes of ${namespace}`,
    namespace,
    () =>
      db.command({ createIndexes: collection, indexes: missing.map(indexDocument), writeConcern: { w: "majority" } }),
    (error) =>
      hasCode(error, Code.DuplicateKey)
        ? "two documents have the same values: find and correct them, then run again"
        : hasCode(error, Code.IndexOptionsConflict, Code.IndexKeySpecsConflict)
          ? "another index has this name or key: drop it, or declare the index as it is"
          : undefined,
  );
}

/** Whether both are built the same way; what differs otherwise can be changed in place. */
function sameBuild(a: IndexState, b: IndexState): boolean {
  return (
    a.unique === b.unique &&
    a.sparse === b.sparse &&
    a.partialFilterExpression === b.partialFilterExpression &&
    // Documents that expire cannot be made to live for ever in place.
    !(a.expireAfterSeconds === undefined && b.expireAfterSeconds !== undefined)
  );
}

function changeableOptions(want: IndexState, have: IndexState): Document {
  return {
    ...(want.hidden === have.hidden ? {} : { hidden: want.hidden }),
    ...(want.expireAfterSeconds === have.expireAfterSeconds ? {} : { expireAfterSeconds: want.expireAfterSeconds }),
  };
}

/** An index as `createIndexes` takes it. */
export function indexDocument(index: IndexState): Document {
  const { name, key, unique, sparse, hidden, expireAfterSeconds, partialFilterExpression, collation } = index;
  return {
    name,
    key: keyDocument(key),
    ...(unique ? { unique } : {}),
    ...(sparse ? { sparse } : {}),
    ...(hidden ? { hidden } : {}),
    ...(expireAfterSeconds === undefined ? {} : { expireAfterSeconds }),
    ...(partialFilterExpression === undefined
      ? {}
      : { partialFilterExpression: fromBsonText(partialFilterExpression) }),
    ...(collation === undefined ? {} : { collation: fromBsonText(collation) }),
  };
}
