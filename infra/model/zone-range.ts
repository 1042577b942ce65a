/** Zone ranges (old name: tag ranges) of a sharded collection. */
import { type Document, Long, MaxKey, MinKey } from "bson";
import {
  type BsonType,
  bsonTypeOf,
  canonicalBsonText,
  compareBson,
  compareValues,
  fromBsonText,
  readableBson,
  readableValue,
  toBsonText,
} from "./bson-text.ts";
import { isIntegerLike, keyText } from "./key.ts";
import { Memo } from "./memo.ts";
import { AlfabravoError, type Problem } from "./problem.ts";
import type { BsonText, KeyPart, ZoneRange } from "./state.ts";

/** A bound as people write it: a document, or the same as Extended JSON text. */
export type BoundInput = Readonly<Record<string, unknown>> | BsonText;

/** A zone range as people write it; a bound may be a prefix of the shard key. */
export interface RangeInput {
  /** The zone that the documents from `min` to `max` belong to. */
  readonly zone: string;
  /** Inclusive. A prefix of the shard key is completed with MinKey, as the server does. */
  readonly min: BoundInput;
  /** Exclusive. A prefix is completed with MinKey as well: "up to bravo" leaves out bravo's own documents. */
  readonly max: BoundInput;
}

/** The values of a bound in the order of the key, completed with MinKey; or what is wrong with it. */
function boundValues(key: readonly KeyPart[], bound: Document): unknown[] | string {
  const fields = Object.keys(bound);
  const expected = key.map((part) => part.field);
  if (fields.length === 0) return "the bound has no field";
  // An object puts such names first whatever was written, so the order of the fields proves nothing.
  if (expected.length > 1 && expected.some(isIntegerLike)) {
    return "bounds of a key with a field name that looks like a whole number cannot keep their order";
  }
  if (fields.length > expected.length || fields.some((field, index) => field !== expected[index])) {
    return `the fields ${fields.join(", ")} are no prefix of the shard key ${keyText(key)}`;
  }
  const values = key.map((part) => (part.field in bound ? bound[part.field] : new MinKey()));
  for (const [index, part] of key.entries()) {
    if (part.kind !== "hashed") continue;
    const value = values[index];
    const type = bsonTypeOf(value);
    if (type !== "minKey" && type !== "maxKey" && !isWhole64(value)) {
      return `${part.field} is hashed, so its bound is a hash (a 64-bit whole number), MinKey or MaxKey, not ${readableValue(value)}`;
    }
  }
  return values;
}

function isWhole64(value: unknown): boolean {
  return bsonTypeOf(value) === "number" && /"\$number(Int|Long)"/.test(toBsonText({ value }));
}

function documentOf(key: readonly KeyPart[], values: readonly unknown[]): Document {
  return Object.fromEntries(key.map((part, index) => [part.field, values[index]]));
}

