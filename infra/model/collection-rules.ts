/** What the server demands of a collection, its zone ranges and its indexes, checked before anything is touched. */
import { canonicalBsonText, toBsonText } from "./bson-text.ts";
import type { IndexDeclaration } from "./declaration.ts";
import { defaultIndexName, isKeyPrefix, keyText, readKey, sameKey, shardKeyProblems } from "./key.ts";
import type { Problem } from "./problem.ts";
import { nearest, type ReadDeclaration } from "./schema.ts";
import type { CollectionSpec } from "./spec.ts";
import type { IndexState, KeyPart, ZoneRange } from "./state.ts";
import { completeRange, rangeProblems, rangesPerDatacenter, splitRanges } from "./zone-range.ts";

type ReadCollection = NonNullable<ReadDeclaration["collections"]>[string];

/** What a collection may refer to. */
export interface CollectionContext {
  /** The zones that shards carry. */
  readonly zones: ReadonlySet<string>;
  /** The datacenters that are home to shards, in their order. */
  readonly homes: readonly string[];
}

const orUndefined = <T>(make: () => T, problem: (error: Error) => void): T | undefined => {
  try {
    return make();
  } catch (error) {
    problem(error instanceof Error ? error : new Error(String(error)));
    return undefined;
  }
};

/** A collection with its defaults filled in, and what is wrong with it. */
export function readCollection(
  namespace: string,
  collection: ReadCollection,
  context: CollectionContext,
  path: string,
): { spec: CollectionSpec; problems: Problem[] } {
  const problems: Problem[] = [];
  const { parts: key, problems: keyProblems } = readKey(collection.key, `${path}.key`);
  problems.push(...keyProblems);
  const sharded = key.length > 0;
  const unique = collection.unique ?? false;
  if (sharded || !Array.isArray(collection.key)) problems.push(...shardKeyProblems(key, unique, `${path}.key`));
  else if (unique) {
    problems.push({
      path: `${path}.unique`,
      message: "unique without a shard key",
      rule: "unique speaks of the shard key",
      fix: "declare unique indexes under indexes; a collection that is not sharded may have several",
    });
  }

  const { ranges, datacenterField } = readRanges(collection, key, context, path, problems);
  const indexes = readIndexes(collection.indexes ?? [], key, unique, path, problems);
  return {
    problems,
    spec: {
      namespace,
      key,
      unique,
      ranges,
      indexes,
      balancing: collection.balancing ?? true,
      chunkSizeMiB: collection.chunkSizeMiB,
      datacenterField,
    },
  };
}

function readRanges(
  collection: ReadCollection,
  key: readonly KeyPart[],
  context: CollectionContext,
  path: string,
  problems: Problem[],
): { ranges: ZoneRange[]; datacenterField: string | undefined } {
  const ways = (["ranges", "perDatacenter", "split"] as const).filter((way) => collection[way] !== undefined);
  const [way, ...others] = ways;
  for (const other of others) {
    problems.push({
      path: `${path}.${other}`,
      message: `${ways.join(" and ")} together`,
      rule: "the zone ranges of a collection are declared in one way",
      fix: `keep ${way} or ${other}`,
    });
  }
  if (way && key.length === 0) {
    problems.push({
      path: `${path}.${way}`,
      message: "zone ranges without a shard key",
      rule: "a range is a range of shard key values; a collection that is not sharded lives on its database's primary shard",
      fix: "declare a key, or remove the ranges",
    });
    return { ranges: [], datacenterField: undefined };
  }
  const zoneProblem = (zone: string, where: string) => {
    if (context.zones.has(zone)) return;
    const meant = nearest(zone, context.zones);
    problems.push({
      path: where,
      message: `no shard carries the zone ${zone}`,
      rule: "the server refuses ranges of a zone that no shard carries, and their documents would have no home",
      fix: meant
        ? `did you mean ${meant}?`
        : `use one of ${[...context.zones].join(", ")}, or give the zone to a shard`,
    });
  };
  if (way === "ranges") {
    const declared = (collection.ranges ?? []).map((range, index) => ({ range, index }));
    const present = declared.filter(({ range }) => range !== undefined);
    const list = present.map(({ range }) => range);
    const at = (text: string) =>
      text.replace(/ranges\[(\d+)\]/g, (_, position) => `ranges[${present[Number(position)]?.index ?? position}]`);
    const wrong = rangeProblems(key, list, `${path}.ranges`);
    problems.push(...wrong.map((problem) => ({ ...problem, path: at(problem.path), message: at(problem.message) })));
    for (const { range, index } of present) zoneProblem(range.zone, `${path}.ranges[${index}].zone`);
    return {
      ranges: wrong.length > 0 ? [] : list.map((range) => completeRange(key, range)),
      datacenterField: undefined,
    };
  }
  if (way === "perDatacenter") {
    const { field = "datacenter", values = Object.fromEntries(context.homes.map((name) => [name, name])) } =
      collection.perDatacenter ?? {};
    const zones = Array.isArray(values)
      ? values.map(([, zone]) => zone as string)
      : Object.values(values as Record<string, string>);
    for (const zone of new Set(zones)) zoneProblem(zone, `${path}.perDatacenter.values`);
    const ranges = orUndefined(
      () => rangesPerDatacenter({ key, field, values: values as Record<string, string> }),
      (error) =>
        problems.push({
          path: `${path}.perDatacenter`,
          message: error.message,
          rule: "ranges per datacenter are ranges of the first field of the shard key, one value a datacenter",
          fix: `begin the key with ${field}: 1, or name the field that it begins with`,
        }),
    );
    return { ranges: ranges ?? [], datacenterField: field };
  }
  if (way === "split") {
    const { at = [], zones = context.homes } = collection.split ?? {};
    for (const [index, zone] of zones.entries()) {
      if (zone !== undefined)
        zoneProblem(zone, collection.split?.zones ? `${path}.split.zones[${index}]` : `${path}.split`);
    }
    const ranges = orUndefined(
      () => splitRanges({ key, at, zones }),
      (error) =>
        problems.push({
          path: `${path}.split`,
          message: error.message,
          rule: "a split cuts the key space at ascending values, with one zone more than values",
          fix: "name ascending values and a zone for each piece",
        }),
    );
    return { ranges: ranges ?? [], datacenterField: undefined };
  }
  return { ranges: [], datacenterField: undefined };
}

