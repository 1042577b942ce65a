/**
 * BSON documents as canonical text, and the order in which the server sorts BSON values.
 *
 * Zone range bounds, collations and partial filters cross process boundaries and lie in Pulumi's state as text. The
 * server compares numbers by value, whatever their type: 1, 1.0, NumberLong(1) and NumberDecimal("1.00") are one key
 * value. So the canonical text writes every number in one form, the smallest type that holds it exactly, and two
 * documents that the server treats as the same have the same text.
 */
import {
  Binary,
  BSONRegExp,
  Decimal128,
  type Document,
  Double,
  EJSON,
  Int32,
  Long,
  MaxKey,
  MinKey,
  type ObjectId,
  type Timestamp,
} from "bson";
import { Memo } from "./memo.ts";
import { AlfabravoError } from "./problem.ts";
import type { BsonText } from "./state.ts";

/** The types in the server's order; types of one rank compare with each other by value. */
const RANKS = {
  minKey: 0,
  null: 1,
  number: 2,
  string: 3,
  object: 4,
  array: 5,
  binData: 6,
  objectId: 7,
  bool: 8,
  date: 9,
  timestamp: 10,
  regex: 11,
  dbPointer: 12,
  code: 13,
  codeWithScope: 14,
  maxKey: 15,
} as const;

/** A BSON type by the server's alias; int, long, double and decimal are all `number`, symbol is `string`. */
export type BsonType = keyof typeof RANKS;

/** The BSON type of a value as the driver or a declaration holds it. `undefined` counts as null, as the driver sends it. */
export function bsonTypeOf(value: unknown): BsonType {
  if (value === null || value === undefined) return "null";
  switch (typeof value) {
    case "number":
    case "bigint":
      return "number";
    case "string":
      return "string";
    case "boolean":
      return "bool";
    case "object":
      break;
    default:
      throw new AlfabravoError(`a ${typeof value} is not a BSON value`, { next: "use a value that BSON can hold" });
  }
  if (Array.isArray(value)) return "array";
  if (value instanceof Date) return "date";
  if (value instanceof RegExp) return "regex";
  if (value instanceof Uint8Array) return "binData";
  switch ((value as { _bsontype?: unknown })._bsontype) {
    case "MinKey":
      return "minKey";
    case "MaxKey":
      return "maxKey";
    case "Int32":
    case "Double":
    case "Long":
    case "Decimal128":
      return "number";
    case "BSONSymbol":
      return "string";
    case "Binary":
      return "binData";
    case "ObjectId":
      return "objectId";
    case "Timestamp":
      return "timestamp";
    case "BSONRegExp":
      return "regex";
    case "Code":
      return (value as { scope?: unknown }).scope ? "codeWithScope" : "code";
    default:
      return "object";
  }
}

/** Fields in their order. A DBRef is an ordinary document for the server. */
function entriesOf(value: unknown): [string, unknown][] {
  if (value instanceof Map) return [...(value as Map<string, unknown>)];
  const document = value as Record<string, unknown> & { _bsontype?: unknown };
  if (document._bsontype === "DBRef") {
    const { collection, oid, db, fields } = value as {
      collection: string;
      oid: unknown;
      db?: string;
      fields?: Record<string, unknown>;
    };
    return [
      ["$ref", collection],
      ["$id", oid],
      ...(db ? ([["$db", db]] as [string, unknown][]) : []),
      ...Object.entries(fields ?? {}),
    ];
  }
  return Object.entries(document);
}

/** A number without rounding: `digits * 10^exponent`, `digits` without trailing zeros. */
interface ExactNumber {
  readonly digits: bigint;
  readonly exponent: number;
}

type NumberValue = "nan" | "infinity" | "-infinity" | ExactNumber;

function stripZeros(digits: bigint, exponent: number): ExactNumber {
  if (digits === 0n) return { digits, exponent: 0 }; // -0 and 0 are one key value
  let [d, e] = [digits, exponent];
  while (d % 10n === 0n) {
    d /= 10n;
    e += 1;
  }
  return { digits: d, exponent: e };
}