/** What is wrong with a bound for this key, or undefined. */
export function boundProblem(key: readonly KeyPart[], bound: BoundInput): string | undefined {
  try {
    const values = boundValues(key, typeof bound === "string" ? fromBsonText(bound) : readBound(bound));
    return typeof values === "string" ? values : undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Through text, so that `{ $minKey: 1 }` written by hand becomes MinKey. */
function readBound(bound: Readonly<Record<string, unknown>>): Document {
  return fromBsonText(toBsonText(bound));
}

/**
 * A bound in canonical form, completed to the whole shard key as the server completes it: with MinKey, at both ends.
 * @throws AlfabravoError when its fields are no prefix of the key.
 */
export function completeBound(key: readonly KeyPart[], bound: BoundInput): BsonText {
  if (typeof bound !== "string") return complete(key, bound);
  // Bounds as text come by the thousand, declared and observed, and mostly the same ones.
  return completeBounds.get(`${keyText(key)} ${bound}`, () => complete(key, bound));
}

const completeBounds = new Memo<BsonText>();

function complete(key: readonly KeyPart[], bound: BoundInput): BsonText {
  const values = boundValues(key, typeof bound === "string" ? fromBsonText(bound) : readBound(bound));
  if (typeof values === "string") {
    throw new AlfabravoError(values, {
      where: typeof bound === "string" ? bound : toBsonText(bound),
      next: `name the fields of ${keyText(key)} in that order, from the first on`,
    });
  }
  return toBsonText(documentOf(key, values));
}

/** A range in canonical form. @throws AlfabravoError when a bound does not fit the key. */
export function completeRange(key: readonly KeyPart[], range: RangeInput): ZoneRange {
  return { zone: range.zone, min: completeBound(key, range.min), max: completeBound(key, range.max) };
}

/**
 * A bound as `updateZoneKeyRange` takes it. The canonical text writes numbers in their smallest type, but the server
 * accepts only NumberLong for a hashed field.
 */
export function boundForServer(key: readonly KeyPart[], bound: BsonText): Document {
  const document = fromBsonText(bound);
  for (const { field, kind } of key) {
    if (kind === "hashed" && bsonTypeOf(document[field]) === "number") {
      document[field] = Long.fromString(String(document[field]));
    }
  }
  return document;
}

/** The ranges in canonical text, sorted by `min` in BSON order. */
export function sortRanges(ranges: readonly ZoneRange[]): ZoneRange[] {
  return ranges
    .map((range) => ({ ...range, min: canonicalBsonText(range.min), max: canonicalBsonText(range.max) }))
    .sort((a, b) => compareBson(a.min, b.min) || compareBson(a.max, b.max));
}

/** Whether two ranges share a key value. */
export function rangesOverlap(a: ZoneRange, b: ZoneRange): boolean {
  return compareBson(a.min, b.max) < 0 && compareBson(b.min, a.max) < 0;
}

/** Every pair of ranges that share a key value, by their positions in the list. */
export function overlappingPairs(ranges: readonly ZoneRange[]): [number, number][] {
  // Sorted by min, a range can only overlap those that begin before it ends: no need to look at all pairs.
  const sorted = ranges
    .map((range, index) => ({ index, min: range.min, max: range.max }))
    .sort((a, b) => compareBson(a.min, b.min));
  const pairs: [number, number][] = [];
  for (const [position, one] of sorted.entries()) {
    for (const other of sorted.slice(position + 1)) {
      if (compareBson(other.min, one.max) >= 0) break;
      if (compareBson(one.min, other.max) >= 0) continue; // an empty or reversed range shares nothing
      pairs.push(one.index < other.index ? [one.index, other.index] : [other.index, one.index]);
    }
  }
  return pairs.sort(([a, b], [c, d]) => a - c || b - d);
}

/** The zone that a shard key value belongs to, or undefined when no range holds it. */
export function zoneOf(ranges: readonly ZoneRange[], keyValue: BsonText): string | undefined {
  return ranges.find(({ min, max }) => compareBson(min, keyValue) <= 0 && compareBson(keyValue, max) < 0)?.zone;
}

/** Which value of the datacenter field belongs to which zone; a list when the values are not strings. */
export type DatacenterValues = Readonly<Record<string, string>> | readonly (readonly [value: unknown, zone: string])[];

/**
 * Zone ranges for a shard key that begins with the field that names the datacenter (M3), without gaps (M10).
 *
 * For each value there is the range `{value, MinKey}` to `{value, MaxKey}` in its zone. Those ranges alone leave
 * gaps, and a gap costs more than it seems. A query that names a datacenter asks for the keys from `{value, MinKey}`
 * to `{value, MaxKey}`, both inclusive, while a range ends before its `max`: the key `{value, MaxKey}` belongs to the
 * chunk that begins there. If no range owns that chunk it sits on any shard, and the query is sent to it as well.
 * So:
 * - What begins at `{value, MaxKey}`, up to the next value, belongs to the zone of `value`: the query stays at home.
 * - Beyond the last value, up to the end of the key space, the same: the zone of the last value.
 * - What lies below `{first value, MinKey}` is reached by no query that names a value, since chunks end before their
 *   `max`. It is given to the zone of the first value all the same: documents without the datacenter field live there
 *   (they count as null), and a known home is better than any shard.
 * Together they cover the whole key space without overlap.
 *
 * @param options.key The shard key; `field` must be its first field and not hashed.
 * @param options.values The zone of each value of the field.
 * @param options.field The field that names the datacenter. @default "datacenter"
 * @throws AlfabravoError when the key does not begin with the field, when a value appears twice, or when there is none.
 * @example rangesPerDatacenter({ key: keyParts({ datacenter: 1, userid: 1 }), values: { alfa: "alfa", bravo: "bravo" } })
 */
export function rangesPerDatacenter(options: {
  readonly key: readonly KeyPart[];
  readonly values: DatacenterValues;
  readonly field?: string | undefined;
}): ZoneRange[] {
  const { key, field = "datacenter" } = options;
  const [first, ...rest] = key;
  if (first?.field !== field || first.kind !== 1) {
    throw new AlfabravoError(`the shard key ${keyText(key)} does not begin with ${field}: 1`, {
      where: "key",
      next: `put ${field}: 1 first, or name another field`,
    });
  }
  const sorted = (Array.isArray(options.values) ? [...options.values] : Object.entries(options.values)) as [
    unknown,
    string,
  ][];
  sorted.sort(([a], [b]) => compareValues(a, b));
  const sameAsNext = sorted.find(([value], index) => {
    const next = sorted[index + 1];
    return next !== undefined && compareValues(value, next[0]) === 0;
  });
  if (sameAsNext) {
    throw new AlfabravoError(`the value ${readableValue(sameAsNext[0])} of ${field} appears twice`, {
      where: "values",
      next: "give each value one zone",
    });
  }
  const [lowest] = sorted;
  if (!lowest)
    throw new AlfabravoError(`no value of ${field} is given`, { where: "values", next: "give at least one" });
  const keyless = sorted.find(([value]) => ["minKey", "maxKey"].includes(bsonTypeOf(value)));
  if (keyless) {
    throw new AlfabravoError("MinKey and MaxKey are bounds, not values of a field", {
      where: "values",
      next: "give values that documents have",
    });
  }
  const at = (head: unknown, tail: unknown) => toBsonText(documentOf(key, [head, ...rest.map(() => tail)]));
  const [bottom, top] = [at(new MinKey(), new MinKey()), at(new MaxKey(), new MaxKey())];
  // A key of the one field alone: {value, MinKey} and {value, MaxKey} are both {value}, and the range of a value runs to the next one.
  if (rest.length === 0) {
    return [
      { zone: lowest[1], min: bottom, max: at(lowest[0], undefined) },
      ...sorted.map(([value, zone], index) => {
        const next = sorted[index + 1];
        return { zone, min: at(value, undefined), max: next ? at(next[0], undefined) : top };
      }),
    ];
  }
  return [
    { zone: lowest[1], min: bottom, max: at(lowest[0], new MinKey()) },
    ...sorted.flatMap(([value, zone], index) => {
      const next = sorted[index + 1];
      const [from, to] = [at(value, new MinKey()), at(value, new MaxKey())];
      return [
        { zone, min: from, max: to },
        { zone, min: to, max: next ? at(next[0], new MinKey()) : top },
      ];
    }),
  ];
}

/**
 * Zone ranges that cut the key space at given values of the key's first field: below the first value the first zone,
 * and so on; one zone more than values.
 * @throws AlfabravoError when the counts do not fit or the values do not ascend.
 * @example splitRanges({ key: keyParts({ userid: 1 }), at: [1_000_000_000], zones: ["alfa", "bravo"] })
 */
export function splitRanges(options: {
  readonly key: readonly KeyPart[];
  readonly at: readonly unknown[];
  readonly zones: readonly string[];
}): ZoneRange[] {
  const { key, at, zones } = options;
  const [first] = key;
  if (!first) throw new AlfabravoError("the key has no field", { where: "key", next: "name the shard key" });
  if (zones.length !== at.length + 1) {
    throw new AlfabravoError(`${at.length} cuts make ${at.length + 1} pieces, but ${zones.length} zones are named`, {
      where: "zones",
      next: "name one zone more than cuts",
    });
  }
  const cuts = [
    toBsonText(
      documentOf(
        key,
        key.map(() => new MinKey()),
      ),
    ),
    ...at.map((value) => completeBound(key, { [first.field]: value })),
    toBsonText(
      documentOf(
        key,
        key.map(() => new MaxKey()),
      ),
    ),
  ];
  return zones.map((zone, index) => {
    const [min, max] = [cuts[index], cuts[index + 1]] as [BsonText, BsonText];
    if (compareBson(min, max) >= 0) {
      throw new AlfabravoError(`the cut ${readableBson(max)} does not lie above ${readableBson(min)}`, {
        where: "at",
        next: "name the cuts in ascending BSON order",
      });
    }
    return { zone, min, max };
  });
}

/** What is wrong with the ranges of one collection: each bound against the key, its order, and every overlap. */
export function rangeProblems(key: readonly KeyPart[], ranges: readonly RangeInput[], path: string): Problem[] {
  const problems: Problem[] = [];
  const fine: { readonly index: number; readonly range: ZoneRange }[] = [];
  for (const [index, range] of ranges.entries()) {
    const here = `${path}[${index}]`;
    const [min, max] = [boundProblem(key, range.min), boundProblem(key, range.max)];
    for (const [side, message] of [
      ["min", min],
      ["max", max],
    ] as const) {
      if (message) {
        problems.push({
          path: `${here}.${side}`,
          message,
          rule: "a bound names the fields of the shard key in their order, from the first on",
          fix: `write it for the key ${keyText(key)}`,
        });
      }
    }
    if (min || max) continue;
    const complete = completeRange(key, range);
    if (compareBson(complete.min, complete.max) >= 0) {
      problems.push({
        path: here,
        message: `the range from ${readableBson(complete.min)} to ${readableBson(complete.max)} is empty`,
        rule: "min is inclusive, max is exclusive, and a bound that is a prefix of the key is completed with MinKey at both ends",
        fix: "give max the rest of the key as MaxKey, or a higher value",
      });
      continue;
    }
    fine.push({ index, range: complete });
  }
  for (const [a, b] of overlappingPairs(fine.map(({ range }) => range))) {
    const [one, other] = [fine[a], fine[b]];
    if (!one || !other) continue;
    const name = (range: ZoneRange) => `${readableBson(range.min)} to ${readableBson(range.max)} (zone ${range.zone})`;
    problems.push({
      path: `${path}[${other.index}]`,
      message: `${name(other.range)} overlaps ${path}[${one.index}], ${name(one.range)}`,
      rule: "the zone ranges of a collection do not overlap; min is inclusive, max is exclusive",
      fix: "move a bound of one of them",
    });
  }
  return problems;
}

/** A bound whose type stands alone among the bounds of its field, e.g. a number where all others are dates. */
export interface TypeSuspicion {
  readonly field: string;
  readonly bound: BsonText;
  readonly type: BsonType;
  readonly usual: BsonType;
}

/**
 * Bounds of a type that most bounds of the same field do not have. The server sorts types apart, so a range from a
 * number to a number never holds a date, and nothing ever says so.
 */
export function typeSuspicions(key: readonly KeyPart[], ranges: readonly ZoneRange[]): TypeSuspicion[] {
  const bounds = [...new Set(ranges.flatMap(({ min, max }) => [min, max]))];
  return key.flatMap(({ field }) => {
    const typed = bounds
      .map((bound) => ({ bound, type: bsonTypeOf(fromBsonText(bound)[field]) }))
      .filter(({ type }) => type !== "minKey" && type !== "maxKey");
    const counts = Map.groupBy(typed, ({ type }) => type);
    if (counts.size < 2) return [];
    const [usual] = [...counts].sort(([, a], [, b]) => b.length - a.length)[0] ?? [];
    if (usual === undefined) return [];
    return typed.filter(({ type }) => type !== usual).map(({ bound, type }) => ({ field, bound, type, usual }));
  });
}
