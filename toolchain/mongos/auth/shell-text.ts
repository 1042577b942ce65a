/** Documents as the server prints them in messages: `{ find: "a", filter: { k: 1.0 }, $db: "x" }`. */
import { bsonType, type Doc, type Element, type Value } from "../bson/document.ts";

/** Fields that no message may show. */
const secret: ReadonlySet<string> = new Set(["pwd", "password", "payload", "key", "nonce"]);

/** Longest text of a command in a message, in characters. */
const LONGEST = 2_000;

function field(element: Element): string {
  const hidden = element.type !== bsonType.object && secret.has(element.name);
  return `${element.name}: ${hidden ? '"xxx"' : valueText(element)}`;
}

function valueText(value: Value): string {
  switch (value.type) {
    case bsonType.string:
      return JSON.stringify(value.text());
    case bsonType.double: {
      const n = value.number();
      return Number.isInteger(n) && Math.abs(n) < 1e21
        ? `${n}.0`
        : String(n).replace("Infinity", "inf").replace("NaN", "nan");
    }
    case bsonType.int:
      return String(value.number());
    case bsonType.long:
      return String(value.bigint());
    case bsonType.bool:
      return String(value.truthy());
    case bsonType.null:
      return "null";
    case bsonType.undefined:
      return "undefined";
    case bsonType.minKey:
      return "MinKey";
    case bsonType.maxKey:
      return "MaxKey";
    case bsonType.object:
      return documentText(value.doc());
    case bsonType.array: {
      const items = value.items();
      return items.length === 0 ? "[]" : `[ ${items.map(valueText).join(", ")} ]`;
    }
    case bsonType.objectId:
      return `ObjectId('${value.bytes.toString("hex", value.start, value.end)}')`;
    case bsonType.date:
      return `new Date(${value.bigint()})`;
    case bsonType.timestamp: {
      const raw = value.bytes.readBigUInt64LE(value.start);
      return `Timestamp(${raw >> 32n}, ${raw & 0xffffffffn})`;
    }
    case bsonType.decimal:
      return `NumberDecimal('${String(value.js())}')`;
    case bsonType.binData: {
      const subtype = value.bytes[value.start + 4] ?? 0;
      const hex = value.bytes.toString("hex", value.start + 5, value.end);
      if (subtype !== 4) return `BinData(${subtype}, ${hex.toUpperCase()})`;
      return `UUID("${hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")}")`;
    }
    default:
      return JSON.stringify(value.js()) ?? "";
  }
}

function documentText(doc: Doc): string {
  const fields = doc.elements();
  return fields.length === 0 ? "{}" : `{ ${fields.map(field).join(", ")} }`;
}

/** A command's text without secrets, cut when it is very long. */
export function shellText(doc: Doc): string {
  const text = documentText(doc);
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}... }` : text;
}
