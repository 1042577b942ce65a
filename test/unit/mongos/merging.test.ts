import { serialize } from "bson";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  documentsStage,
  foreignCollections,
  outputOf,
  renameForeign,
  splitPipeline,
} from "../../../toolchain/mongos/aggregation/pipeline.ts";
import { Doc, encode, type Fields } from "../../../toolchain/mongos/bson/document.ts";
import { splitBySize } from "../../../toolchain/mongos/commands/write.ts";
import { OperationContext } from "../../../toolchain/mongos/context.ts";
import { compareSortKeys, MergedCursor, RemoteCursor, sortKeyOf } from "../../../toolchain/mongos/cursors/remote.ts";
import type { Router, ServerGroup } from "../../../toolchain/mongos/router.ts";

const doc = (fields: object): Doc => new Doc(Buffer.from(serialize(fields)));
const stages = (...list: object[]): Doc[] => list.map(doc);
const js = (docs: readonly Doc[]): unknown[] => docs.map((d) => d.js());
const ctx = new OperationContext({} as Router);

/** A shard's cursor whose first batch is all there is: no server is asked. */
function complete(docs: readonly Fields[]): RemoteCursor {
  const reply = encode({ cursor: { firstBatch: docs, id: 0n, ns: "d.c" }, ok: 1 });
  return new RemoteCursor(ctx, {} as ServerGroup, "d", reply);
}

describe("merging sorted streams", () => {
  const row = fc.record({ a: fc.integer({ min: 0, max: 5 }), b: fc.integer({ min: 0, max: 5 }) });

  test("gives what sorting everything gives, with skip, limit and any batch size, and without $sortKey", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(row, { maxLength: 8 }), { minLength: 1, maxLength: 4 }),
        fc.tuple(fc.constantFrom(1, -1), fc.constantFrom(1, -1)),
        fc.integer({ min: 0, max: 5 }),
        fc.integer({ min: 0, max: 10 }),
        fc.integer({ min: 1, max: 7 }),
        async (perShard, [da, db], skip, limit, batchSize) => {
          const order = (x: { a: number; b: number }, y: { a: number; b: number }): number =>
            (x.a - y.a) * da || (x.b - y.b) * db;
          const cursor = new MergedCursor(
            perShard.map((rows) => complete([...rows].sort(order).map((r) => ({ ...r, $sortKey: [r.a, r.b] })))),
            { directions: [da, db], skip, limit },
          );
          const out: unknown[] = [];
          for (;;) {
            const batch = await cursor.next(ctx, batchSize);
            expect(batch.docs.length).toBeLessThanOrEqual(batchSize);
            out.push(...js(batch.docs));
            if (batch.exhausted) break;
          }
          const all = perShard.flat().sort(order);
          expect(out).toEqual(all.slice(skip, limit === 0 ? undefined : skip + limit));
        },
      ),
    );
  });

  test("missing key parts compare as null, and values by their type first", () => {
    const key = (...parts: unknown[]) => sortKeyOf(doc({ $sortKey: parts }));
    expect(compareSortKeys(key(null), key(-1), [1])).toBeLessThan(0);
    expect(compareSortKeys(key(1, "a"), key(1, 5), [1, 1])).toBeGreaterThan(0);
    expect(compareSortKeys(key(1, "a"), key(1, 5), [1, -1])).toBeLessThan(0);
    expect(compareSortKeys(undefined, key(null), [1])).toBe(0);
  });
});

