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

/** A number as the 64-bit integer that is hashed: cut towards zero, and to the range of a long; NaN is 0. */
function asLong(value: Value): bigint {
  if (value.type === bsonType.int || value.type === bsonType.long) return value.bigint();
  let n = value.number();
  if (value.type === bsonType.decimal) {
    const text = String(value.js());
    if (/^-?\d+(\.\d*)?$/.test(text)) return clampLong(BigInt(text.split(".")[0] ?? "0"));
    n = Number(text);
  }
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
