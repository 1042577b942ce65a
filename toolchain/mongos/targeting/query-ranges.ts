/**
 * Which part of the key space a query can match. Always a superset of the truth: a condition that is not understood
 * narrows nothing. Pure.
 */
import { compareValues } from "../bson/compare.ts";
import { bsonType, type Doc, Value } from "../bson/document.ts";
import type { KeyRange } from "../catalog/routing-table.ts";
import { keyValue, type ShardKey } from "./shard-key.ts";

/** A closed interval of one field's values. */
interface Interval {
  readonly low: Value;
  readonly high: Value;
}

interface Condition {
  readonly operator: string;
  readonly value: Value;
}

type Conjunction = ReadonlyMap<string, readonly Condition[]>;

const everything: Interval = { low: Value.minKey, high: Value.maxKey };
const undefinedValue = new Value(bsonType.undefined, Buffer.alloc(0), 0, 0);
const nothing: Interval = { low: undefinedValue, high: Value.null };

const maxConjunctions = 1_000;
const maxRanges = 20_000;

function raw(type: number, bytes: Buffer): Value {
  return new Value(type, bytes, 0, bytes.length);
}

function long(type: number, n: bigint): Value {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(n);
  return raw(type, bytes);
}

/** Least and greatest value of the type that a comparison operator is limited to. */
function bracketOf(value: Value): Interval | undefined {
  switch (value.type) {
    case bsonType.double:
    case bsonType.int:
    case bsonType.long:
    case bsonType.decimal:
      if (Number.isNaN(value.number())) return undefined;
      return { low: Value.double(Number.NEGATIVE_INFINITY), high: Value.double(Number.POSITIVE_INFINITY) };
    case bsonType.string:
    case bsonType.symbol:
      return { low: Value.of(""), high: Value.of({}) };
    case bsonType.object:
      return { low: Value.of({}), high: Value.of([]) };
    case bsonType.binData:
      return { low: Value.of(new Uint8Array()), high: raw(bsonType.objectId, Buffer.alloc(12)) };
    case bsonType.objectId:
      return { low: raw(bsonType.objectId, Buffer.alloc(12)), high: raw(bsonType.objectId, Buffer.alloc(12, 0xff)) };
    case bsonType.bool:
      return { low: Value.of(false), high: Value.of(true) };
    case bsonType.date:
      return { low: long(bsonType.date, -(2n ** 63n)), high: long(bsonType.date, 2n ** 63n - 1n) };
    case bsonType.timestamp:
      return { low: raw(bsonType.timestamp, Buffer.alloc(8)), high: raw(bsonType.timestamp, Buffer.alloc(8, 0xff)) };
    default:
      return undefined;
  }
}

/** Strings, and what may hold strings, match by the collation's rules, not by their bytes. */
function dependsOnCollation(value: Value): boolean {
  return (
    value.type === bsonType.string ||
    value.type === bsonType.symbol ||
    value.type === bsonType.object ||
    value.type === bsonType.array
  );
}

function isOperatorObject(value: Value): boolean {
  return value.isObject() && value.doc().first()?.name.startsWith("$") === true && !isDbRef(value.doc());
}

function isDbRef(doc: Doc): boolean {
  const name = doc.first()?.name;
  return name === "$ref" || name === "$id" || name === "$db";
}

/** Intervals of values equal to one; undefined: cannot tell. */
function equalTo(value: Value, collated: boolean): readonly Interval[] | undefined {
  switch (value.type) {
    case bsonType.null:
    case bsonType.undefined:
      return [nothing];
    case bsonType.regex:
    case bsonType.array:
      return undefined;
    default:
      return collated && dependsOnCollation(value) ? undefined : [{ low: value, high: value }];
  }
}

