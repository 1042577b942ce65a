import { Double, Long, MaxKey, MinKey, serialize } from "bson";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Doc, Value } from "../../../toolchain/mongos/bson/document.ts";
import { hashValue } from "../../../toolchain/mongos/bson/hash.ts";
import { type Chunk, RoutingTable } from "../../../toolchain/mongos/catalog/routing-table.ts";
import { exactKey, hasExactId, queryRanges } from "../../../toolchain/mongos/targeting/query-ranges.ts";
import { keyOfDocument, parseShardKey } from "../../../toolchain/mongos/targeting/shard-key.ts";

const doc = (fields: object): Doc => new Doc(Buffer.from(serialize(fields)));
const values = (...parts: unknown[]): Value[] => parts.map((v) => doc({ v }).first() ?? Value.null);

/** Chunks between these bounds (MinKey first, MaxKey last), the shards by turns. */
function tableOf(bounds: readonly (readonly unknown[])[], shards: readonly string[], fields: number): RoutingTable {
  const all = [Array(fields).fill(new MinKey()), ...bounds, Array(fields).fill(new MaxKey())];
  const chunks: Chunk[] = [];
  for (let i = 0; i + 1 < all.length; i++)
    chunks.push({
      min: values(...(all[i] as unknown[])),
      max: values(...(all[i + 1] as unknown[])),
      shard: shards[i % shards.length] as string,
      version: BigInt(i + 1),
    });
  return new RoutingTable(chunks, { epoch: Value.null, timestamp: Value.null });
}

function targets(table: RoutingTable, pattern: object, query: object, collated = false): string[] {
  const ranges = queryRanges(parseShardKey(doc(pattern)), doc(query), collated);
  return ranges === undefined ? table.shards() : table.shardsFor(ranges);
}

describe("one field, split at 0", () => {
  const table = tableOf([[0]], ["low", "high"], 1);
  const both = ["high", "low"];

  test.each<[object, string[]]>([
    [{ k: -1 }, ["low"]],
    [{ k: 0 }, ["high"]],
    [{ k: new Double(-0.5) }, ["low"]],
    [{ k: Long.fromNumber(7) }, ["high"]],
    [{ k: { $eq: 5 } }, ["high"]],
    [{ k: { $in: [-1, -2] } }, ["low"]],
    [{ k: { $in: [-1, 1] } }, both],
    [{ k: { $in: [] } }, []],
    [{ k: { $gt: 3 } }, ["high"]],
    [{ k: { $lt: -3 } }, ["low"]],
    [{ k: { $gte: -3, $lt: 3 } }, both],
    [{ k: { $gt: 0, $lt: 5 } }, ["high"]],
    [{ $and: [{ k: { $gt: 1 } }, { n: 5 }] }, ["high"]],
    [{ $or: [{ k: 1 }, { k: 2 }] }, ["high"]],
    [{ $or: [{ k: 1 }, { k: -2 }] }, both],
    [{ $or: [{ k: 1 }, { n: 2 }] }, both],
    [{ k: 1, $or: [{ n: 1 }, { n: 2 }] }, ["high"]],
    [{ k: "text" }, ["high"]],
    [{ k: { $gt: "a" } }, ["high"]],
    [{ k: null }, ["low"]],
    [{ k: { $exists: false } }, ["low"]],
    [{ k: { $exists: true } }, both],
    [{ k: { $ne: 1 } }, both],
    [{ k: { $nin: [1] } }, both],
    [{ k: { $not: { $gt: 1 } } }, both],
    [{ k: /^a/ }, both],
    [{ k: { $in: [/^a/, -1] } }, both],
    [{ k: [1, 2] }, both],
    [{ k: { $elemMatch: { $gt: 1 } } }, both],
    [{ n: 1 }, both],
    [{}, both],
    [{ $expr: { $eq: ["$k", 1] } }, both],
    [{ $nor: [{ k: 1 }] }, both],
    [{ k: 1, $and: [{ k: -1 }] }, []],
  ])("%j goes to %j", (query, expected) => {
    expect(targets(table, { k: 1 }, query)).toEqual(expected);
  });

  test("a collation cannot be used for strings, but for numbers", () => {
    const words = tableOf([["m"]], ["a-l", "m-z"], 1);
    expect(targets(words, { k: 1 }, { k: "b" })).toEqual(["a-l"]);
    expect(targets(words, { k: 1 }, { k: "b" }, true)).toEqual(["a-l", "m-z"]);
    expect(targets(words, { k: 1 }, { k: { $gt: "x" } }, true)).toEqual(["a-l", "m-z"]);
    expect(targets(words, { k: 1 }, { k: 5 }, true)).toEqual(["a-l"]);
  });
});

