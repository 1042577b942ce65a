// explain, as a mongos merges what its shards explain.
import type { Document } from "mongodb";
import { admin, type CaseContext, db, fields, ok, type RouterCase, refused, routerCase, value } from "./case.ts";

/** Two shards, split at k = 0, documents k = -5..4. */
const spread = [
  admin((c) => ({ enableSharding: c.db.databaseName, primaryShard: c.shards[0] }), ok),
  admin((c) => ({ shardCollection: c.ns("a"), key: { k: 1 } }), ok),
  admin((c) => ({ split: c.ns("a"), middle: { k: 0 } }), ok),
  admin((c) => ({ moveChunk: c.ns("a"), find: { k: 1 }, to: c.shards[1], _waitForDelete: true }), ok),
  db({ insert: "a", documents: Array.from({ length: 10 }, (_, i) => ({ k: i - 5, n: i % 3 })) }, fields({ n: 10 })),
  db({ insert: "plain", documents: [{ a: 1 }, { a: 2 }] }, fields({ n: 2 })),
];

/** The stage, the shards, and what their plans have at the top. */
const planned = (command: Document, stage: string, shards: readonly string[], inner?: string) =>
  value(
    `explain ${JSON.stringify(command)}`,
    async (c) => {
      const { queryPlanner } = await c.db.command({ explain: command, verbosity: "queryPlanner" });
      const plan = queryPlanner.winningPlan;
      return {
        version: queryPlanner.mongosPlannerVersion,
        stage: plan.stage,
        shards: plan.shards.map((s: Document) => s.shardName).sort(),
        complete: plan.shards.every((s: Document) => s.connectionString && s.serverInfo && s.winningPlan),
        ...(inner === undefined ? {} : { inner: plan.shards[0].winningPlan.stage }),
      };
    },
    { version: 1, stage, shards, complete: true, ...(inner === undefined ? {} : { inner }) },
  );

const executed = (command: Document, wanted: Document) =>
  value(
    `explain executionStats ${JSON.stringify(command)}`,
    async (c: CaseContext) => {
      const { executionStats: stats } = await c.db.command({ explain: command, verbosity: "executionStats" });
      return {
        nReturned: stats.nReturned,
        shards: stats.executionStages.shards.length,
        stage: stats.executionStages.stage,
      };
    },
    wanted,
  );

export const explainCases: readonly RouterCase[] = [
  routerCase(
    "explain",
    ({ shards }) => {
      const [first, second] = shards;
      return [
        ...spread,
        planned({ find: "a", filter: { k: 1 } }, "SINGLE_SHARD", [second]),
        planned({ find: "a", filter: { k: { $lt: -1 } } }, "SINGLE_SHARD", [first]),
        planned({ find: "a", filter: { k: { $in: [-1, -2] } } }, "SINGLE_SHARD", [first]),
        planned({ find: "a", filter: { k: { $in: [-1, 1] } } }, "SHARD_MERGE", shards),
        planned({ find: "a", filter: { n: 1 } }, "SHARD_MERGE", shards),
        planned({ find: "a", filter: {}, sort: { n: 1 } }, "SHARD_MERGE_SORT", shards),
        planned({ find: "plain" }, "SINGLE_SHARD", [first], "COLLSCAN"),
        planned({ find: "nosuch" }, "SINGLE_SHARD", [first], "EOF"),
        planned({ count: "a", query: { k: 1 } }, "SINGLE_SHARD", [second]),
        planned({ count: "a" }, "SHARD_MERGE", shards),
        planned({ distinct: "a", key: "n" }, "SHARD_MERGE", shards),
        planned({ update: "a", updates: [{ q: { k: 1 }, u: { $set: { x: 1 } } }] }, "SHARD_WRITE", [second], "UPDATE"),
        planned({ update: "a", updates: [{ q: {}, u: { $set: { x: 1 } }, multi: true }] }, "SHARD_WRITE", shards),
        planned({ delete: "a", deletes: [{ q: { k: -1 }, limit: 1 }] }, "SHARD_WRITE", [first], "DELETE"),
        planned({ findAndModify: "a", query: { k: 1 }, remove: true }, "SINGLE_SHARD", [second], "DELETE"),
        executed({ find: "a", filter: {} }, { nReturned: 10, shards: 2, stage: "SHARD_MERGE" }),
        executed({ find: "a", filter: { k: { $gte: 0 } } }, { nReturned: 5, shards: 1, stage: "SINGLE_SHARD" }),
        executed(
          { find: "a", sort: { k: 1 }, skip: 2, limit: 3 },
          { nReturned: 10, shards: 2, stage: "SHARD_MERGE_SORT" },
        ),
        value(
          "nothing was changed by explaining",
          (c) => c.db.command({ count: "a", query: { x: 1 } }).then((r) => r.n),
          0,
        ),
        value(
          "aggregate over shards",
          (c) =>
            c.db
              .command({
                explain: { aggregate: "a", pipeline: [{ $group: { _id: "$n", c: { $sum: 1 } } }], cursor: {} },
                verbosity: "queryPlanner",
              })
              .then((r) => ({
                shards: Object.keys(r.shards).sort(),
                merger: r.splitPipeline.mergerPart.map((s: Document) => Object.keys(s)[0]),
              })),
          { shards, merger: ["$group"] },
        ),
        value(
          "aggregate on one shard",
          (c) =>
            c.db
              .command({
                explain: { aggregate: "a", pipeline: [{ $match: { k: 1 } }, { $group: { _id: "$n" } }], cursor: {} },
                verbosity: "queryPlanner",
              })
              .then((r) => ({ shards: Object.keys(r.shards), split: r.splitPipeline })),
          { shards: [second], split: null },
        ),
        db({ create: "view", viewOn: "a", pipeline: [{ $match: { n: 1 } }] }, ok),
        value(
          "find on a view of a sharded collection",
          (c) =>
            c.db
              .command({
                explain: { find: "view", filter: { k: { $gt: 0 } }, sort: { k: 1 } },
                verbosity: "queryPlanner",
              })
              .then((r) => Object.keys(r.shards).sort()),
          [second],
        ),
        db({ explain: { find: "a" }, verbosity: "nonsense" }, refused(2, "BadValue")),
        db({ explain: { nosuchcommand: 1 } }, refused(59, "CommandNotFound")),
        db({ explain: { drop: "a" } }, refused(20, "IllegalOperation")),
        db({ explain: 1 }, refused(14, "TypeMismatch")),
        db(
          {
            explain: {
              update: "a",
              updates: [
                { q: {}, u: {} },
                { q: {}, u: {} },
              ],
            },
          },
          refused(16, "InvalidLength"),
        ),
        db({ explain: { findAndModify: "a", query: { n: 1 }, remove: true } }, refused(61, "ShardKeyNotFound")),
      ];
    },
    { since: 6 },
  ),
];
