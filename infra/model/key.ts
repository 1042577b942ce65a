/** Shard keys and index keys: an ordered list of fields. */
import { AlfabravoError, type Problem } from "./problem.ts";
import type { KeyPart } from "./state.ts";

export type KeyKind = KeyPart["kind"];

/**
 * A key as people write it, `{ datacenter: 1, userid: 1 }`, or as a list of parts where the order of fields matters
 * and a field's name looks like a whole number (JavaScript objects move such names to the front).
 */
export type KeyInput = Readonly<Record<string, Exclude<KeyKind, "wildcard">>> | readonly KeyPart[];

const INTEGER_LIKE = /^(0|[1-9]\d*)$/;

/** Whether a JavaScript object would move this field to the front. */
export function isIntegerLike(field: string): boolean {
  return INTEGER_LIKE.test(field) && Number(field) < 2 ** 32 - 1;
}

/** The ordered parts of a key, and what is wrong with the way it was written. */
export function readKey(input: KeyInput, path: string): { parts: KeyPart[]; problems: Problem[] } {
  if (Array.isArray(input)) {
    const parts = (input as readonly KeyPart[]).map(({ field, kind }) => ({ field, kind }));
    const problems = parts
      .filter((part, index) => parts.findIndex((other) => other.field === part.field) !== index)
      .map((part) => ({
        path,
        message: `the field ${part.field} appears twice`,
        rule: "a key names each field once",
        fix: "remove one of them",
      }));
    return { parts, problems };
  }
  const fields = Object.entries(input as Record<string, KeyKind>);
  const parts = fields.map(
    ([field, kind]): KeyPart => (field.includes("$**") ? { field, kind: "wildcard" } : { field, kind }),
  );
  const problems = fields
    .filter(([field]) => fields.length > 1 && isIntegerLike(field))
    .map(([field]) => ({
      path: `${path}.${field}`,
      message: `the order of the field "${field}" cannot be told`,
      rule: "JavaScript moves names that look like whole numbers to the front of an object, and the order of fields is part of a key",
      fix: `write the key as a list: [{ field: "${field}", kind: 1 }, …]`,
    }));
  return { parts, problems };
}

/**
 * The ordered parts of a key.
 * @throws AlfabravoError when the order of its fields cannot be told, or a field appears twice.
 */
export function keyParts(input: KeyInput): KeyPart[] {
  const { parts, problems } = readKey(input, "key");
  const [first] = problems;
  if (first) throw new AlfabravoError(first.message, { where: first.path, ...(first.fix && { next: first.fix }) });
  return parts;
}

/** A key as the server takes it. A Map, so that no field changes its place; the driver sends it as a document. */
export function keyDocument(parts: readonly KeyPart[]): Map<string, 1 | -1 | string> {
  return new Map(parts.map(({ field, kind }) => [field, kind === "wildcard" ? 1 : kind]));
}

/**
 * The parts of a key as the server shows it, in any numeric type. Kinds that the project does not know stay as they are
 * written, so that they never compare equal to one that it does.
 */
export function partsFromDocument(
  document: Iterable<[string, unknown]> | Readonly<Record<string, unknown>>,
): KeyPart[] {
  const entries =
    Symbol.iterator in document ? [...(document as Iterable<[string, unknown]>)] : Object.entries(document);
  return entries.map(([field, value]): KeyPart => {
    if (field === "$**" || field.endsWith(".$**")) return { field, kind: "wildcard" };
    if (typeof value === "string") return { field, kind: value as KeyKind };
    return { field, kind: Number(value) < 0 ? -1 : 1 };
  });
}

/** A key for people: `{ datacenter: 1, userid: 1 }`. */
export function keyText(parts: readonly KeyPart[]): string {
  if (parts.length === 0) return "(not sharded)";
  const name = (field: string) => (/^[A-Za-z_]\w*$/.test(field) ? field : JSON.stringify(field));
  const kind = (part: KeyPart) =>
    part.kind === "wildcard" ? 1 : typeof part.kind === "number" ? part.kind : `"${part.kind}"`;
  return `{ ${parts.map((part) => `${name(part.field)}: ${kind(part)}`).join(", ")} }`;
}

/** The name that the server gives an index: `datacenter_1_userid_1`. */
export function defaultIndexName(parts: readonly KeyPart[]): string {
  return parts.map((part) => `${part.field}_${part.kind === "wildcard" ? 1 : part.kind}`).join("_");
}

/** Whether two keys are the same, order included. */
export function sameKey(a: readonly KeyPart[], b: readonly KeyPart[]): boolean {
  return a.length === b.length && isKeyPrefix(a, b);
}

/** Whether `prefix` begins `key`, field by field and kind by kind. */
export function isKeyPrefix(prefix: readonly KeyPart[], key: readonly KeyPart[]): boolean {
  return (
    prefix.length <= key.length &&
    prefix.every((part, index) => key[index]?.field === part.field && key[index]?.kind === part.kind)
  );
}

/**
 * Whether an index can enforce uniqueness over all shards: it begins with the whole shard key (U2), or it is on `_id`
 * alone, which holds over all shards only when `_id` begins the shard key.
 */
export function uniqueIndexFits(shardKey: readonly KeyPart[], indexKey: readonly KeyPart[]): boolean {
  return isKeyPrefix(shardKey, indexKey);
}

/** What is wrong with a shard key, as the server would say on `shardCollection`. */
export function shardKeyProblems(parts: readonly KeyPart[], unique: boolean, path: string): Problem[] {
  const problems: Problem[] = [];
  if (parts.length === 0) {
    problems.push({
      path,
      message: "the shard key has no field",
      rule: "a shard key has at least one field",
      fix: "name one, for example { userid: 1 }",
    });
  }
  for (const { field, kind } of parts) {
    if (kind !== 1 && kind !== "hashed") {
      problems.push({
        path: `${path}.${field}`,
        message: `${kind === "wildcard" ? "a wildcard" : JSON.stringify(kind)} cannot be part of a shard key`,
        rule: 'a field of a shard key is 1 (ranged) or "hashed"',
        fix: 'use 1 or "hashed"',
      });
    }
    if (field === "" || field.startsWith("$") || field.split(".").includes("")) {
      problems.push({
        path: `${path}.${field}`,
        message: `"${field}" is not a field name that a shard key can have`,
        rule: "names in a shard key are not empty, do not begin with $ and have no empty part between dots",
        fix: "name a field of the documents",
      });
    }
  }
  const hashed = parts.filter((part) => part.kind === "hashed");
  if (hashed.length > 1) {
    problems.push({
      path,
      message: `${hashed.map((part) => part.field).join(" and ")} are both hashed`,
      rule: "a shard key has at most one hashed field",
      fix: "keep one of them hashed",
    });
  }
  if (unique && hashed.length > 0) {
    problems.push({
      path,
      message: `a key with the hashed field ${hashed[0]?.field} cannot be unique`,
      rule: "the server refuses uniqueness on a hashed index (U2)",
      fix: "make the key ranged, or drop unique and guard the field with a proxy collection",
    });
  }
  return problems;
}