describe("datacenter and user", () => {
  const key = { datacenter: 1, userid: 1 };
  const min = new MinKey();
  const max = new MaxKey();

  test("a chunk that starts at {alfa, MaxKey} is reached by a query that names alfa", () => {
    const open = tableOf(
      [
        ["alfa", min],
        ["alfa", max],
        ["bravo", min],
        ["bravo", max],
      ],
      ["x", "alfa", "gap", "bravo", "y"],
      2,
    );
    expect(targets(open, key, { datacenter: "alfa" })).toEqual(["alfa", "gap"]);
    expect(targets(open, key, { datacenter: "alfa", userid: 5 })).toEqual(["alfa"]);
  });

  test("with closed gaps a query that names the datacenter reaches one shard", () => {
    const closed = tableOf([["bravo", min]], ["alfa", "bravo"], 2);
    expect(targets(closed, key, { datacenter: "alfa" })).toEqual(["alfa"]);
    expect(targets(closed, key, { datacenter: "bravo", text: "x" })).toEqual(["bravo"]);
    expect(targets(closed, key, { userid: 5 })).toEqual(["alfa", "bravo"]);
    expect(targets(closed, key, { datacenter: { $in: ["alfa", "bravo"] }, userid: { $gt: 3 } })).toEqual([
      "alfa",
      "bravo",
    ]);
  });
});

describe("dotted and hashed keys", () => {
  test("a nested equality fixes a dotted key", () => {
    const table = tableOf([[0]], ["low", "high"], 1);
    expect(targets(table, { "a.b": 1 }, { "a.b": 5 })).toEqual(["high"]);
    expect(targets(table, { "a.b": 1 }, { a: { b: 5 } })).toEqual(["high"]);
  });

  test("equality on a hashed key reaches one chunk; a range all of them", () => {
    const table = tableOf([[Long.fromNumber(0)]], ["low", "high"], 1);
    const hash = hashValue(Value.of(1)).bigint();
    expect(targets(table, { k: "hashed" }, { k: 1 })).toEqual([hash < 0n ? "low" : "high"]);
    expect(targets(table, { k: "hashed" }, { k: { $gt: 1 } })).toEqual(["high", "low"]);
  });
});