function intervalsOf(condition: Condition, collated: boolean, hashed: boolean): readonly Interval[] | undefined {
  const { operator, value } = condition;
  switch (operator) {
    case "$eq":
      return equalTo(value, collated);
    case "$in": {
      if (!value.isArray()) return undefined;
      const out: Interval[] = [];
      for (const item of value.items()) {
        const intervals = equalTo(item, collated);
        if (intervals === undefined) return undefined;
        out.push(...intervals);
      }
      return union(out);
    }
    case "$exists":
      return value.truthy() ? undefined : [nothing];
    case "$gt":
    case "$gte":
    case "$lt":
    case "$lte": {
      if (hashed || (collated && dependsOnCollation(value))) return undefined;
      const bracket = bracketOf(value);
      if (bracket === undefined) return undefined;
      return operator.startsWith("$g") ? [{ low: value, high: bracket.high }] : [{ low: bracket.low, high: value }];
    }
    default:
      return undefined;
  }
}

/** Sorted, without overlaps. */
function union(intervals: readonly Interval[]): Interval[] {
  const sorted = [...intervals].sort((a, b) => compareValues(a.low, b.low));
  const out: Interval[] = [];
  for (const interval of sorted) {
    const last = out.at(-1);
    if (last !== undefined && compareValues(interval.low, last.high) <= 0) {
      if (compareValues(interval.high, last.high) > 0) out[out.length - 1] = { low: last.low, high: interval.high };
    } else out.push(interval);
  }
  return out;
}

function intersect(a: readonly Interval[], b: readonly Interval[]): Interval[] {
  const out: Interval[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    const x = a[i] as Interval;
    const y = b[j] as Interval;
    const low = compareValues(x.low, y.low) >= 0 ? x.low : y.low;
    const high = compareValues(x.high, y.high) <= 0 ? x.high : y.high;
    if (compareValues(low, high) <= 0) out.push({ low, high });
    if (compareValues(x.high, y.high) < 0) i++;
    else j++;
  }
  return out;
}

function merged(a: Conjunction, b: Conjunction): Conjunction {
  const out = new Map(a);
  for (const [path, conditions] of b) out.set(path, [...(out.get(path) ?? []), ...conditions]);
  return out;
}

/** The query as a disjunction of conjunctions over paths; parts that say nothing about paths are left out. */
function conjunctionsOf(query: Doc): readonly Conjunction[] {
  let out: readonly Conjunction[] = [new Map()];
  const and = (more: readonly Conjunction[]): void => {
    if (out.length * more.length <= maxConjunctions) out = out.flatMap((a) => more.map((b) => merged(a, b)));
  };
  for (const element of query) {
    if (element.name === "$and") {
      if (element.isArray()) for (const part of element.items()) if (part.isObject()) and(conjunctionsOf(part.doc()));
    } else if (element.name === "$or") {
      const parts = element.isArray() ? element.items().filter((part) => part.isObject()) : [];
      if (parts.length > 0) and(parts.flatMap((part) => conjunctionsOf(part.doc())));
    } else if (!element.name.startsWith("$")) {
      const conditions = isOperatorObject(element)
        ? element
            .doc()
            .elements()
            .map((part) => ({ operator: part.name, value: part as Value }))
        : [{ operator: "$eq", value: element as Value }];
      and([new Map([[element.name, conditions]])]);
      if (!isOperatorObject(element) && element.isObject()) and([nestedEqualities(element.name, element.doc())]);
    }
  }
  return out;
}

/** `{a: {b: 5}}` says as well that a.b equals 5. */
function nestedEqualities(prefix: string, doc: Doc): Conjunction {
  const out = new Map<string, readonly Condition[]>();
  for (const element of doc) {
    const path = `${prefix}.${element.name}`;
    out.set(path, [{ operator: "$eq", value: element }]);
    if (element.isObject())
      for (const [deeper, conditions] of nestedEqualities(path, element.doc())) out.set(deeper, conditions);
  }
  return out;
}

/**
 * The ranges of keys that can hold a matching document, in key order; undefined: all of them; none: nothing matches.
 * `collated`: the query uses another collation than the simple one.
 */
