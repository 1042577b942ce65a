/** What a pipeline's stages need, and how it splits into a half for the shards and a half that merges. Pure. */
import { bsonType, Doc, DocWriter, type Encodable, encode, type Fields, Value } from "../bson/document.ts";
import { sortDirections } from "../cursors/remote.ts";

/** Name and argument of a stage. */
export function stageOf(stage: Doc): { name: string; spec: Value } {
  const first = stage.first();
  return { name: first?.name ?? "", spec: first ?? Value.null };
}

/** A stage that writes its input somewhere. */
export interface Output {
  readonly kind: "$out" | "$merge";
  readonly db: string;
  readonly collection: string;
  readonly spec: Value;
}

/** `$out` or `$merge` at the end of a pipeline. */
export function outputOf(pipeline: readonly Doc[], db: string): Output | undefined {
  const last = pipeline.at(-1);
  if (last === undefined) return undefined;
  const { name, spec } = stageOf(last);
  if (name !== "$out" && name !== "$merge") return undefined;
  const target = name === "$merge" && spec.isObject() ? spec.doc().find("into") : spec;
  if (target === undefined) return undefined;
  if (target.type === bsonType.string) return { kind: name, db, collection: target.text(), spec };
  if (!target.isObject()) return undefined;
  return {
    kind: name,
    db: target.doc().string("db") ?? db,
    collection: target.doc().string("coll") ?? "",
    spec,
  };
}

/** Other collections of the same database that a pipeline reads (namespaces of `$lookup` into other databases as they are). */
export function foreignCollections(pipeline: readonly Doc[]): Set<string> {
  const out = new Set<string>();
  const visit = (stages: readonly Doc[]): void => {
    for (const stage of stages) {
      const { name, spec } = stageOf(stage);
      if (name === "$lookup" || name === "$graphLookup") {
        const from = spec.isObject() ? spec.doc().string("from") : undefined;
        if (from !== undefined) out.add(from);
        if (spec.isObject()) visit(spec.doc().docs("pipeline"));
      } else if (name === "$unionWith") {
        const coll =
          spec.type === bsonType.string ? spec.text() : spec.isObject() ? spec.doc().string("coll") : undefined;
        if (coll !== undefined) out.add(coll);
        if (spec.isObject()) visit(spec.doc().docs("pipeline"));
      } else if (name === "$facet" && spec.isObject()) {
        for (const facet of spec.doc().elements())
          if (facet.isArray())
            visit(
              facet
                .items()
                .filter((s) => s.isObject())
                .map((s) => s.doc()),
            );
      }
    }
  };
  visit(pipeline);
  return out;
}

/** The pipeline with other names for the collections it reads. */
export function renameForeign(pipeline: readonly Doc[], names: ReadonlyMap<string, string>): Doc[] {
  if (names.size === 0) return [...pipeline];
  const nested = (spec: Doc, field: string): Fields => {
    const inner = spec.array("pipeline");
    const collection = spec.string(field);
    return {
      ...(collection !== undefined && names.has(collection) ? { [field]: names.get(collection) } : {}),
      ...(inner === undefined ? {} : { pipeline: renameForeign(spec.docs("pipeline"), names) }),
    };
  };
  return pipeline.map((stage) => {
    const { name, spec } = stageOf(stage);
    if ((name === "$lookup" || name === "$graphLookup") && spec.isObject())
      return encode({ [name]: spec.doc().with(nested(spec.doc(), "from")) });
    if (name === "$unionWith") {
      if (spec.type === bsonType.string) return encode({ [name]: names.get(spec.text()) ?? spec });
      if (spec.isObject()) return encode({ [name]: spec.doc().with(nested(spec.doc(), "coll")) });
    }
    if (name === "$facet" && spec.isObject()) {
      const facets = new DocWriter();
      for (const facet of spec.doc().elements())
        facets.append(
          facet.name,
          facet.isArray()
            ? renameForeign(
                facet.items().map((s) => (s.isObject() ? s.doc() : Doc.empty)),
                names,
              )
            : facet,
        );
      return encode({ [name]: facets.finish() });
    }
    return stage;
  });
}

/** Stages that give one document for each, and look at nothing else. */
const oneToOne: ReadonlySet<string> = new Set([
  "$project",
  "$addFields",
  "$set",
  "$unset",
  "$replaceRoot",
  "$replaceWith",
]);

/** Stages that look at one document at a time. */
const streaming: ReadonlySet<string> = new Set([
  ...oneToOne,
  "$match",
  "$redact",
  "$unwind",
  "$collStats",
  "$indexStats",
  "$planCacheStats",
  "$currentOp",
  "$search",
  "$_internalInhibitOptimization",
]);

