import {
  BSONRegExp,
  Decimal128,
  type Document,
  Double,
  deserialize,
  EJSON,
  Int32,
  Long,
  MaxKey,
  MinKey,
  ObjectId,
  serialize,
  Timestamp,
} from "bson";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compareKeys, compareValues } from "../../../toolchain/mongos/bson/compare.ts";
import { Doc, DocWriter, encode, InvalidBson, type Value } from "../../../toolchain/mongos/bson/document.ts";
import { hashValue } from "../../../toolchain/mongos/bson/hash.ts";

const doc = (value: Document): Doc => new Doc(Buffer.from(serialize(value)));
const canonical = (bytes: Uint8Array): string =>
  EJSON.stringify(deserialize(bytes, { promoteValues: false, bsonRegExp: true }), { relaxed: false });
const value = (v: unknown): Value => {
  const element = doc({ v }).first();
  if (element === undefined) throw new Error("no element");
  return element;
};

/** Values of every comparable type, for properties. */
const anyBson: fc.Arbitrary<unknown> = fc.oneof(
  fc.integer().map((n) => new Int32(n | 0)),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map((n) => Long.fromBigInt(n)),
  fc.double().map((n) => new Double(n)),
  fc.tuple(fc.integer(), fc.integer({ min: -30, max: 30 })).map(([n, e]) => Decimal128.fromString(`${n}E${e}`)),
  fc.string(),
  fc.boolean(),
  fc.constant(null),
  fc.date({ noInvalidDate: true }),
  fc.uint8Array({ minLength: 12, maxLength: 12 }).map((bytes) => new ObjectId(bytes)),
  fc.tuple(fc.nat(), fc.nat()).map(([t, i]) => new Timestamp({ t, i })),
  fc.array(fc.integer(), { maxLength: 3 }),
  fc.dictionary(fc.constantFrom("a", "b", "c"), fc.integer(), { maxKeys: 3 }),
  fc.constant(new MinKey()),
  fc.constant(new MaxKey()),
);

describe("raw documents", () => {
  const everything = {
    int: new Int32(1),
    long: Long.fromNumber(1),
    double: new Double(1),
    negativeZero: new Double(-0),
    decimal: Decimal128.fromString("1.10"),
    regex: new BSONRegExp("^a", "i"),
    timestamp: new Timestamp({ t: 7, i: 8 }),
    nested: { "2": "two", "1": "one" },
    list: [1, "x", null],
    binary: Buffer.from([1, 2, 3]),
    min: new MinKey(),
  };

  test("copying, replacing and removing fields never changes the type or order of the others", () => {
    const before = doc(everything);
    const after = before
      .with({ added: "x" })
      .without("added")
      .with({ int: before.find("int") });
    expect(after.bytes.equals(before.bytes)).toBe(true);
    expect(
      before
        .with({ double: 5 })
        .elements()
        .map((e) => e.name),
    ).toEqual(before.elements().map((e) => e.name));
  });

  test("keys that look like numbers keep their place", () => {
    const written = new DocWriter().append("2", "two").append("10", "ten").append("1", "one").finish();
    expect(written.elements().map((e) => e.name)).toEqual(["2", "10", "1"]);
    expect(encode({ wrapped: written }).doc("wrapped")?.bytes.equals(written.bytes)).toBe(true);
  });

  test("encoding agrees with the bson package", () => {
    fc.assert(
      fc.property(
        fc.dictionary(
          fc.string({ unit: "grapheme" }).filter((k) => !k.includes("\0") && !/^\d+$/.test(k)),
          anyBson,
        ),
        (fields) => {
          const ours = encode(fields as Parameters<typeof encode>[0]);
          expect(canonical(ours.bytes)).toBe(canonical(serialize(fields)));
        },
      ),
    );
  });

  test("finds names that are not ASCII, and tells a name from one that starts alike", () => {
    const named = doc({ größe: 1, gr: 2, Ã: 3 });
    expect(named.find("größe")?.number()).toBe(1);
    expect(named.find("gr")?.number()).toBe(2);
    expect(named.find("g")).toBeUndefined();
    expect(named.find("Ã")?.number()).toBe(3);
  });

  test("refuses bytes that are no BSON", () => {
    const broken = Buffer.from(serialize({ a: "text" }));
    broken.writeInt32LE(1000, 7);
    expect(() => new Doc(broken).elements()).toThrow(InvalidBson);
    const unknown = Buffer.from(serialize({ a: 1 }));
    unknown[4] = 0x42;
    expect(() => new Doc(unknown).find("b")).toThrow(/unknown BSON type/);
  });
});

