/**
 * BSON comparison order: MinKey, undefined and null, numbers by value, strings, objects, arrays, binary data, ObjectId,
 * bool, date, timestamp, regex, DBPointer, code, code with scope, MaxKey. Strings compare as bytes (simple collation).
 */
import { bsonType, type Doc, type Value } from "./document.ts";

const order: Readonly<Record<number, number>> = {
  [bsonType.minKey]: -1,
  [bsonType.undefined]: 0,
  [bsonType.null]: 5,
  [bsonType.double]: 10,
  [bsonType.int]: 10,
  [bsonType.long]: 10,
  [bsonType.decimal]: 10,
  [bsonType.string]: 15,
  [bsonType.symbol]: 15,
  [bsonType.object]: 20,
  [bsonType.array]: 25,
  [bsonType.binData]: 30,
  [bsonType.objectId]: 35,
  [bsonType.bool]: 40,
  [bsonType.date]: 45,
  [bsonType.timestamp]: 47,
  [bsonType.regex]: 50,
  [bsonType.dbPointer]: 55,
  [bsonType.code]: 60,
  [bsonType.codeWithScope]: 65,
  [bsonType.maxKey]: 127,
};

/** Rank of a value's type: values of different rank never compare equal. */
export function canonicalType(type: number): number {
  return order[type] ?? 100;
}

const sign = (n: number | bigint): number => (n < 0 ? -1 : n > 0 ? 1 : 0);

/** Compares numbers: NaN is lowest, and equal to NaN; -0 equals 0. */
function compareDoubles(a: number, b: number): number {
  if (a < b) return -1;
  if (a > b) return 1;
  if (a === b) return 0;
  return Number.isNaN(a) ? (Number.isNaN(b) ? 0 : -1) : 1;
}

function compareLongDouble(a: bigint, b: number): number {
  if (Number.isNaN(b)) return 1;
  if (b >= 2 ** 63) return -1;
  if (b < -(2 ** 63)) return 1;
  const whole = BigInt(Math.trunc(b));
  if (a !== whole) return a < whole ? -1 : 1;
  return sign(Math.trunc(b) - b);
}

/** A decimal as exact fraction of ten: digits times ten to the exponent, or an IEEE special. */
type Exact = { readonly digits: bigint; readonly exponent: number } | number;

function exact(value: Value): Exact {
  switch (value.type) {
    case bsonType.int:
    case bsonType.long:
      return { digits: value.bigint(), exponent: 0 };
    case bsonType.double: {
      const n = value.number();
      if (!Number.isFinite(n)) return n;
      // A double is m * 2^e exactly; with e < 0 that is m * 5^-e * 10^e.
      let exponent = 0;
      let m = n;
      while (!Number.isInteger(m)) {
        m *= 2;
        exponent--;
      }
      return { digits: BigInt(m) * 5n ** BigInt(-exponent), exponent };
    }
    default: {
      const text = String(value.js());
      if (text === "NaN") return Number.NaN;
      if (text.endsWith("Infinity")) return text.startsWith("-") ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
      const [mantissa = "0", power = "0"] = text.toUpperCase().split("E");
      const [whole = "0", fraction = ""] = mantissa.split(".");
      return { digits: BigInt(whole + fraction), exponent: Number(power) - fraction.length };
    }
  }
}

function compareExact(a: Exact, b: Exact): number {
  if (typeof a === "number" || typeof b === "number") {
    const approx = (x: Exact): number => (typeof x === "number" ? x : 0);
    return compareDoubles(approx(a), approx(b));
  }
  if (a.digits === 0n || b.digits === 0n || a.digits < 0n !== b.digits < 0n) return sign(a.digits - b.digits);
  const shift = Math.min(a.exponent, b.exponent);
  // Exponents of decimals reach 6144: compare magnitudes before building such powers.
  const size = (x: { digits: bigint; exponent: number }): number =>
    (x.digits < 0n ? -x.digits : x.digits).toString().length + x.exponent;
  if (size(a) !== size(b)) return size(a) < size(b) === a.digits > 0n ? -1 : 1;
  return sign(a.digits * 10n ** BigInt(a.exponent - shift) - b.digits * 10n ** BigInt(b.exponent - shift));
}

