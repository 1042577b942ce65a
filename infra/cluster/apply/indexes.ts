import type { Db, Document, MongoClient } from "mongodb";
import { fromBsonText } from "../../model/bson-text.ts";
import { keyDocument, keyText } from "../../model/key.ts";
import { AlfabravoError, formatProblems } from "../../model/problem.ts";
import type { CollectionState, IndexState } from "../../model/state.ts";
import { alignCollations, canonicalCollection, indexIdentity, pairIndexes, sameBuild } from "../../plan/canonical.ts";
import type { Operation } from "../context.ts";
import { Code, describeError, hasCode, told } from "../errors.ts";
import { splitNamespace, WRITE_MILLIS } from "../metadata.ts";
import { listIndexes } from "../observe/indexes.ts";
import { duplicates } from "./preflight.ts";

/**
 * Makes the declared indexes; drops those that were managed and are no longer declared. An index that nobody declared
 * stays. One with other options is made anew only when it was managed before: it might be someone else's.
 *
 * Every declared index is asked for, those that are there too: a build that failed on one shard leaves the index on the
 * others, and asking again builds it where it is missing and does nothing elsewhere.
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
  const wanted = canonicalCollection(desired).indexes;
  const managed = new Set((previous ? canonicalCollection(previous).indexes : []).map(identityAndName));
  const present = alignCollations(wanted, canonicalCollection(observed).indexes);
  const ours = (index: IndexState) => managed.has(identityAndName(index));
  const specs = new Map((await listIndexes(client, namespace))?.map((spec) => [String(spec.name), spec]));

  const { pairs, missing, others } = pairIndexes(wanted, present);
  const conflicts = pairs.filter((pair) => !canBecome(pair.desired, pair.observed));
  const foreign = conflicts.find((pair) => !ours(pair.observed));
  if (foreign) {
    throw new AlfabravoError(
      `${namespace} has an index ${keyText(foreign.desired.key)} (${foreign.observed.name}) with other options than declared; it is left alone`,
      { where: namespace, next: "declare it with the options that it has, or drop it by hand and run again" },
    );
  }
  const gone = others.filter(ours);
  // One with the same key and another name gives way to its successor, too.
  const successors = missing.filter((index) => gone.some((old) => indexIdentity(old) === indexIdentity(index)));
  const rebuilt = [...conflicts.map((pair) => pair.desired), ...successors];
  for (const index of rebuilt.filter(({ unique }) => unique)) {
    op.progress(`${namespace}: looking for duplicates of ${keyText(index.key)}`);
    const problems = await duplicates(client, namespace, index);
    if (problems.length === 0) continue;
    throw new AlfabravoError(
      `${namespace} cannot have the unique index ${keyText(index.key)}:\n${formatProblems(problems)}`,
      {
        where: namespace,
        next: "correct what is listed, then run again; no index has been touched",
      },
    );
  }

  const dropped: Document[] = [];
  for (const index of [...gone, ...conflicts.map((pair) => pair.observed)]) {
    op.progress(`${namespace}: dropping the index ${keyText(index.key)}`);
    await told(`drop the index ${index.name} of ${namespace}`, namespace, () =>
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
    if (rebuilt.some((successor) => indexIdentity(successor) === indexIdentity(index))) {
      dropped.push(specOf(index, specs));
    }
  }
  const kept = pairs.filter((pair) => !conflicts.includes(pair));
  const making = [...missing, ...conflicts.map((pair) => pair.desired)];
  if (making.length > 0) {
    op.progress(`${namespace}: making ${making.map((index) => `the index ${keyText(index.key)}`).join(", ")}`);
  }
  const create = (indexes: readonly Document[]) =>
    db.command({ createIndexes: collection, indexes, writeConcern: { w: "majority" } });
  const indexes = [...making.map(indexDocument), ...kept.map((pair) => specOf(pair.observed, specs))];
  if (indexes.length > 0) {
    await told(
      `make the indexes of ${namespace}`,
      namespace,
      async () => {
        try {
          await create(indexes);
        } catch (error) {
          if (dropped.length > 0) {
            op.progress(`${namespace}: making the old index again, since the new one cannot be built`);
            await takeBack(op, db, collection, rebuilt);
            await create(dropped);
          }
          throw error;
        }
      },
      (error) =>
        hasCode(error, Code.DuplicateKey)
          ? "two documents have the same values: find and correct them, then run again"
          : hasCode(error, Code.IndexOptionsConflict, Code.IndexKeySpecsConflict)
            ? "another index has this name or key: drop it, or declare the index as it is"
            : undefined,
    );
  }
  for (const { desired: index, observed: twin } of kept) {
    const changes = changeableOptions(index, twin);
    if (Object.keys(changes).length === 0) continue;
    op.progress(`${namespace}: changing the index ${keyText(index.key)}`);
    await told(`change the index ${twin.name} of ${namespace}`, namespace, async () => {
      // The server takes one of them at a time only on some versions, so each goes alone.
      for (const [option, value] of Object.entries(changes)) {
        await db.command({ collMod: collection, index: { name: twin.name, [option]: value } });
      }
    });
  }
}

/** Names are unique in a collection, but an index of that name may have been made anew by someone else. */
function identityAndName(index: IndexState): string {
  return `${indexIdentity(index)} ${index.name}`;
}

/** A build that failed on one shard may have succeeded on others, where it would stand in the way of the old index. */
async function takeBack(op: Operation, db: Db, collection: string, indexes: readonly IndexState[]): Promise<void> {
  for (const { name } of indexes) {
    await db
      .command({ dropIndexes: collection, index: name, writeConcern: { w: "majority", wtimeout: WRITE_MILLIS } })
      .catch((error: unknown) => {
        if (!hasCode(error, Code.IndexNotFound)) op.progress(`the index ${name} stays: ${describeError(error)}`);
      });
  }
}

/** An index that is there, as the server itself describes it where it does: with options that nobody declares. */
function specOf(index: IndexState, specs: ReadonlyMap<string, Document>): Document {
  const spec = specs.get(index.name);
  if (!spec) return indexDocument(index);
  const { ns: _, ...rest } = spec;
  return index.key.some(({ kind }) => kind === "text") ? rest : { ...rest, key: keyDocument(index.key) };
}

/** Whether what differs can be changed in place. Documents that expire cannot be made to live for ever. */
function canBecome(want: IndexState, have: IndexState): boolean {
  return sameBuild(want, have) && !(want.expireAfterSeconds === undefined && have.expireAfterSeconds !== undefined);
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