describe("comparison", () => {
  test.each([
    [new MinKey(), null],
    [null, new Double(Number.NaN)],
    [new Double(Number.NaN), new Double(Number.NEGATIVE_INFINITY)],
    [new Int32(1), new Double(1.5)],
    [Long.fromString("9007199254740992"), Long.fromString("9007199254740993")],
    [new Double(9007199254740992), Long.fromString("9007199254740993")],
    [Decimal128.fromString("0.1"), new Double(0.1)],
    [new Double(1e308), Decimal128.fromString("1E+400")],
    [Long.fromString("9223372036854775807"), new Double(2 ** 63)],
    [5, "5"],
    ["a", "b"],
    ["Z", "a"],
    ["z", {}],
    [{}, []],
    [{ a: 1 }, { a: 2 }],
    [{ a: 1 }, { b: 0 }],
    [{ a: 1 }, { a: 1, b: 1 }],
    [[], Buffer.from([])],
    [Buffer.from([9]), Buffer.from([1, 1])],
    [Buffer.from([1]), new ObjectId("000000000000000000000000")],
    [new ObjectId("ffffffffffffffffffffffff"), false],
    [false, true],
    [true, new Date(-1e15)],
    [new Date(1e15), new Timestamp({ t: 0, i: 0 })],
    [new Timestamp({ t: 1, i: 9 }), new Timestamp({ t: 2, i: 0 })],
    [new Timestamp({ t: 2, i: 0 }), new BSONRegExp("a", "")],
    [new BSONRegExp("a", ""), new MaxKey()],
  ])("%j comes before %j", (low, high) => {
    expect(compareValues(value(low), value(high))).toBeLessThan(0);
    expect(compareValues(value(high), value(low))).toBeGreaterThan(0);
  });

  test.each([
    [new Int32(1), new Double(1)],
    [Long.fromNumber(1), Decimal128.fromString("1.000")],
    [new Double(-0), new Int32(0)],
    [new Double(0.5), Decimal128.fromString("5E-1")],
  ])("%j equals %j", (a, b) => {
    expect(compareValues(value(a), value(b))).toBe(0);
  });

  test("is a total order", () => {
    fc.assert(
      fc.property(anyBson, anyBson, anyBson, (a, b, c) => {
        const [x, y, z] = [value(a), value(b), value(c)] as const;
        expect(compareValues(x, x)).toBe(0);
        expect(compareValues(x, y)).toBe(-compareValues(y, x) + 0);
        if (compareValues(x, y) <= 0 && compareValues(y, z) <= 0) expect(compareValues(x, z)).toBeLessThanOrEqual(0);
      }),
      { numRuns: 2000 },
    );
  });

  test("compares keys field by field, with directions", () => {
    const key = (...parts: unknown[]): Value[] => parts.map(value);
    expect(compareKeys(key(1, 2), key(1, 3))).toBeLessThan(0);
    expect(compareKeys(key(1, 2), key(1, 3), [1, -1])).toBeGreaterThan(0);
    expect(compareKeys(key("alfa", new MaxKey()), key("bravo", new MinKey()))).toBeLessThan(0);
  });
});

describe("hashes of hashed shard keys", () => {
  // Answers of a mongod 6.0.5 to {$toHashedIndexKey: value}.
  test.each([
    [new Int32(1), "5902408780260971510"],
    [new Double(1), "5902408780260971510"],
    [new Double(1.5), "5902408780260971510"],
    [new Double(-1.5), "1140205862565771219"],
    [new Double(Number.NaN), "4854801880128277513"],
    [new Double(-0), "4854801880128277513"],
    [new Double(1e30), "921523596458303250"],
    [new Double(-1e30), "4532067210535695462"],
    [Long.fromString("9007199254740993"), "-4223421864049415010"],
    [Decimal128.fromString("1.5"), "848411777775835583"],
    [Decimal128.fromString("12345678901234567890"), "921523596458303250"],
    ["abc", "8478485326885698097"],
    ["", "2049396243249673340"],
    [null, "2338878944348059895"],
    [true, "6405873908747105701"],
    [new Date(5), "2834597487171300937"],
    [new ObjectId("0123456789abcdef01234567"), "2741278085215419733"],
    [new Timestamp({ t: 1, i: 2 }), "6130793394493442031"],
    [{ a: 1, b: { c: "x" } }, "3140165265723222620"],
    [{}, "7980500913326740417"],
    [new BSONRegExp("a", "i"), "-1736204118293582337"],
    [new MinKey(), "7961148599568647290"],
  ])("%j hashes as the server hashes it", (input, hash) => {
    expect(hashValue(value(input)).bigint().toString()).toBe(hash);
  });
});