function exactOfDouble(value: number): NumberValue {
  if (Number.isNaN(value)) return "nan";
  if (value === Number.POSITIVE_INFINITY) return "infinity";
  if (value === Number.NEGATIVE_INFINITY) return "-infinity";
  // Every double is a whole number divided by a power of two, and 2^-k is 5^k * 10^-k: no rounding anywhere.
  let [whole, halvings] = [value, 0];
  while (!Number.isInteger(whole)) {
    whole *= 2;
    halvings += 1;
  }
  return stripZeros(BigInt(whole) * 5n ** BigInt(halvings), -halvings);
}

function exactOfDecimal(text: string): NumberValue {
  if (text === "NaN") return "nan";
  if (text === "Infinity") return "infinity";
  if (text === "-Infinity") return "-infinity";
  const match = /^(-?)(\d+)(?:\.(\d*))?(?:E([+-]?\d+))?$/i.exec(text);
  if (!match) throw new AlfabravoError(`${text} is not a decimal number`);
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = match;
  return stripZeros(BigInt(`${sign}${whole}${fraction}`), Number(exponent) - fraction.length);
}

function exactOf(value: unknown): NumberValue {
  if (typeof value === "number") return exactOfDouble(value);
  if (typeof value === "bigint") return stripZeros(value, 0);
  const bson = value as { _bsontype: string; value?: number; toString(): string };
  switch (bson._bsontype) {
    case "Int32":
    case "Double":
      return exactOfDouble(Number(bson.value));
    case "Long":
      return stripZeros(BigInt(bson.toString()), 0);
    default:
      return exactOfDecimal(bson.toString());
  }
}

const INT32 = 2n ** 31n;
const INT64 = 2n ** 63n;

function canonicalNumber(value: unknown): Int32 | Long | Double | Decimal128 {
  const exact = exactOf(value);
  if (exact === "nan") return new Double(Number.NaN);
  if (exact === "infinity") return new Double(Number.POSITIVE_INFINITY);
  if (exact === "-infinity") return new Double(Number.NEGATIVE_INFINITY);
  const { digits, exponent } = exact;
  if (exponent >= 0 && exponent < 20) {
    const whole = digits * 10n ** BigInt(exponent);
    if (whole >= -INT32 && whole < INT32) return new Int32(Number(whole));
    if (whole >= -INT64 && whole < INT64) return Long.fromBigInt(whole);
  }
  const double = Number(`${digits}e${exponent}`);
  if (Number.isFinite(double)) {
    const back = exactOfDouble(double) as ExactNumber;
    if (back.digits === digits && back.exponent === exponent) return new Double(double);
  }
  return Decimal128.fromString(`${digits}E${exponent}`);
}

function canonicalValue(value: unknown): unknown {
  switch (bsonTypeOf(value)) {
    case "null":
      return null;
    case "number":
      return canonicalNumber(value);
    case "array":
      return (value as unknown[]).map(canonicalValue);
    case "object":
      return Object.fromEntries(entriesOf(value).map(([field, inner]) => [field, canonicalValue(inner)]));
    case "string":
      return String(typeof value === "string" ? value : (value as { value: string }).value);
    case "binData":
      return (value as { _bsontype?: string })._bsontype === "Binary"
        ? new Binary((value as Binary).buffer.subarray(0, (value as Binary).position), (value as Binary).sub_type)
        : new Binary(value as Uint8Array);
    case "regex":
      return value instanceof RegExp ? new BSONRegExp(value.source, value.flags.replace(/[^imsx]/g, "")) : value;
    default:
      return value;
  }
}

/**
 * The canonical text of a document: canonical Extended JSON, each number in the smallest type that holds it exactly.
 * @throws AlfabravoError when a value is not BSON (a function, a JavaScript symbol).
 */
export function toBsonText(document: Document | ReadonlyMap<string, unknown>): BsonText {
  return write(document);
}

