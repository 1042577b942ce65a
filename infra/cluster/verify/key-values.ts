import { Double, ObjectId } from "bson";
import { bsonTypeOf, compareValues, fromBsonText, toBsonText } from "../../model/bson-text.ts";
import type { CollectionSpec } from "../../model/spec.ts";
import { zoneOf } from "../../model/zone-range.ts";

/** The values of the datacenter field that have a range of their own, and the zone of each. */
export function datacenterValues(spec: CollectionSpec): { value: unknown; zone: string }[] {
  const [first, ...rest] = spec.key;
  if (spec.datacenterField === undefined || first?.field !== spec.datacenterField) return [];
  return spec.ranges.flatMap(({ zone, min, max }) => {
    const [from, to] = [fromBsonText(min), fromBsonText(max)];
    const value = from[first.field];
    if (["minKey", "maxKey"].includes(bsonTypeOf(value))) return [];
    const whole =
      rest.length === 0 ||
      (compareValues(value, to[first.field]) === 0 &&
        rest.every(({ field }) => bsonTypeOf(from[field]) === "minKey" && bsonTypeOf(to[field]) === "maxKey"));
    return whole ? [{ value, zone }] : [];
  });
}

/**
 * Values of the shard key that no document has, one in each zone where that can be done: what a range pins is kept, and
 * the rest is random.
 */
export function unusedKeys(spec: CollectionSpec): { values: ReadonlyMap<string, unknown>; zone: string | undefined }[] {
  const random = () => [
    `alfabravo-verify-${crypto.randomUUID()}`,
    // Numbers that are no whole ones and far below those that people count with.
    new Double(-(2 ** 40) * (1 + Math.random())),
    new ObjectId(),
  ];
  const heads: ReadonlyMap<string, unknown>[] = [
    new Map(),
    ...datacenterValues(spec).map(({ value }) => new Map([[spec.datacenterField ?? "", value]])),
  ];
  const found = new Map<string | undefined, ReadonlyMap<string, unknown>>();
  for (const head of heads.toReversed()) {
    for (const tail of random()) {
      const values = new Map(spec.key.map(({ field }) => [field, head.get(field) ?? tail]));
      const zone = spec.key.some(({ kind }) => kind === "hashed")
        ? undefined
        : zoneOf(spec.ranges, toBsonText(Object.fromEntries(values)));
      if (!found.has(zone)) found.set(zone, values);
    }
  }
  return [...found].map(([zone, values]) => ({ zone, values }));
}
