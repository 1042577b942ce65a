import { Long } from "bson";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import {
  compareBson,
  compareValues,
  fromBsonText,
  MAX_KEY,
  MIN_KEY,
  toBsonText,
} from "../../../infra/model/bson-text.ts";
import { keyParts } from "../../../infra/model/key.ts";
import type { ZoneRange } from "../../../infra/model/state.ts";
import {
  boundForServer,
  boundProblem,
  completeBound,
  overlappingPairs,
  rangesOverlap,
  rangesPerDatacenter,
  sortRanges,
  splitRanges,
  typeSuspicions,
  zoneOf,
} from "../../../infra/model/zone-range.ts";
import { bsonScalar, someRanges } from "../../support/arbitraries.ts";

// Hundreds of random cases: a second on an idle machine, far more on a busy one.
vi.setConfig({ testTimeout: 60_000 });

const key = keyParts({ datacenter: 1, userid: 1 });

/** Chunks that a query on keys from `low` to `high`, both inclusive, is sent to. */
function reached(ranges: readonly ZoneRange[], low: string, high: string): string[] {
  return ranges
    .filter(({ min, max }) => compareBson(min, high) <= 0 && compareBson(low, max) < 0)
    .map(({ zone }) => zone);
}

const values = fc
  .uniqueArray(bsonScalar, { minLength: 1, maxLength: 6, comparator: (a, b) => compareValues(a, b) === 0 })
  .chain((list) =>
    fc.tuple(
      fc.constant(list),
      fc.array(fc.constantFrom("alfa", "bravo", "charlie"), { minLength: list.length, maxLength: list.length }),
    ),
  )
  .map(([list, zones]) => list.map((value, index) => [value, zones[index] ?? ""] as const));

describe("ranges per datacenter (M3, M10)", () => {
  test("are the measured ones of the reference deployment, and own what lies below", () => {
    expect(
      rangesPerDatacenter({ key, values: { bravo: "bravo", alfa: "alfa" } }).map(({ zone, min, max }) => [
        zone,
        fromBsonText(min),
        fromBsonText(max),
      ]),
    ).toEqual([
      ["alfa", { datacenter: MIN_KEY, userid: MIN_KEY }, { datacenter: "alfa", userid: MIN_KEY }],
      ["alfa", { datacenter: "alfa", userid: MIN_KEY }, { datacenter: "alfa", userid: MAX_KEY }],
      ["alfa", { datacenter: "alfa", userid: MAX_KEY }, { datacenter: "bravo", userid: MIN_KEY }],
      ["bravo", { datacenter: "bravo", userid: MIN_KEY }, { datacenter: "bravo", userid: MAX_KEY }],
      ["bravo", { datacenter: "bravo", userid: MAX_KEY }, { datacenter: MAX_KEY, userid: MAX_KEY }],
    ]);
  });

  test.each([1, 2, 3])("cover the whole key space without overlap, with %i fields", (fields) => {
    const parts = keyParts(
      Object.fromEntries(["datacenter", "userid", "at"].slice(0, fields).map((field) => [field, 1 as const])),
    );
    const all = (value: unknown) => toBsonText(Object.fromEntries(parts.map(({ field }) => [field, value])));
    fc.assert(
      fc.property(values, (list) => {
        const ranges = rangesPerDatacenter({ key: parts, values: list });
        expect(ranges[0]?.min).toBe(all(MIN_KEY));
        expect(ranges.at(-1)?.max).toBe(all(MAX_KEY));
        for (const [index, range] of ranges.entries()) {
          expect(compareBson(range.min, range.max)).toBeLessThan(0);
          if (index > 0) expect(range.min).toBe(ranges[index - 1]?.max);
        }
        expect(overlappingPairs(ranges)).toEqual([]);
      }),
    );
  });

  test("put any document of a value into the zone of the value, and none nowhere", () => {
    fc.assert(
      fc.property(values, bsonScalar, bsonScalar, (list, other, userid) => {
        const ranges = rangesPerDatacenter({ key, values: list });
        for (const [datacenter, zone] of list) expect(zoneOf(ranges, toBsonText({ datacenter, userid }))).toBe(zone);
        expect(zoneOf(ranges, toBsonText({ datacenter: other, userid }))).toBeDefined();
      }),
    );
  });

  test("let a query that names a value reach its zone only", () => {
    fc.assert(
      fc.property(values, (list) => {
        const ranges = rangesPerDatacenter({ key, values: list });
        for (const [datacenter, zone] of list) {
          const low = toBsonText({ datacenter, userid: MIN_KEY });
          const high = toBsonText({ datacenter, userid: MAX_KEY });
          expect(new Set(reached(ranges, low, high))).toEqual(new Set([zone]));
        }
      }),
    );
    // The seed's two ranges alone do not: the chunk that begins at {alfa, MaxKey} is reached too, and belongs to nobody.
    const seed = rangesPerDatacenter({ key, values: { alfa: "alfa", bravo: "bravo" } }).map((range) =>
      range.min.includes("$minKey") && range.max.includes("$maxKey") ? range : { ...range, zone: "anywhere" },
    );
    const [low, high] = [
      toBsonText({ datacenter: "alfa", userid: MIN_KEY }),
      toBsonText({ datacenter: "alfa", userid: MAX_KEY }),
    ];
    expect(reached(seed, low, high)).toEqual(["alfa", "anywhere"]);
  });

  test.each([
    [
      "a key that begins with another field",
      () => rangesPerDatacenter({ key: keyParts({ userid: 1, datacenter: 1 }), values: { a: "a" } }),
      /does not begin with datacenter/,
    ],
    [
      "a hashed datacenter",
      () => rangesPerDatacenter({ key: keyParts({ datacenter: "hashed" }), values: { a: "a" } }),
      /does not begin with/,
    ],
    ["no value", () => rangesPerDatacenter({ key, values: {} }), /no value of datacenter/],
    [
      "a value twice in two number types",
      () =>
        rangesPerDatacenter({
          key,
          values: [
            [1, "a"],
            [Long.fromNumber(1), "b"],
          ],
        }),
      /appears twice/,
    ],
    ["MinKey as a value", () => rangesPerDatacenter({ key, values: [[MIN_KEY, "a"]] }), /bounds, not values/],
  ])("refuse %s", (_, make, message) => {
    expect(make).toThrow(message);
  });
});

