import { applyCollection } from "../../cluster/apply/collection.ts";
import { collectionFindings } from "../../cluster/apply/preflight.ts";
import { observeCollections } from "../../cluster/observe/collections.ts";
import type { Connection } from "../../model/connection.ts";
import { formatProblems } from "../../model/problem.ts";
import type { CollectionState, IndexState } from "../../model/state.ts";
import { alignCollations, canonicalCollection, canonicalIndex, pairIndexes } from "../../plan/canonical.ts";
import { diffCollection } from "../../plan/diff.ts";
import { batched } from "../batch.ts";
import { connectionField } from "../connection-fields.ts";
import type { Field, Fields } from "../fields.ts";
import { live } from "../live.ts";

export interface ShardedCollectionInputs extends CollectionState {
  readonly connection: Connection;
  /** Whether to wait until every chunk lies in its zone. */
  readonly waitForBalance: boolean;
}

const keyField = {
  type: "list",
  description: "Its fields in their order.",
  items: {
    type: "object",
    fields: {
      field: { type: "string", description: "The field's path." },
      kind: {
        type: "oneOf",
        values: [1, -1, "hashed", "text", "2d", "2dsphere", "wildcard"],
        description: "Ascending, descending, or a special kind.",
      },
    },
  },
} as const satisfies Field;

const bson = { type: "string", pattern: /^\{/, patternSays: "a document as canonical Extended JSON" } as const;

const inputs = {
  namespace: {
    type: "string",
    pattern: /^[^.]+\..+$/,
    patternSays: "database.collection",
    description: "`database.collection`.",
    replaces: true,
  },
  key: { ...keyField, description: "The shard key." },
  unique: { type: "boolean", description: "Whether the shard key is unique." },
  ranges: {
    type: "list",
    description: "The zone ranges (tag ranges, in old words).",
    items: {
      type: "object",
      fields: {
        zone: { type: "string", description: "The zone." },
        min: { ...bson, description: "The lower bound, inclusive." },
        max: { ...bson, description: "The upper bound, exclusive." },
      },
    },
  },
  indexes: {
    type: "list",
    description: "All indexes but that of `_id` and the shard key's own.",
    items: {
      type: "object",
      fields: {
        name: { type: "string", description: "A label; the key is the identity." },
        key: keyField,
        unique: { type: "boolean", description: "Whether it forbids duplicates." },
        sparse: { type: "boolean", description: "Whether documents without the field are left out." },
        hidden: { type: "boolean", description: "Whether queries do not use it." },
        expireAfterSeconds: { type: "number", min: 0, required: false, description: "Seconds that a document lives." },
        partialFilterExpression: { ...bson, required: false, description: "Which documents it holds." },
        collation: { ...bson, required: false, description: "How text is compared." },
      },
    },
  },
  balancing: { type: "boolean", description: "Whether the balancer may move its chunks." },
  chunkSizeMiB: { type: "number", min: 1, max: 1024, required: false, description: "MiB; absent: not managed." },
  connection: connectionField,
  waitForBalance: {
    type: "boolean",
    default: true,
    description: "Whether to wait until every chunk lies in its zone.",
  },
} as const satisfies Fields;

/** Many collections are read in as many questions as one. */
const look = batched(observeCollections, (collection) => collection.namespace);

export const shardedCollection = live<ShardedCollectionInputs, object>({
  name: "ShardedCollection",
  description:
    "A sharded collection: key, zone ranges, indexes. Destroying it forgets it: the collection and its data stay.",
  inputs,
  changes: (desired, observed) =>
    diffCollection(desired, observed).map((change) =>
      // The state holds only indexes that were declared, so one that is no longer declared is ours to remove.
      change.action === "seen" && change.path.startsWith("indexes") ? { ...change, action: "delete" } : change,
    ),
  plain: ["connection"],

  async preflight(op, { connection, waitForBalance: _, ...desired }) {
    const client = await op.connections.router(connection);
    const observed = await look(op, connection, desired.namespace);
    const { problems, warnings } = await collectionFindings(op, client, canonicalCollection(desired), observed);
    for (const warning of warnings) op.warn(formatProblems([warning]));
    return problems;
  },

  identify: ({ namespace }) => namespace,

  async apply(op, news, previous) {
    const { connection, waitForBalance, ...desired } = news;
    const seen = await applyCollection(op, connection, desired, { previous, waitForBalance });
    op.progress("having every member serve a routed read");
    const { warmMembers } = await import("../../cluster/warm.ts");
    await warmMembers(op, connection, [news.namespace]);
    return { ...news, ...seen, indexes: declaredOf(seen, news) };
  },

  async observe(op, state, declared) {
    const seen = await look(op, state.connection, state.namespace);
    return seen && { ...state, ...seen, indexes: declaredOf(seen, state, declared) };
  },

  delete: async () => undefined,
});

/** The indexes that are there and were declared. Those that somebody made by hand are not ours, and never become so. */
export function declaredOf(
  seen: CollectionState,
  ...declarations: readonly Pick<CollectionState, "indexes">[]
): IndexState[] {
  const present = canonicalCollection(seen).indexes;
  const ours = declarations.flatMap(({ indexes }) => {
    const want = (indexes ?? []).map(canonicalIndex);
    const aligned = alignCollations(want, present);
    return pairIndexes(want, aligned).pairs.map(({ observed }) => present[aligned.indexOf(observed)]?.name);
  });
  return seen.indexes.filter(({ name }) => ours.includes(name));
}