describe("whole keys", () => {
  const pattern = parseShardKey(doc({ a: 1, b: 1 }));

  test.each<[object, boolean]>([
    [{ a: 1, b: 2 }, true],
    [{ a: 1, b: { $eq: 2 }, c: 3 }, true],
    [{ $and: [{ a: 1 }, { b: 2 }] }, true],
    [{ a: 1, b: null }, true],
    [{ a: { $in: [1] }, b: 2 }, true],
    [{ a: 1 }, false],
    [{ a: 1, b: { $gt: 2 } }, false],
    [{ a: { $in: [1, 2] }, b: 2 }, false],
    [
      {
        $or: [
          { a: 1, b: 2 },
          { a: 3, b: 4 },
        ],
      },
      false,
    ],
    [{ a: 1, b: [1] }, false],
  ])("%j: %j", (query, found) => {
    expect(exactKey(pattern, doc(query)) !== undefined).toBe(found);
  });

  test("an array as key value is refused with ShardKeyNotFound", () => {
    expect(() => keyOfDocument(pattern, doc({ a: [1], b: 2 }))).toThrow(expect.objectContaining({ code: 61 }));
    expect(() => keyOfDocument(parseShardKey(doc({ "x.y": 1 })), doc({ x: [{ y: 1 }] }))).toThrow(
      expect.objectContaining({ code: 61 }),
    );
  });

  test("a missing field counts as null", () => {
    expect(keyOfDocument(pattern, doc({ b: 2 })).map((v) => v.type)).toEqual([Value.null.type, 0x10]);
  });

  test("which queries fix _id", () => {
    expect(hasExactId(doc({ _id: 5 }))).toBe(true);
    expect(hasExactId(doc({ _id: { $eq: 5 } }))).toBe(true);
    expect(hasExactId(doc({ _id: { a: 1 } }))).toBe(true);
    expect(hasExactId(doc({ _id: { $in: [5] } }))).toBe(false);
    expect(hasExactId(doc({ a: 5 }))).toBe(false);
  });
});

describe("properties", () => {
  const scalar = fc.oneof(
    fc.integer({ min: -8, max: 8 }),
    fc.constantFrom("a", "b", "c"),
    fc.constant(null),
    fc.boolean(),
  );
  const condition = fc.oneof(
    scalar.map((v) => ({ test: (x: unknown) => x === v, query: v as unknown })),
    fc.array(scalar, { minLength: 1, maxLength: 4 }).map((list) => ({
      test: (x: unknown) => list.includes(x as never),
      query: { $in: list } as unknown,
    })),
    fc.integer({ min: -8, max: 8 }).map((n) => ({
      test: (x: unknown) => typeof x === "number" && x > n,
      query: { $gt: n } as unknown,
    })),
    fc.integer({ min: -8, max: 8 }).map((n) => ({
      test: (x: unknown) => typeof x === "number" && x <= n,
      query: { $lte: n } as unknown,
    })),
  );
  const bounds = fc
    .uniqueArray(fc.tuple(fc.integer({ min: -8, max: 8 }), fc.integer({ min: -8, max: 8 })), {
      maxLength: 6,
      selector: ([a, b]) => `${a},${b}`,
    })
    .map((list) => list.sort((x, y) => x[0] - y[0] || x[1] - y[1]));

  test("a document's shard is among those of every query that matches it", () => {
    fc.assert(
      fc.property(
        bounds,
        scalar,
        scalar,
        condition,
        condition,
        fc.constantFrom("and", "or"),
        (cuts, a, b, ca, cb, how) => {
          const table = tableOf(cuts, ["s0", "s1", "s2", "s3", "s4", "s5", "s6"], 2);
          const key = parseShardKey(doc({ a: 1, b: 1 }));
          const home = table.chunkFor(keyOfDocument(key, doc({ a, b }))).shard;
          const matches = how === "and" ? ca.test(a) && cb.test(b) : ca.test(a) || cb.test(b);
          fc.pre(matches);
          const query = how === "and" ? { a: ca.query, b: cb.query } : { $or: [{ a: ca.query }, { b: cb.query }] };
          expect(targets(table, { a: 1, b: 1 }, query)).toContain(home);
        },
      ),
      { numRuns: 2000 },
    );
  });

  test("every key belongs to exactly one chunk, the one whose range holds it", () => {
    fc.assert(
      fc.property(bounds, fc.integer({ min: -9, max: 9 }), fc.integer({ min: -9, max: 9 }), (cuts, a, b) => {
        const table = tableOf(cuts, ["s"], 2);
        const expected = cuts.filter(([x, y]) => x < a || (x === a && y <= b)).length;
        expect(table.chunkFor(values(a, b))).toBe(table.chunks[expected]);
      }),
    );
  });
});