describe("split ranges", () => {
  test("cover everything", () => {
    const ranges = splitRanges({ key: keyParts({ userid: 1 }), at: [10, 20], zones: ["a", "b", "c"] });
    expect(ranges.map(({ zone }) => zone)).toEqual(["a", "b", "c"]);
    expect([null, 9, 10, 19.5, 20, "x"].map((userid) => zoneOf(ranges, toBsonText({ userid })))).toEqual([
      "a",
      "a",
      "b",
      "b",
      "c",
      "c",
    ]);
  });
  test.each([
    [[20, 10], ["a", "b", "c"], /does not lie above/],
    [[10, 10], ["a", "b", "c"], /does not lie above/],
    [[10], ["a"], /2 pieces, but 1 zones/],
  ])("refuse %j with %j", (at, zones, message) => {
    expect(() => splitRanges({ key: keyParts({ userid: 1 }), at, zones })).toThrow(message);
  });
});

describe("bounds", () => {
  test("a prefix is completed with MinKey at both ends, as the server does: up to bravo leaves bravo out", () => {
    expect(completeBound(key, { datacenter: "bravo" })).toBe('{"datacenter":"bravo","userid":{"$minKey":1}}');
    const range = {
      zone: "a",
      min: completeBound(key, { datacenter: "alfa" }),
      max: completeBound(key, { datacenter: "bravo" }),
    };
    expect(zoneOf([range], toBsonText({ datacenter: "bravo", userid: 1 }))).toBeUndefined();
    expect(zoneOf([range], toBsonText({ datacenter: "alfa", userid: 1 }))).toBe("a");
  });

  test.each([
    [{ userid: 1 }, /no prefix of the shard key/],
    [{ datacenter: "a", other: 1 }, /no prefix/],
    [{ userid: 1, datacenter: "a" }, /no prefix/],
    [{}, /no field/],
    ["{", /not Extended JSON/],
  ])("%j is refused", (bound, message) => {
    expect(boundProblem(key, bound)).toMatch(message);
    expect(() => completeBound(key, bound)).toThrow(message);
  });

  test("hashed fields take hashes, and the server gets them as NumberLong", () => {
    const hashed = keyParts({ x: "hashed" });
    expect(boundProblem(hashed, { x: "alfa" })).toMatch(/hashed/);
    expect(boundProblem(hashed, { x: 1.5 })).toMatch(/hashed/);
    expect(boundProblem(hashed, { x: MIN_KEY })).toBeUndefined();
    expect(boundForServer(hashed, completeBound(hashed, { x: 0 })).x).toEqual(Long.ZERO);
    expect(boundForServer(key, completeBound(key, { datacenter: 1 })).datacenter).not.toBeInstanceOf(Long);
  });

  test("field names that JavaScript reorders are refused in bounds", () => {
    expect(
      boundProblem(
        [
          { field: "b", kind: 1 },
          { field: "1", kind: 1 },
        ],
        { b: 1, "1": 2 },
      ),
    ).toMatch(/cannot keep their order/);
  });

  test("of another type than all others are suspicious", () => {
    const ranges = splitRanges({
      key: keyParts({ at: 1 }),
      at: [5, new Date(0), new Date(9)],
      zones: ["a", "b", "c", "d"],
    });
    expect(typeSuspicions(keyParts({ at: 1 }), ranges)).toEqual([
      { field: "at", type: "number", usual: "date", bound: '{"at":{"$numberInt":"5"}}' },
    ]);
    expect(typeSuspicions(key, rangesPerDatacenter({ key, values: { a: "a", b: "b" } }))).toEqual([]);
  });
});

describe("overlap", () => {
  test("is found for every pair, as by looking at all of them", () => {
    fc.assert(
      fc.property(someRanges, someRanges, (a, b) => {
        const ranges = [...a, ...b];
        const slow = ranges.flatMap((one, i) =>
          ranges.flatMap((other, j) => (i < j && rangesOverlap(one, other) ? [[i, j]] : [])),
        );
        expect(overlappingPairs(ranges)).toEqual(slow);
      }),
    );
  });
  test("sorting is by value, not by text", () => {
    const bound = (n: number) => toBsonText({ a: n });
    const range = (n: number) => ({ zone: "z", min: bound(n), max: bound(n + 1) });
    expect(sortRanges([range(10), range(9), range(-1)]).map(({ min }) => min)).toEqual([-1, 9, 10].map(bound));
  });
});