/** Accumulators whose partial results the shards can make and a merging `$group` can add up. */
const mergeable: ReadonlySet<string> = new Set([
  "$sum",
  "$avg",
  "$min",
  "$max",
  "$push",
  "$addToSet",
  "$first",
  "$last",
  "$stdDevPop",
  "$stdDevSamp",
  "$mergeObjects",
]);
const orderDependent: ReadonlySet<string> = new Set(["$push", "$first", "$last", "$mergeObjects"]);

export interface Split {
  /** For every shard. */
  readonly shards: readonly Doc[];
  /** The shards' answers are sorted (with `$sortKey`) in these directions. */
  readonly directions: readonly number[] | undefined;
  /** Applied to the merged stream. */
  readonly skip: number;
  /** undefined: none. */
  readonly limit: number | undefined;
  /** For one place, over the merged stream. */
  readonly merge: readonly Doc[];
}

/** `$count` and `$sortByCount` as the stages that they stand for. */
function expand(pipeline: readonly Doc[]): Doc[] {
  return pipeline.flatMap((stage) => {
    const { name, spec } = stageOf(stage);
    if (name === "$count" && spec.type === bsonType.string && /^[^$.\0]+$/.test(spec.text())) {
      const group = new DocWriter().append("_id", null).append(spec.text(), { $sum: 1 }).finish();
      return [encode({ $group: group }), encode({ $project: { _id: 0 } })];
    }
    if (name === "$sortByCount")
      return [encode({ $group: { _id: spec, count: { $sum: 1 } } }), encode({ $sort: { count: -1 } })];
    return [stage];
  });
}

/** The merging `$group` for the shards' partial groups; undefined when the shards cannot help. */
function mergingGroup(spec: Value, sorted: boolean): Doc | undefined {
  if (!spec.isObject()) return undefined;
  const out = new DocWriter().append("_id", "$$ROOT._id");
  for (const field of spec.doc().elements()) {
    if (field.name === "_id") continue;
    const accumulator = field.isObject() ? field.doc().elements() : [];
    const name = accumulator[0]?.name ?? "";
    if (accumulator.length !== 1) return undefined;
    const counts = name === "$count";
    if (!mergeable.has(name) && !counts) return undefined;
    if (sorted && orderDependent.has(name)) return undefined;
    out.append(field.name, { [counts ? "$sum" : name]: `$$ROOT.${field.name}` });
  }
  return encode({ $group: out.append("$doingMerge", true).finish() });
}

function wholeNumber(value: Value): number | undefined {
  const n = value.isNumber() ? value.number() : Number.NaN;
  return Number.isInteger(n) && n >= 0 ? n : undefined;
}

/** Splits a pipeline without output stage. `noForeign`: stages that read other collections end the shards' half. */
export function splitPipeline(pipeline: readonly Doc[]): Split {
  const stages = expand(pipeline);
  const shards: Doc[] = [];
  let directions: readonly number[] | undefined;
  let skip = 0;
  let limit: number | undefined;
  let windowed = false;
  const rest = (at: number): Split => ({ shards, directions, skip, limit, merge: stages.slice(at) });
  for (let i = 0; i < stages.length; i++) {
    const stage = stages[i] as Doc;
    const { name, spec } = stageOf(stage);
    if (oneToOne.has(name) || (streaming.has(name) && !windowed)) shards.push(stage);
    else if (name === "$geoNear" && i === 0) {
      shards.push(stage);
      directions = [1];
    } else if (name === "$sort" && !windowed && directions === undefined && spec.isObject()) {
      shards.push(stage);
      directions = sortDirections(spec.doc());
    } else if (name === "$sample" && !windowed && directions === undefined && spec.isObject()) {
      const size = wholeNumber(spec.doc().find("size") ?? Value.null);
      if (size === undefined) return rest(i);
      shards.push(stage);
      directions = [-1];
      limit = size;
      windowed = true;
    } else if (name === "$limit") {
      const n = wholeNumber(spec);
      if (n === undefined) return rest(i);
      limit = limit === undefined ? n : Math.min(limit, n);
      windowed = true;
      shards.push(encode({ $limit: BigInt(skip + limit) }));
    } else if (name === "$skip") {
      const n = wholeNumber(spec);
      if (n === undefined) return rest(i);
      skip += n;
      if (limit !== undefined) limit = Math.max(0, limit - n);
      windowed = true;
    } else if (name === "$group" && !windowed) {
      const merging = mergingGroup(spec, directions !== undefined);
      if (merging === undefined) return rest(i);
      shards.push(stage);
      return { shards, directions: undefined, skip, limit, merge: [merging, ...stages.slice(i + 1)] };
    } else return rest(i);
  }
  return rest(stages.length);
}

/** A stage in front that gives these documents. */
export function documentsStage(docs: readonly Doc[]): Doc {
  const literal = new DocWriter(docs.reduce((n, doc) => n + doc.bytes.length + 12, 64)).docs("$literal", docs).finish();
  return encode({ $documents: literal as Encodable });
}
