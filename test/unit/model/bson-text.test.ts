import { Binary, Decimal128, Double, EJSON, Int32, Long, ObjectId, Timestamp, UUID } from "bson";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import {
  bsonTypeOf,
  canonicalBsonText,
  compareBson,
  compareValues,
  fromBsonText,
  MAX_KEY,
  MIN_KEY,
  readableBson,
  sameBson,
  toBsonText,
} from "../../../infra/model/bson-text.ts";
import { bsonScalar, bsonValue } from "../../support/arbitraries.ts";

// Hundreds of random cases: a second on an idle machine, far more on a busy one.
vi.setConfig({ testTimeout: 60_000 });

describe("the order of values", () => {
  /** Ascending, as a server sorts them. */
  const ascending: readonly unknown[] = [
    MIN_KEY,
    null,
    Number.NaN,
    Decimal128.fromString("-Infinity"),
    Long.MIN_VALUE,
    -1.5,
    new Int32(-1),
    -Number.MIN_VALUE,
    0,
    Number.MIN_VALUE,
    Decimal128.fromString("0.1"),
    0.1, // the double above 0.1, which the decimal is exactly
    new Int32(1),
    new Double(1.5),
    2 ** 53,
    Long.fromString("9007199254740993"), // no double is this number
    Long.MAX_VALUE,
    2 ** 63,
    Decimal128.fromString("9.999999999999999999999999999999999E+6144"),
    Number.POSITIVE_INFINITY,
    "",
    "A",
    "a",
    "aa",
    "\u{ff5e}", // above the surrogates in UTF-16, below them in UTF-8
    "\u{1f600}",
    {},
    { a: 1 },
    { a: 1, b: 1 },
    { a: 2 },
    { b: 1 },
    { a: "x" },
    [],
    [1],
    [1, 2],
    [2],
    ["x"],
    new Binary(new Uint8Array([9])),
    new Binary(new Uint8Array([1, 1])),
    new Binary(new Uint8Array([0, 0]), 5),
    new ObjectId("000000000000000000000001"),
    new ObjectId("f00000000000000000000000"),
    false,
    true,
    new Date(-1),
    new Date(0),
    new Timestamp({ t: 1, i: 2 }),
    new Timestamp({ t: 2, i: 1 }),
    /a/,
    /a/i,
    /b/,
    MAX_KEY,
  ];

  test("is the server's", () => {
    for (const [i, a] of ascending.entries()) {
      for (const [j, b] of ascending.entries()) {
        expect(Math.sign(compareValues(a, b)), `${EJSON.stringify(a)} against ${EJSON.stringify(b)}`).toBe(
          Math.sign(i - j),
        );
      }
    }
  });

  test("is total: antisymmetric, transitive, and equal exactly when the canonical texts are", () => {
    fc.assert(
      fc.property(bsonValue, bsonValue, bsonValue, (a, b, c) => {
        const [ab, bc, ac] = [compareValues(a, b), compareValues(b, c), compareValues(a, c)];
        expect(Math.sign(ab)).toBe(-Math.sign(compareValues(b, a)) + 0);
        if (ab <= 0 && bc <= 0) expect(ac).toBeLessThanOrEqual(0);
        if (ab >= 0 && bc >= 0) expect(ac).toBeGreaterThanOrEqual(0);
        expect(ab === 0).toBe(toBsonText({ v: a }) === toBsonText({ v: b }));
        expect(compareValues(a, a)).toBe(0);
      }),
      { numRuns: 800 },
    );
  });
});

