/** Shard key patterns, and the key of a document. Pure. */
import { bsonType, type Doc, Value } from "../bson/document.ts";
import { hashValue } from "../bson/hash.ts";
import { CommandError, errorCode } from "../errors.ts";

export interface ShardKeyField {
  readonly path: string;
  readonly hashed: boolean;
}

export interface ShardKey {
  readonly fields: readonly ShardKeyField[];
  readonly pattern: Doc;
  readonly hashed: boolean;
}

const parsed = new WeakMap<Doc, ShardKey>();

export function parseShardKey(pattern: Doc): ShardKey {
  let key = parsed.get(pattern);
  if (key === undefined) {
    const fields = pattern.elements().map((element) => ({
      path: element.name,
      hashed: element.type === bsonType.string && element.text() === "hashed",
    }));
    key = { fields, pattern, hashed: fields.some((field) => field.hashed) };
    parsed.set(pattern, key);
  }
  return key;
}

/** Value at a path of a document, or `array` when an array is in the way or is the value. */
function extract(doc: Doc, path: string): Value | "array" | undefined {
  const dot = path.indexOf(".");
  if (dot < 0) {
    const value = doc.find(path);
    return value?.isArray() ? "array" : value;
  }
  const head = doc.find(path.slice(0, dot));
  if (head === undefined) return undefined;
  if (head.isArray()) return "array";
  return head.isObject() ? extract(head.doc(), path.slice(dot + 1)) : undefined;
}

/** The stored form of a key value: hashed fields hold the hash. */
export function keyValue(field: ShardKeyField, value: Value): Value {
  return field.hashed ? hashValue(value) : value;
}

/**
 * Key of a document; a missing field counts as null. ShardKeyNotFound (61) when a key field holds an array (the server
 * keeps arrays out of shard keys).
 */
export function keyOfDocument(key: ShardKey, doc: Doc): Value[] {
  return key.fields.map((field) => {
    const value = extract(doc, field.path);
    if (value === "array")
      throw new CommandError(
        errorCode.ShardKeyNotFound,
        `Shard key cannot contain array values or array descendants: field ${field.path} of ${key.pattern}`,
      );
    return keyValue(field, value ?? Value.null);
  });
}
