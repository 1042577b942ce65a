/**
 * The hash of hashed indexes and hashed shard keys: MD5 over seed, canonical type, value and (for nested documents) field
 * names; its first eight bytes are a long. Numbers are first made 64-bit integers, so 1, 1.0 and 1.5 hash alike.
 */
import { createHash, type Hash } from "node:crypto";
import { canonicalType } from "./compare.ts";
import { bsonType, Value } from "./document.ts";

function int32(n: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeInt32LE(n);
  return bytes;
}

/** A decimal's text as a whole number, halves to the even neighbour; undefined for NaN and Infinity. */
function roundDecimal(text: string): bigint | undefined {
  const match = /^(-?)(\d+)(?:\.(\d*))?(?:E([+-]?\d+))?$/.exec(text);
  if (match === null) return undefined;
  const [, minus = "", whole = "0", fraction = "", power = "0"] = match;
  const digits = BigInt(whole + fraction);
  const exponent = Number(power) - fraction.length;
  const signed = (n: bigint): bigint => (minus === "-" ? -n : n);
  if (digits === 0n) return 0n;
  // Far outside the range of a long (whose 19 digits end it) the exact value does not matter.
  if (exponent > 20) return signed(2n ** 70n);
  if (exponent >= 0) return signed(digits * 10n ** BigInt(exponent));
  if (exponent < -60) return 0n;
  const unit = 10n ** BigInt(-exponent);
  const quotient = digits / unit;
  const twice = (digits % unit) * 2n;
  const up = twice > unit || (twice === unit && quotient % 2n === 1n);
  return signed(up ? quotient + 1n : quotient);
}

/**
 * A number as the 64-bit integer that is hashed: doubles are cut towards zero, decimals rounded, both kept in the range of
 * a long; NaN is 0.
 */
function asLong(value: Value): bigint {
  if (value.type === bsonType.int || value.type === bsonType.long) return value.bigint();
  if (value.type === bsonType.decimal) {
    const rounded = roundDecimal(String(value.js()));
    if (rounded !== undefined) return clampLong(rounded);
  }
  const n = value.number();
  if (Number.isNaN(n)) return 0n;
  if (n >= 2 ** 63) return 2n ** 63n - 1n;
  if (n < -(2 ** 63)) return -(2n ** 63n);
  return BigInt(Math.trunc(n));
}

function clampLong(n: bigint): bigint {
  const high = 2n ** 63n - 1n;
  const low = -(2n ** 63n);
  return n > high ? high : n < low ? low : n;
}

function update(hash: Hash, value: Value, name: string | undefined): void {
  hash.update(int32(canonicalType(value.type)));
  if (name !== undefined) hash.update(`${name}\0`);
  if (value.isNumber()) {
    const bytes = Buffer.allocUnsafe(8);
    bytes.writeBigInt64LE(asLong(value));
    hash.update(bytes);
  } else if (value.type === bsonType.object || value.type === bsonType.array) {
    for (const element of value.doc().elements()) update(hash, element, element.name);
    // The end of the document counts as an element of type 0 without a name.
    hash.update(int32(0));
  } else hash.update(value.bytes.subarray(value.start, value.end));
}

/** Hash of a value as a long. */
export function hashValue(value: Value): Value {
  const hash = createHash("md5");
  hash.update(int32(0));
  update(hash, value, undefined);
  return new Value(bsonType.long, hash.digest(), 0, 8);
}