describe("splitting a pipeline", () => {
  const split = (...list: object[]) => {
    const { shards, directions, skip, limit, merge } = splitPipeline(stages(...list));
    return { shards: js(shards), directions, skip, limit, merge: js(merge) };
  };

  test("stages that look at one document run on the shards", () => {
    const list = [{ $match: { a: 1 } }, { $unwind: "$b" }, { $project: { b: 1 } }];
    expect(split(...list)).toEqual({ shards: list, directions: undefined, skip: 0, limit: undefined, merge: [] });
  });

  test("sort, skip and limit: the shards sort and limit, the router merges and skips", () => {
    expect(
      split({ $sort: { a: 1, b: -1 } }, { $skip: 3 }, { $limit: 4 }, { $skip: 1 }, { $project: { a: 1 } }),
    ).toEqual({
      shards: [{ $sort: { a: 1, b: -1 } }, { $limit: 7 }, { $project: { a: 1 } }],
      directions: [1, -1],
      skip: 4,
      limit: 3,
      merge: [],
    });
  });

  test("a match after a limit is not pushed in front of it", () => {
    expect(split({ $limit: 4 }, { $match: { a: 1 } }).merge).toEqual([{ $match: { a: 1 } }]);
  });

  test("groups are made on the shards and added up by the merging half", () => {
    expect(split({ $group: { _id: "$n", s: { $sum: "$k" }, c: { $count: {} } } }, { $sort: { s: 1 } })).toEqual({
      shards: [{ $group: { _id: "$n", s: { $sum: "$k" }, c: { $count: {} } } }],
      directions: undefined,
      skip: 0,
      limit: undefined,
      merge: [
        { $group: { _id: "$$ROOT._id", s: { $sum: "$$ROOT.s" }, c: { $sum: "$$ROOT.c" }, $doingMerge: true } },
        { $sort: { s: 1 } },
      ],
    });
  });

  test("a group that depends on the order of a sort is left to the merging half", () => {
    const group = { $group: { _id: "$n", f: { $first: "$k" } } };
    expect(split({ $sort: { k: 1 } }, group)).toMatchObject({ directions: [1], merge: [group] });
    const topN = { $group: { _id: "$n", f: { $topN: { n: 1, sortBy: { k: 1 }, output: "$k" } } } };
    expect(split(topN)).toMatchObject({ shards: [], merge: [topN] });
  });

  test("$count and $sortByCount are groups", () => {
    expect(split({ $count: "total" }).shards).toEqual([{ $group: { _id: null, total: { $sum: 1 } } }]);
    expect(split({ $sortByCount: "$n" }).merge.at(-1)).toEqual({ $sort: { count: -1 } });
  });

  test.each(["$facet", "$lookup", "$setWindowFields", "$bucketAuto", "$unknown"])(
    "%s ends the shards' half",
    (name) => {
      expect(split({ $match: { a: 1 } }, { [name]: {} }, { $match: { b: 1 } })).toMatchObject({
        shards: [{ $match: { a: 1 } }],
        merge: [{ [name]: {} }, { $match: { b: 1 } }],
      });
    },
  );
});

describe("other collections of a pipeline", () => {
  const pipeline = stages(
    { $lookup: { from: "a", pipeline: [{ $unionWith: "b" }], as: "x" } },
    { $facet: { f: [{ $graphLookup: { from: "c", as: "y" } }] } },
    { $unionWith: { coll: "d", pipeline: [{ $lookup: { from: "a", as: "z" } }] } },
    { $lookup: { pipeline: [{ $documents: [] }], as: "w" } },
  );

  test("are found at every depth", () => {
    expect([...foreignCollections(pipeline)].sort()).toEqual(["a", "b", "c", "d"]);
  });

  test("are renamed at every depth, and nothing else changes", () => {
    const renamed = renameForeign(
      pipeline,
      new Map([
        ["a", "A"],
        ["b", "B"],
        ["c", "C"],
        ["d", "D"],
      ]),
    );
    expect([...foreignCollections(renamed)].sort()).toEqual(["A", "B", "C", "D"]);
    const back = renameForeign(
      renamed,
      new Map([
        ["A", "a"],
        ["B", "b"],
        ["C", "c"],
        ["D", "d"],
      ]),
    );
    expect(js(back)).toEqual(js(pipeline));
  });

  test("the output stage is read in all its forms", () => {
    expect(outputOf(stages({ $out: "o" }), "d")).toMatchObject({ kind: "$out", db: "d", collection: "o" });
    expect(outputOf(stages({ $out: { db: "e", coll: "o" } }), "d")).toMatchObject({ db: "e", collection: "o" });
    expect(outputOf(stages({ $merge: "m" }), "d")).toMatchObject({ kind: "$merge", db: "d", collection: "m" });
    expect(outputOf(stages({ $merge: { into: { db: "e", coll: "m" } } }), "d")).toMatchObject({ db: "e" });
    expect(outputOf(stages({ $match: {} }), "d")).toBeUndefined();
  });

  test("documents travel as literals: field names and strings with a dollar mean nothing", () => {
    const documents = [{ a: "$b", c: { d: "$$x" } }];
    expect(documentsStage(documents.map(doc)).js()).toEqual({ $documents: { $literal: documents } });
  });
});

describe("splitting a batch", () => {
  test("keeps order, loses nothing, and fits the limit unless one statement alone is larger", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 300 }), { maxLength: 40 }),
        fc.integer({ min: 50, max: 500 }),
        (sizes, limit) => {
          const statements = sizes.map((size, index) => ({ index, doc: encode({ s: "x".repeat(size) }) }));
          const groups = splitBySize(statements, limit);
          expect(groups.flat()).toEqual(statements);
          for (const group of groups) {
            const bytes = group.reduce((n, statement) => n + statement.doc.bytes.length + 16, 0);
            expect(group.length === 1 || bytes <= limit).toBe(true);
          }
        },
      ),
    );
  });
});