function bsonOf(value: IndexDeclaration["collation"]): string | undefined {
  if (value === undefined) return undefined;
  return typeof value === "string" ? canonicalBsonText(value) : toBsonText(value);
}

function readIndexes(
  declared: readonly (IndexDeclaration | undefined)[],
  shardKey: readonly KeyPart[],
  keyIsUnique: boolean,
  path: string,
  problems: Problem[],
): IndexState[] {
  const indexes: IndexState[] = [];
  const places: string[] = [];
  for (const [position, declaration] of declared.entries()) {
    if (!declaration) continue;
    const here = `${path}.indexes[${position}]`;
    const add = (field: string, message: string, rule: string, fix: string) =>
      problems.push({ path: field ? `${here}.${field}` : here, message, rule, fix });
    const { parts: key, problems: keyProblems } = readKey(declaration.key as never, `${here}.key`);
    problems.push(...keyProblems);
    const index: IndexState = {
      name: declaration.name ?? defaultIndexName(key),
      key,
      unique: declaration.unique ?? false,
      sparse: declaration.sparse ?? false,
      hidden: declaration.hidden ?? false,
      expireAfterSeconds: declaration.expireAfterSeconds,
      partialFilterExpression: orUndefined(
        () => bsonOf(declaration.partialFilterExpression),
        (error) => add("partialFilterExpression", error.message, "a filter is a document", "write it as an object"),
      ),
      collation: orUndefined(
        () => bsonOf(declaration.collation),
        (error) => add("collation", error.message, "a collation is a document", "write it as an object"),
      ),
    };
    if (key.length === 0) {
      add("key", "the index has no field", "an index has at least one field", "name one");
      continue;
    }
    if (sameKey(key, [{ field: "_id", kind: 1 }])) {
      add("key", "the index on _id makes itself", "every collection has it", "remove this index");
      continue;
    }
    if (shardKey.length > 0 && sameKey(key, shardKey) && index.collation === undefined) {
      add(
        "key",
        "this is the index of the shard key, which makes itself",
        "a sharded collection always has it",
        index.unique && !keyIsUnique ? "remove this index and set unique: true on the collection" : "remove this index",
      );
      continue;
    }
    if (index.unique) {
      const hashed = key.find((part) => part.kind === "hashed");
      if (hashed) {
        add(
          "unique",
          `a unique index with the hashed field ${hashed.field}`,
          "the server refuses uniqueness on a hashed index (U2)",
          "make the field ranged, or drop unique",
        );
      } else if (shardKey.length > 0 && !isKeyPrefix(shardKey, key)) {
        add(
          "unique",
          `a unique index on ${keyText(key)} does not begin with the shard key ${keyText(shardKey)}`,
          "each shard enforces uniqueness for itself, so a unique index of a sharded collection has the whole shard key as its prefix (U2)",
          "begin the index with the shard key, drop unique, or guard the fields with a proxy collection",
        );
      }
      if (index.collation !== undefined && shardKey.length > 0) {
        add(
          "collation",
          "a unique index with a collation on a sharded collection",
          "uniqueness over shards holds for simple comparison only",
          "drop the collation or unique",
        );
      }
    }
    if (index.sparse && index.partialFilterExpression !== undefined) {
      add(
        "sparse",
        "sparse and partial together",
        "the server refuses an index that is both",
        "write the filter so that it leaves out missing fields, and drop sparse",
      );
    }
    if (index.expireAfterSeconds !== undefined && (key.length > 1 || typeof key[0]?.kind !== "number")) {
      add(
        "expireAfterSeconds",
        `documents cannot expire by the index ${keyText(key)}`,
        "an index that lets documents expire is on one ascending or descending field",
        "use an index of its own on the date field",
      );
    }
    if (
      index.key.some((part) => part.kind === "wildcard") &&
      (index.unique || index.expireAfterSeconds !== undefined)
    ) {
      add(
        "key",
        "a wildcard index that is unique or lets documents expire",
        "the server refuses both",
        "use an ordinary index",
      );
    }
    const twin = indexes.findIndex((other) => sameKey(other.key, index.key) && other.collation === index.collation);
    if (twin >= 0) {
      add("key", `the same key as ${places[twin]}`, "an index is known by its key and collation", "remove one of them");
    }
    const namesake = indexes.findIndex((other) => other.name === index.name);
    if (namesake >= 0 && twin < 0) {
      add(
        "name",
        `the name ${index.name} is that of ${places[namesake]}`,
        "names of indexes are unique in a collection",
        "give it another name",
      );
    }
    if (index.name === "_id_" || index.name === "") {
      add(
        "name",
        `an index cannot be called "${index.name}"`,
        "the name belongs to the server or is empty",
        "give it another name",
      );
    }
    indexes.push(index);
    places.push(here);
  }
  return indexes;
}
