import { isDeepStrictEqual } from "node:util";
import { applyShard, removeShard } from "../../cluster/apply/shard.ts";
import type { Operation } from "../../cluster/context.ts";
import { observeCollections } from "../../cluster/observe/collections.ts";
import { observeShards, ownsChunks } from "../../cluster/observe/shards.ts";
import type { Connection } from "../../model/connection.ts";
import { formatProblems } from "../../model/problem.ts";
import type { ShardState } from "../../model/state.ts";
import { diffShard } from "../../plan/diff.ts";
import { shardRules } from "../../plan/rules.ts";
import { batched } from "../batch.ts";
import { connectionField, hostsField } from "../connection-fields.ts";
import type { Fields } from "../fields.ts";
import { live } from "../live.ts";

export interface ShardInputs extends ShardState {
  /** Members of its replica set. Only the first contact: the cluster follows later changes by itself. */
  readonly hosts: readonly string[];
  readonly connection: Connection;
}

const inputs = {
  name: { type: "string", description: "The shard's name in the cluster.", replaces: true },
  replicaSet: { type: "string", description: "The name of its replica set.", replaces: true },
  zones: { type: "list", items: { type: "string" }, description: "The zones it carries (shard tags, in old words)." },
  draining: { type: "boolean", default: false, description: "Never declared: a shard is drained by removing it." },
  hosts: { ...hostsField, description: "Members of its replica set, at least one." },
  connection: connectionField,
} as const satisfies Fields;

const look = batched(observeShards, (seen) => seen.name);

export const shard = live<ShardInputs, object>({
  name: "Shard",
  description: "A shard with its zones. Destroying it drains it first and is never forced.",
  inputs,
  changes: (desired, observed) => diffShard(desired, observed),
  plain: ["connection"],

  async preflight(op, { hosts: _, connection, ...desired }) {
    const observed = await look(op, connection, desired.name);
    if (!observed) return [];
    const empty = new Set((await ownsChunks(op, connection, desired.name)) ? [] : [desired.name]);
    const { problems, warnings } = shardRules([desired], [observed], empty);
    for (const warning of warnings) op.warn(formatProblems([warning]));
    return problems;
  },

  identify: ({ name }) => name,

  async apply(op, news, previous) {
    const { hosts, connection, ...desired } = news;
    const seen = await applyShard(op, connection, { desired, hosts });
    if (previous && !isDeepStrictEqual(previous.zones, seen.zones)) await warmAll(op, connection);
    return { ...news, ...seen };
  },

  async observe(op, state) {
    const seen = await look(op, state.connection, state.name);
    return seen && { ...state, ...seen };
  },

  delete: (op, { connection, name }) => removeShard(op, connection, name),
});

/** Other zones mean other places for chunks; members learn of them from their first routed read (M11). */
async function warmAll(op: Operation, connection: Connection): Promise<void> {
  const collections = await observeCollections(op, connection);
  op.progress("having every member serve a routed read");
  const { warmMembers } = await import("../../cluster/warm.ts");
  await warmMembers(
    op,
    connection,
    collections.map(({ namespace }) => namespace),
  );
}