/**
 * Written by hand for what bounds are made of, because comparing thousands of zone ranges is mostly this; the rest is
 * left to the BSON library. A test holds both to the same text.
 */
function write(value: unknown): string {
  switch (bsonTypeOf(value)) {
    case "string":
      return JSON.stringify(canonicalValue(value));
    case "minKey":
      return '{"$minKey":1}';
    case "maxKey":
      return '{"$maxKey":1}';
    case "null":
      return "null";
    case "bool":
      return String(value);
    case "number": {
      const number = typeof value === "number" && Number.isInteger(value) ? value : undefined;
      if (number !== undefined && number >= -(2 ** 31) && number < 2 ** 31) {
        return `{"$numberInt":"${number === 0 ? 0 : number}"}`;
      }
      return EJSON.stringify(canonicalNumber(value), { relaxed: false });
    }
    case "objectId":
      return `{"$oid":"${(value as ObjectId).toHexString()}"}`;
    case "array":
      return `[${(value as unknown[]).map(write).join(",")}]`;
    case "object":
      return `{${entriesOf(value)
        .map(([field, inner]) => `${JSON.stringify(field)}:${write(inner)}`)
        .join(",")}}`;
    default:
      return EJSON.stringify(canonicalValue(value), { relaxed: false });
  }
}

const parsedTexts = new Memo<Document>();
const canonicalTexts = new Memo<BsonText>();

/** The document of a text for reading only: it is shared. */
function sharedDocument(text: BsonText): Readonly<Document> {
  return parsedTexts.get(text, () => fromBsonText(text));
}

/**
 * The document that a text stands for, with BSON types (Int32, Long, MinKey, ObjectId …) in place.
 * @throws AlfabravoError when the text is not Extended JSON of a document.
 */
export function fromBsonText(text: BsonText): Document {
  let parsed: unknown;
  try {
    parsed = EJSON.parse(text, { relaxed: false });
  } catch (cause) {
    throw new AlfabravoError(`not Extended JSON: ${text}`, {
      next: 'write a document as Extended JSON, for example {"datacenter":"alfa","userid":{"$minKey":1}}',
      cause,
    });
  }
  if (bsonTypeOf(parsed) !== "object") {
    throw new AlfabravoError(`not a document: ${text}`, { next: 'write a document, for example {"userid":1}' });
  }
  return parsed as Document;
}

/** The canonical form of a text that a user or a server wrote in any form of Extended JSON. */
export function canonicalBsonText(text: BsonText): BsonText {
  return canonicalTexts.get(text, () => toBsonText(sharedDocument(text)));
}

/** A single value as canonical text, for messages and identities. */
export function valueText(value: unknown): string {
  return write(value);
}

/** A document as a person would write it in mongosh: `{ datacenter: "alfa", userid: MinKey }`. For messages only. */
export function readableBson(text: BsonText): string {
  return readableValue(sharedDocument(text));
}

/** A value as a person would write it in mongosh. For messages only. */
export function readableValue(value: unknown): string {
  switch (bsonTypeOf(value)) {
    case "minKey":
      return "MinKey";
    case "maxKey":
      return "MaxKey";
    case "null":
      return "null";
    case "string":
      return JSON.stringify(canonicalValue(value));
    case "bool":
      return String(value);
    case "number": {
      const number = canonicalNumber(value);
      return number._bsontype === "Decimal128" ? `NumberDecimal("${number}")` : number.toString();
    }
    case "date":
      return `ISODate("${Number.isNaN((value as Date).getTime()) ? "invalid" : (value as Date).toISOString()}")`;
    case "objectId":
      return `ObjectId("${(value as ObjectId).toHexString()}")`;
    case "array":
      return `[${(value as unknown[]).map(readableValue).join(", ")}]`;
    case "object": {
      const fields = entriesOf(value).map(
        ([field, inner]) =>
          `${/^[A-Za-z_$][\w$]*$/.test(field) ? field : JSON.stringify(field)}: ${readableValue(inner)}`,
      );
      return fields.length === 0 ? "{}" : `{ ${fields.join(", ")} }`;
    }
    default:
      return valueText(value);
  }
}