export function queryRanges(key: ShardKey, query: Doc, collated = false): readonly KeyRange[] | undefined {
  const ranges: KeyRange[] = [];
  for (const conjunction of conjunctionsOf(query)) {
    const perField: (readonly Interval[])[] = [];
    let limited = false;
    for (const field of key.fields) {
      let intervals: readonly Interval[] | undefined;
      for (const condition of conjunction.get(field.path) ?? []) {
        const more = intervalsOf(condition, collated, field.hashed);
        if (more !== undefined) intervals = intervals === undefined ? more : intersect(intervals, more);
      }
      if (intervals !== undefined) limited = true;
      perField.push(
        intervals === undefined
          ? [everything]
          : field.hashed
            ? union(intervals.flatMap((interval) => hashedPoints(field, interval)))
            : intervals,
      );
    }
    if (!limited) return undefined;
    const flat = flatten(perField);
    if (flat === undefined || ranges.length + flat.length > maxRanges) return undefined;
    ranges.push(...flat);
  }
  return ranges;
}

/** Only single values can be hashed; null stands for a missing field, which hashes as null. */
function hashedPoints(field: ShardKey["fields"][number], interval: Interval): readonly Interval[] {
  if (interval === nothing)
    return [undefinedValue, Value.null].map((value) => keyValue(field, value)).map((v) => ({ low: v, high: v }));
  if (compareValues(interval.low, interval.high) !== 0) return [everything];
  const point = keyValue(field, interval.low);
  return [{ low: point, high: point }];
}

/** Products of the leading single values; from the first real interval on, one range up to MaxKey of the rest. */
function flatten(perField: readonly (readonly Interval[])[]): readonly KeyRange[] | undefined {
  let prefixes: Value[][] = [[]];
  for (let f = 0; f < perField.length; f++) {
    const intervals = perField[f] as readonly Interval[];
    const points = intervals.every((interval) => compareValues(interval.low, interval.high) === 0);
    if (prefixes.length * intervals.length > maxRanges) return undefined;
    if (points && f < perField.length - 1) {
      prefixes = prefixes.flatMap((prefix) => intervals.map((interval) => [...prefix, interval.low]));
      continue;
    }
    const rest = perField.slice(f + 1);
    if (rest.some((some) => some.length === 0)) return [];
    return prefixes.flatMap((prefix) =>
      intervals.map((interval) => ({
        min: [...prefix, interval.low, ...rest.map((some) => (some[0] as Interval).low)],
        max: [...prefix, interval.high, ...rest.map((some) => (some.at(-1) as Interval).high)],
      })),
    );
  }
  return [];
}

/** The full shard key that a query fixes by equality, or undefined. */
export function exactKey(key: ShardKey, query: Doc, collated = false): Value[] | undefined {
  const [only, ...others] = conjunctionsOf(query.has("$or") ? query.without("$or") : query);
  if (only === undefined || others.length > 0) return undefined;
  const out: Value[] = [];
  for (const field of key.fields) {
    const conditions = only.get(field.path);
    const equal = conditions?.find(
      (condition) => condition.operator === "$eq" || (condition.operator === "$in" && isSingle(condition.value)),
    );
    if (equal === undefined) return undefined;
    const value = equal.operator === "$in" ? (equal.value.items()[0] as Value) : equal.value;
    if (value.type === bsonType.array || value.type === bsonType.regex || value.type === bsonType.undefined)
      return undefined;
    if (collated && dependsOnCollation(value)) return undefined;
    out.push(keyValue(field, value));
  }
  return out;
}

function isSingle(value: Value): boolean {
  return value.isArray() && value.items().length === 1;
}

/** Does the query fix `_id` by equality to one value? */
export function hasExactId(query: Doc): boolean {
  const id = query.find("_id");
  if (id === undefined) return false;
  if (isOperatorObject(id)) {
    const parts = id.doc().elements();
    return parts.length === 1 && parts[0]?.name === "$eq";
  }
  return id.type !== bsonType.regex;
}