describe("numbers are one value in every type", () => {
  test.each([
    [
      "1",
      [
        1,
        new Int32(1),
        new Double(1),
        Long.fromNumber(1),
        1n,
        Decimal128.fromString("1"),
        Decimal128.fromString("1.00"),
        Decimal128.fromString("10E-1"),
      ],
      '{"$numberInt":"1"}',
    ],
    [
      "0",
      [
        0,
        -0,
        new Double(-0),
        Decimal128.fromString("-0"),
        Decimal128.fromString("0E+3"),
        Decimal128.fromString("0E-3"),
        Decimal128.fromString("-0E+400"),
        Long.ZERO,
      ],
      '{"$numberInt":"0"}',
    ],
    [
      "2^40",
      [2 ** 40, Long.fromNumber(2 ** 40), Decimal128.fromString("1099511627776.0")],
      '{"$numberLong":"1099511627776"}',
    ],
    ["1.5", [1.5, Decimal128.fromString("1.50")], '{"$numberDouble":"1.5"}'],
    ["NaN", [Number.NaN, Decimal128.fromString("NaN")], '{"$numberDouble":"NaN"}'],
    ["infinity", [Number.POSITIVE_INFINITY, Decimal128.fromString("Infinity")], '{"$numberDouble":"Infinity"}'],
    ["1e300", [1e300, new Double(1e300)], '{"$numberDouble":"1e+300"}'],
  ])("%s", (_, values, text) => {
    for (const value of values) expect(toBsonText({ v: value }).toLowerCase()).toBe(`{"v":${text}}`.toLowerCase());
  });

  test("but numbers that only look equal are two", () => {
    expect(sameBson('{"v":{"$numberDecimal":"0.1"}}', '{"v":{"$numberDouble":"0.1"}}')).toBe(false);
    expect(sameBson('{"v":{"$numberLong":"9007199254740993"}}', '{"v":{"$numberDouble":"9007199254740992"}}')).toBe(
      false,
    );
  });

  test("a number keeps its value through its canonical text", () => {
    fc.assert(
      fc.property(bsonScalar, (value) => {
        const back = fromBsonText(toBsonText({ v: value })).v as unknown;
        expect(compareValues(value, back)).toBe(0);
        expect(bsonTypeOf(back)).toBe(bsonTypeOf(value));
      }),
      { numRuns: 400 },
    );
  });
});

describe("text", () => {
  test("is canonical Extended JSON as the BSON library writes it", () => {
    fc.assert(
      fc.property(bsonValue, (value) => {
        const text = toBsonText({ v: value });
        expect(EJSON.stringify(EJSON.parse(text, { relaxed: false }), { relaxed: false })).toBe(text);
        expect(canonicalBsonText(text)).toBe(text);
      }),
      { numRuns: 400 },
    );
  });

  test("keeps the order of fields", () => {
    expect(toBsonText({ b: 1, a: 1 })).not.toBe(toBsonText({ a: 1, b: 1 }));
    expect(
      toBsonText(
        new Map([
          ["2", "x"],
          ["1", "y"],
        ]),
      ),
    ).toBe('{"2":"x","1":"y"}');
    expect(compareBson('{"b":1,"a":1}', '{"a":1,"b":1}')).toBeGreaterThan(0);
  });

  test("reads what people write", () => {
    expect(canonicalBsonText('{ "a": 1, "b": {"$minKey": 1}, "c": "x" }')).toBe(
      '{"a":{"$numberInt":"1"},"b":{"$minKey":1},"c":"x"}',
    );
    expect(toBsonText({ when: new Date(5), id: new UUID("00112233-4455-6677-8899-aabbccddeeff") })).toBe(
      '{"when":{"$date":{"$numberLong":"5"}},"id":{"$binary":{"base64":"ABEiM0RVZneImaq7zN3u/w==","subType":"04"}}}',
    );
  });

  test.each(["", "{", "[]", "5", '"x"'])("refuses %j with the next step", (text) => {
    expect(() => fromBsonText(text)).toThrowError(
      expect.objectContaining({ next: expect.stringContaining("write a document") }),
    );
  });

  test.each([[() => {}], [Symbol("x")]])("refuses what BSON cannot hold", (value) => {
    expect(() => toBsonText({ v: value })).toThrow(/not a BSON value/);
  });

  test("for people it looks as in mongosh", () => {
    expect(
      readableBson(
        toBsonText({
          datacenter: "alfa",
          userid: MIN_KEY,
          "a b": [1.5, null],
          at: new Date(0),
          d: Decimal128.fromString("0.1"),
        }),
      ),
    ).toBe(
      '{ datacenter: "alfa", userid: MinKey, "a b": [1.5, null], at: ISODate("1970-01-01T00:00:00.000Z"), d: NumberDecimal("0.1") }',
    );
  });
});