/** Whether the server treats two documents as the same. */
export function sameBson(a: BsonText, b: BsonText): boolean {
  return a === b || canonicalBsonText(a) === canonicalBsonText(b);
}

/** Compares two documents in the server's order: negative, 0 or positive. */
export function compareBson(a: BsonText, b: BsonText): number {
  return a === b ? 0 : compareValues(sharedDocument(a), sharedDocument(b));
}

/**
 * Compares two values in the server's order: MinKey < null < numbers < string < object < array < binData < objectId
 * < bool < date < timestamp < regex < MaxKey. NaN is the smallest number; -0 equals 0; numbers compare by exact value.
 */
export function compareValues(a: unknown, b: unknown): number {
  const [typeA, typeB] = [bsonTypeOf(a), bsonTypeOf(b)];
  if (typeA !== typeB) return RANKS[typeA] - RANKS[typeB];
  switch (typeA) {
    case "minKey":
    case "maxKey":
    case "null":
      return 0;
    case "number":
      return compareNumbers(exactOf(a), exactOf(b));
    case "string":
      return compareStrings(canonicalValue(a) as string, canonicalValue(b) as string);
    case "object":
      return compareEntries(entriesOf(a), entriesOf(b));
    case "array":
      return compareEntries(Object.entries(a as unknown[]), Object.entries(b as unknown[]));
    case "binData": {
      const [x, y] = [canonicalValue(a) as Binary, canonicalValue(b) as Binary];
      return x.length() - y.length() || x.sub_type - y.sub_type || Buffer.compare(x.buffer, y.buffer);
    }
    case "objectId":
      return Buffer.compare((a as ObjectId).id, (b as ObjectId).id);
    case "bool":
      return Number(a) - Number(b);
    case "date":
      return Math.sign((a as Date).getTime() - (b as Date).getTime());
    case "timestamp":
      return Math.sign((a as Timestamp).t - (b as Timestamp).t || (a as Timestamp).i - (b as Timestamp).i);
    case "regex": {
      const [x, y] = [canonicalValue(a) as BSONRegExp, canonicalValue(b) as BSONRegExp];
      return compareStrings(x.pattern, y.pattern) || compareStrings(x.options, y.options);
    }
    default:
      return compareStrings(valueText(a), valueText(b));
  }
}

/** The server compares the bytes of UTF-8, which is the order of code points, not of UTF-16 units. */
function compareStrings(a: string, b: string): number {
  return a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b));
}

function compareNumbers(a: NumberValue, b: NumberValue): number {
  const rank = (n: NumberValue) => (n === "nan" ? 0 : n === "-infinity" ? 1 : n === "infinity" ? 3 : 2);
  if (typeof a !== "object" || typeof b !== "object") return rank(a) - rank(b);
  const exponent = Math.min(a.exponent, b.exponent);
  const [x, y] = [a.digits * 10n ** BigInt(a.exponent - exponent), b.digits * 10n ** BigInt(b.exponent - exponent)];
  return x < y ? -1 : x > y ? 1 : 0;
}

/** Field by field: type, then name, then value; the document that ends first is the smaller one. */
function compareEntries(a: [string, unknown][], b: [string, unknown][]): number {
  for (const [index, [fieldA, valueA]] of a.entries()) {
    const other = b[index];
    if (other === undefined) return 1;
    const [fieldB, valueB] = other;
    const order =
      RANKS[bsonTypeOf(valueA)] - RANKS[bsonTypeOf(valueB)] ||
      compareStrings(fieldA, fieldB) ||
      compareValues(valueA, valueB);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

/** The bounds of everything, for declarations that need no import of `bson`. */
export const MIN_KEY: MinKey = new MinKey();
export const MAX_KEY: MaxKey = new MaxKey();