function compareNumbers(a: Value, b: Value): number {
  const { type: ta } = a;
  const { type: tb } = b;
  if (ta === bsonType.decimal || tb === bsonType.decimal) return compareExact(exact(a), exact(b));
  if (ta === bsonType.long || tb === bsonType.long) {
    if (ta === bsonType.double) return -compareLongDouble(b.bigint(), a.number());
    if (tb === bsonType.double) return compareLongDouble(a.bigint(), b.number());
    return sign(a.bigint() - b.bigint());
  }
  return compareDoubles(a.number(), b.number());
}

function compareBytes(a: Value, aStart: number, aEnd: number, b: Value, bStart: number, bEnd: number): number {
  return sign(a.bytes.compare(b.bytes, bStart, bEnd, aStart, aEnd));
}

/** Compares two values in BSON order: negative, 0 or positive. Field names of nested documents count. */
export function compareValues(a: Value, b: Value): number {
  const byType = canonicalType(a.type) - canonicalType(b.type);
  if (byType !== 0) return sign(byType);
  switch (a.type) {
    case bsonType.double:
    case bsonType.int:
    case bsonType.long:
    case bsonType.decimal:
      return compareNumbers(a, b);
    case bsonType.string:
    case bsonType.symbol:
    case bsonType.code:
      return compareBytes(a, a.start + 4, a.end - 1, b, b.start + 4, b.end - 1);
    case bsonType.object:
    case bsonType.array:
      return compareDocs(a.doc(), b.doc(), a.type === bsonType.object);
    case bsonType.binData: {
      const length = a.end - a.start - (b.end - b.start);
      return length !== 0 ? sign(length) : compareBytes(a, a.start + 4, a.end, b, b.start + 4, b.end);
    }
    case bsonType.bool:
      return (a.bytes[a.start] as number) - (b.bytes[b.start] as number);
    case bsonType.date:
      return sign(a.bigint() - b.bigint());
    case bsonType.timestamp:
      return sign(a.bytes.readBigUInt64LE(a.start) - b.bytes.readBigUInt64LE(b.start));
    case bsonType.objectId:
    case bsonType.regex:
    case bsonType.dbPointer:
    case bsonType.codeWithScope:
      return compareBytes(a, a.start, a.end, b, b.start, b.end);
    default:
      return 0;
  }
}

/** Compares documents field by field: type, then name, then value; a prefix comes first. */
export function compareDocs(a: Doc, b: Doc, withNames = true): number {
  const left = a.elements();
  const right = b.elements();
  for (let i = 0; ; i++) {
    const x = left[i];
    const y = right[i];
    if (x === undefined || y === undefined) return x === y ? 0 : x === undefined ? -1 : 1;
    const byType = canonicalType(x.type) - canonicalType(y.type);
    if (byType !== 0) return sign(byType);
    if (withNames && x.name !== y.name) return Buffer.compare(Buffer.from(x.name), Buffer.from(y.name));
    const byValue = compareValues(x, y);
    if (byValue !== 0) return byValue;
  }
}

/** Compares key tuples from left to right; directions of -1 turn a field's order. */
export function compareKeys(a: readonly Value[], b: readonly Value[], directions?: readonly number[]): number {
  for (let i = 0; i < a.length; i++) {
    const x = a[i];
    const y = b[i];
    if (x === undefined || y === undefined) return x === y ? 0 : x === undefined ? -1 : 1;
    const result = compareValues(x, y);
    if (result !== 0) return (directions?.[i] ?? 1) < 0 ? -result : result;
  }
  return 0;
}
