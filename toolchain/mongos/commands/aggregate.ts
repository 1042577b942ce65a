/**
 * aggregate. A pipeline whose collections all live on one shard goes there as it is. Otherwise the shards run the first
 * half; the router merges sorted streams and applies skip and limit; what is left runs on the primary shard of the
 * database over the merged documents. Collections that this shard does not have are copied there for the moment.
 */

import {
  documentsStage,
  foreignCollections,
  type Output,
  outputOf,
  renameForeign,
  splitPipeline,
  stageOf,
} from "../aggregation/pipeline.ts";
import { TemporaryCollection } from "../aggregation/temporary.ts";
import { requirementOf } from "../auth/requirements.ts";
import { type Doc, encode, type Fields, type Value } from "../bson/document.ts";
import type { DatabaseEntry } from "../catalog/entries.ts";
import { type CommandContext, CommandContext as Context, OperationContext, type Reply, typeName } from "../context.ts";
import { MergedCursor, RemoteCursor, SingleCursor } from "../cursors/remote.ts";
import type { Batch, RouterCursor } from "../cursors/store.ts";
import { CommandError, errorCode } from "../errors.ts";
import type { RunOptions, ServerGroup } from "../router.ts";
import { shardedDataDistribution } from "./data-distribution.ts";
import {
  emptyCursor,
  firstBatch,
  openOn,
  passThrough,
  readOptions,
  routerOf,
  snapshotExtra,
  viewOf,
  withSnapshot,
} from "./find.ts";
import { mergeIntoSharded } from "./merge-stage.ts";
import type { CommandTable } from "./registry.ts";

/** Documents up to this size travel inside a command; beyond it a temporary collection holds them. */
const inlineBytes = 12 * 1024 * 1024;
/** Foreign collections are copied in batches. */
const copyBatch = 2_000;

export interface PipelineRun {
  /** Collection that the pipeline reads. */
  readonly ns: string;
  /** Name for the cursor that the client sees. */
  readonly replyNs: string;
  readonly pipeline: readonly Doc[];
  readonly collation?: Doc | undefined;
  readonly batchSize?: number | undefined;
  readonly singleBatch?: boolean;
  /** The client's command: let, allowDiskUse, hint and so on are taken from it. */
  readonly rest: Doc;
}

const collOf = (ns: string): string => ns.slice(ns.indexOf(".") + 1);

/** Fields of an aggregate command that go to the shards beside the pipeline. */
function commonFields(run: PipelineRun, withHint: boolean): Fields {
  const out: Record<string, Fields[string]> = {};
  for (const name of ["let", "allowDiskUse", "bypassDocumentValidation", "comment", ...(withHint ? ["hint"] : [])])
    out[name] = run.rest.find(name);
  out.collation = run.collation;
  return out;
}

/** Runs a pipeline on a collection or view; gives the reply with the first batch. */
export async function runPipeline(ctx: CommandContext, run: PipelineRun): Promise<Doc> {
  const router = routerOf(ctx);
  let current = run;
  for (let depth = 0; ; depth++) {
    try {
      return await router.retryStale(ctx, current.ns, () => execute(ctx, current));
    } catch (error) {
      const view = viewOf(error);
      if (view === undefined || depth > 20) throw error;
      current = {
        ...current,
        ns: view.string("ns") ?? current.ns,
        pipeline: [...view.docs("pipeline"), ...current.pipeline],
        collation: view.doc("collation") ?? current.collation,
      };
    }
  }
}

async function execute(ctx: CommandContext, run: PipelineRun): Promise<Doc> {
  const router = routerOf(ctx);
  const database = await router.catalog.database(ctx, ctx.db);
  const output = outputOf(run.pipeline, ctx.db);
  if (database === undefined) {
    if (output === undefined) return emptyCursor(run.replyNs);
    await router.catalog.databaseOrCreate(ctx, ctx.db);
    return execute(ctx, run);
  }
  const routing = await router.catalog.collection(ctx, run.ns);
  const reading = output === undefined ? run.pipeline : run.pipeline.slice(0, -1);
  const query = leadingMatch(reading);
  const shards = router.shardsOf(routing, database, query, run.collation);
  const foreign = await classify(ctx, database, reading);
  const outputRouting =
    output === undefined ? undefined : await router.catalog.collection(ctx, `${output.db}.${output.collection}`);
  const outputDatabase = output === undefined ? undefined : await router.catalog.databaseOrCreate(ctx, output.db);
  if (output?.kind === "$out" && outputRouting !== undefined)
    throw new CommandError(28769, `namespace '${outputRouting.ns}' is sharded so it can't be used for $out`);

  const [only] = shards;
  const staysThere =
    shards.length === 1 &&
    only !== undefined &&
    foreign.distant.size === 0 &&
    (foreign.local.size === 0 || only === database.primary) &&
    (output === undefined || (outputRouting === undefined && outputDatabase?.primary === only));
  if (staysThere) return wholeOn(ctx, run, only, routing, database);

  const split = splitPipeline(reading);
  // Stages that read other collections run in the second half: only there are those collections at hand.
  const command = encode({
    aggregate: collOf(run.ns),
    pipeline: withShardName(split.shards),
    cursor:
      run.batchSize !== undefined && run.batchSize > 0 && split.merge.length === 0 ? { batchSize: run.batchSize } : {},
    fromMongos: true,
    needsMerge: true,
    ...commonFields(run, true),
    collation: run.collation,
  });
  const perShard = shards.map((id) => withNamedShard(command, id));
  const snapshot = withSnapshot(ctx, readOptions(ctx));
  const { cursors } = await openEach(ctx, routing, shards, perShard, snapshot);
  const merged = new MergedCursor(cursors, {
    extra: snapshotExtra(snapshot),
    directions: split.directions,
    skip: split.skip,
    limit: split.limit ?? 0,
  });
  const source: RouterCursor = split.limit === 0 ? await nothingOf(merged) : merged;
  const rest = { ...run, collation: run.collation ?? routing?.defaultCollation };
  if (split.merge.length === 0 && output === undefined)
    return firstBatch(ctx, run.replyNs, source, run.batchSize, { single: run.singleBatch === true });
  return mergeOn(ctx, rest, split.merge, source, {
    database,
    foreign,
    output,
    outputRouting: outputRouting !== undefined,
    outputDatabase,
  });
}

async function nothingOf(cursor: RouterCursor): Promise<RouterCursor> {
  await cursor.kill();
  return { next: async () => ({ docs: [], exhausted: true }), kill: async () => {} };
}

/** Opens cursors with a command of its own for each shard. */
async function openEach(
  ctx: CommandContext,
  routing: Parameters<typeof openOn>[1],
  shards: readonly string[],
  commands: readonly Doc[],
  options: RunOptions,
): Promise<{ cursors: RemoteCursor[] }> {
  const settled = await Promise.allSettled(
    shards.map((id, i) => openOn(ctx, routing, [id], commands[i] as Doc, options)),
  );
  const cursors = settled.flatMap((result) => (result.status === "fulfilled" ? result.value.cursors : []));
  const failed = settled.find((result) => result.status === "rejected");
  if (failed !== undefined) {
    await Promise.all(cursors.map((cursor) => cursor.kill()));
    throw failed.reason;
  }
  return { cursors };
}

/** The condition that every document read must meet: `$match` stages in front. */
function leadingMatch(pipeline: readonly Doc[]): Doc | undefined {
  const conditions: Value[] = [];
  for (const stage of pipeline) {
    const { name, spec } = stageOf(stage);
    if (name === "$match" && spec.isObject()) conditions.push(spec);
    else if (name === "$geoNear" && spec.isObject()) {
      const query = spec.doc().find("query");
      if (query?.isObject() === true) conditions.push(query);
      break;
    } else if (name !== "$sort") break;
  }
  const [first, ...others] = conditions;
  if (first === undefined) return undefined;
  return others.length === 0 ? first.doc() : encode({ $and: conditions });
}

const shardNamePlaceholder = "$$shard name$$";
const reportsShard: ReadonlySet<string> = new Set(["$collStats", "$indexStats", "$planCacheStats"]);

/** Statistics say which shard they come from. */
function withShardName(pipeline: readonly Doc[]): Doc[] {
  return pipeline.flatMap((stage, i) =>
    i === 0 && reportsShard.has(stageOf(stage).name)
      ? [stage, encode({ $addFields: { shard: { $literal: shardNamePlaceholder } } })]
      : [stage],
  );
}

function withNamedShard(command: Doc, shard: string): Doc {
  const pipeline = command.docs("pipeline");
  const first = pipeline[0];
  if (first === undefined || !reportsShard.has(stageOf(first).name)) return command;
  const named = pipeline.map((stage, i) =>
    i === 1 && stage.doc("$addFields")?.doc("shard")?.string("$literal") === shardNamePlaceholder
      ? encode({ $addFields: { shard: { $literal: shard } } })
      : stage,
  );
  return command.with({ pipeline: named });
}

interface Foreign {
  /** Unsharded: on the primary shard of the database. */
  readonly local: ReadonlySet<string>;
  /** Sharded, or views: not to be read by one shard alone. */
  readonly distant: ReadonlySet<string>;
}

async function classify(ctx: CommandContext, database: DatabaseEntry, pipeline: readonly Doc[]): Promise<Foreign> {
  const names = foreignCollections(pipeline);
  const local = new Set<string>();
  const distant = new Set<string>();
  if (names.size === 0) return { local, distant };
  const router = routerOf(ctx);
  for (const name of names)
    ((await router.catalog.collection(ctx, `${ctx.db}.${name}`)) === undefined ? local : distant).add(name);
  if (local.size > 0) {
    const shard = await router.shard(ctx, database.primary);
    const plain = new OperationContext(router, { deadline: ctx.deadline, signal: ctx.signal });
    const views = await shard.readAll(
      plain,
      ctx.db,
      { listCollections: 1, filter: { name: { $in: [...local] }, type: "view" }, nameOnly: true },
      { idempotent: true, readPreference: { mode: "primaryPreferred", tags: [] } },
    );
    for (const view of views) {
      const name = view.string("name") ?? "";
      local.delete(name);
      distant.add(name);
    }
  }
  return { local, distant };
}

/** Sends the whole pipeline to one shard. */
async function wholeOn(
  ctx: CommandContext,
  run: PipelineRun,
  id: string,
  routing: Parameters<typeof openOn>[1],
  database: DatabaseEntry,
): Promise<Doc> {
  const router = routerOf(ctx);
  const shard = await router.shard(ctx, id);
  const writes = outputOf(run.pipeline, ctx.db) !== undefined;
  const command = withNamedShard(
    encode({
      aggregate: collOf(run.ns),
      pipeline: withShardName(run.pipeline),
      cursor: run.batchSize === undefined ? {} : { batchSize: run.batchSize },
      ...commonFields(run, true),
      collation: run.collation,
    }),
    id,
  );
  const base = readOptions(ctx);
  const options: RunOptions = writes
    ? { ...base, idempotent: false, readPreference: { mode: "primary", tags: [] }, withWriteConcern: true }
    : base;
  // Other collections are read without a version of their own: the primary shard of the database answers for them.
  const reply = await shard.run(ctx, ctx.db, command, { ...options, version: router.versionOf(routing, id, database) });
  if (run.singleBatch === true) {
    const remote = new RemoteCursor(ctx, shard, ctx.db, reply);
    return firstBatch(ctx, run.replyNs, new SingleCursor(remote), run.batchSize ?? 0, { single: true });
  }
  return passThrough(
    ctx,
    reply,
    () => {
      const remote = new RemoteCursor(ctx, shard, ctx.db, reply);
      while (remote.shift() !== undefined);
      return new SingleCursor(remote);
    },
    run.replyNs,
  );
}

interface MergeParts {
  readonly database: DatabaseEntry;
  readonly foreign: Foreign;
  readonly output: Output | undefined;
  readonly outputRouting: boolean;
  readonly outputDatabase: DatabaseEntry | undefined;
}

/** Runs the second half on one shard over the merged documents. */
async function mergeOn(
  ctx: CommandContext,
  run: PipelineRun,
  stages: readonly Doc[],
  source: RouterCursor,
  parts: MergeParts,
): Promise<Doc> {
  const router = routerOf(ctx);
  const { output } = parts;
  const native = output !== undefined && !parts.outputRouting;
  const needsForeign = foreignCollections(stages);
  const primary = native && needsForeign.size === 0 ? (parts.outputDatabase ?? parts.database) : parts.database;
  const merger = await router.shard(ctx, primary.primary === "config" ? await anyShard(ctx) : primary.primary);
  const db = native && needsForeign.size === 0 ? (output?.db ?? ctx.db) : ctx.db;
  const temporary: TemporaryCollection[] = [];
  try {
    // What the shard does not have, and inside a transaction everything (the second half runs outside of it).
    const copies = new Map<string, string>();
    for (const name of needsForeign)
      if (parts.foreign.distant.has(name) || ctx.inTransaction) {
        const copy = await copyForeign(ctx, name, merger, db, stages);
        temporary.push(copy);
        copies.set(name, copy.name);
      }
    const input = await gather(ctx, source, merger, db, temporary);
    const pipeline = [...input.stages, ...renameForeign(stages, copies)];
    const crosses =
      native &&
      output !== undefined &&
      parts.outputDatabase?.primary !== parts.database.primary &&
      needsForeign.size > 0;
    if (native && output !== undefined && !crosses) pipeline.push(absoluteOutput(output));
    const command = encode({
      aggregate: input.collection === undefined ? 1 : input.collection,
      pipeline,
      cursor:
        run.batchSize !== undefined && run.batchSize > 0 && output === undefined ? { batchSize: run.batchSize } : {},
      ...commonFields(run, false),
      collation: run.collation,
    });
    const plain = new OperationContext(router, {
      deadline: ctx.deadline,
      signal: ctx.signal,
      writeConcern: ctx.writeConcern,
    });
    const reply = await merger.run(plain, db, command, {
      withHost: true,
      withWriteConcern: native,
      idempotent: !native,
      // Collections that this shard must have: is it still the primary shard of the database?
      ...(needsForeign.size > copies.size && parts.database.version !== undefined
        ? { version: { databaseVersion: parts.database.version } }
        : {}),
    });
    const cursor = new OwnedCursor(new SingleCursor(new RemoteCursor(plain, merger, db, reply)), temporary.splice(0));
    if (output !== undefined && (!native || crosses)) {
      try {
        await writeOutput(ctx, output, cursor, run);
      } finally {
        await cursor.kill();
      }
      return emptyCursor(run.replyNs);
    }
    if (native) {
      await cursor.kill();
      const concern = reply.find("writeConcernError");
      const empty = emptyCursor(run.replyNs);
      return concern === undefined ? empty : empty.with({ writeConcernError: concern });
    }
    return await firstBatch(ctx, run.replyNs, cursor, run.batchSize, { single: run.singleBatch === true });
  } catch (error) {
    await source.kill();
    throw error;
  } finally {
    await Promise.all(temporary.map((collection) => collection.drop()));
  }
}

async function anyShard(ctx: CommandContext): Promise<string> {
  const [first] = await routerOf(ctx).catalog.shards(ctx);
  if (first === undefined)
    throw new CommandError(errorCode.ShardNotFound, "the cluster has no shards yet: addShard first");
  return first.id;
}

function absoluteOutput(output: Output): Doc {
  const target = { db: output.db, coll: output.collection };
  if (output.kind === "$out") return encode({ $out: target });
  return encode({ $merge: output.spec.isObject() ? output.spec.doc().with({ into: target }) : { into: target } });
}

/** A cursor with temporary collections that go when it does. */
class OwnedCursor implements RouterCursor {
  readonly #inner: RouterCursor;
  readonly #temporary: readonly TemporaryCollection[];
  #dropped = false;

  constructor(inner: RouterCursor, temporary: readonly TemporaryCollection[]) {
    this.#inner = inner;
    this.#temporary = temporary;
  }

  async next(ctx: OperationContext, maxDocs: number): Promise<Batch> {
    // The second half runs outside the client's session.
    const plain = new OperationContext(ctx.router, { deadline: ctx.deadline, signal: ctx.signal });
    const batch = await this.#inner.next(plain, maxDocs);
    if (batch.exhausted) await this.#drop();
    return batch;
  }

  async kill(): Promise<void> {
    await this.#inner.kill();
    await this.#drop();
  }

  async #drop(): Promise<void> {
    if (this.#dropped) return;
    this.#dropped = true;
    await Promise.all(this.#temporary.map((collection) => collection.drop()));
  }
}

/** All merged documents, as stages in front: inside the command, or in a temporary collection. */
async function gather(
  ctx: CommandContext,
  source: RouterCursor,
  merger: ServerGroup,
  db: string,
  temporary: TemporaryCollection[],
): Promise<{ stages: Doc[]; collection: string | undefined }> {
  let docs: Doc[] = [];
  let bytes = 0;
  let stored: TemporaryCollection | undefined;
  for (;;) {
    const batch = await source.next(ctx, 0);
    for (const doc of batch.docs) {
      docs.push(doc);
      bytes += doc.bytes.length + 12;
    }
    if (bytes > inlineBytes) {
      if (stored === undefined) {
        stored = new TemporaryCollection(ctx, merger, db);
        temporary.push(stored);
      }
      await stored.addWrapped(docs);
      docs = [];
      bytes = 0;
    }
    if (batch.exhausted) break;
  }
  if (stored === undefined) return { stages: [documentsStage(docs)], collection: undefined };
  await stored.addWrapped(docs);
  await stored.flush();
  return {
    stages: [encode({ $sort: { _id: 1 } }), encode({ $replaceRoot: { newRoot: "$d" } })],
    collection: stored.name,
  };
}

/** A copy of a collection or view on the shard that merges. */
async function copyForeign(
  ctx: CommandContext,
  name: string,
  merger: ServerGroup,
  db: string,
  stages: readonly Doc[],
): Promise<TemporaryCollection> {
  const router = routerOf(ctx);
  const copy = new TemporaryCollection(ctx, merger, db);
  const ns = `${ctx.db}.${name}`;
  const routing = await router.catalog.collection(ctx, ns);
  await copy.ensureExists(routing?.defaultCollation === undefined ? {} : { collation: routing.defaultCollation });
  for (const field of joinFields(stages, name)) await copy.index(field);
  const inner = new Context(router, {
    client: ctx.client,
    name: "aggregate",
    db: ctx.db,
    body: encode({ aggregate: name, pipeline: [], cursor: {} }),
    sequences: new Map(),
    deadline: ctx.deadline,
    session: ctx.session,
    readPreference: ctx.readPreference,
    readConcern: ctx.inTransaction ? undefined : ctx.readConcern,
    signal: ctx.signal,
  });
  const reply = await runPipeline(inner, { ns, replyNs: ns, pipeline: [], batchSize: copyBatch, rest: inner.body });
  let cursor = reply.doc("cursor");
  await copy.add(cursor?.docs("firstBatch") ?? []);
  const id = cursor?.find("id")?.bigint() ?? 0n;
  if (id !== 0n) {
    const entry = router.cursors.find(id);
    while (entry !== undefined) {
      const batch = await entry.cursor.next(inner, copyBatch);
      await copy.add(batch.docs);
      if (batch.exhausted) break;
    }
    router.cursors.remove(id);
  }
  cursor = undefined;
  await copy.flush();
  return copy;
}

/** Fields of a foreign collection that `$lookup` and `$graphLookup` look things up by. */
function joinFields(stages: readonly Doc[], from: string): Set<string> {
  const out = new Set<string>();
  for (const stage of stages) {
    const { name, spec } = stageOf(stage);
    if (!spec.isObject() || spec.doc().string("from") !== from) continue;
    const field = spec.doc().string(name === "$lookup" ? "foreignField" : "connectToField");
    if (field !== undefined && field !== "_id") out.add(field);
  }
  return out;
}

async function writeOutput(ctx: CommandContext, output: Output, cursor: RouterCursor, run: PipelineRun): Promise<void> {
  if (output.kind === "$merge") {
    await mergeIntoSharded(ctx, output, cursor, run.rest.doc("let"));
    return;
  }
  // $out into a database whose primary shard is another one than the merging one.
  const router = routerOf(ctx);
  const database = await router.catalog.databaseOrCreate(ctx, output.db);
  const shard = await router.shard(ctx, database.primary);
  const temporary: TemporaryCollection[] = [];
  try {
    const input = await gather(ctx, cursor, shard, output.db, temporary);
    const plain = new OperationContext(router, {
      deadline: ctx.deadline,
      signal: ctx.signal,
      writeConcern: ctx.writeConcern,
    });
    await shard.run(
      plain,
      output.db,
      { aggregate: input.collection ?? 1, pipeline: [...input.stages, absoluteOutput(output)], cursor: {} },
      { withWriteConcern: true },
    );
  } finally {
    await Promise.all(temporary.map((collection) => collection.drop()));
  }
}

const perDocument: ReadonlySet<string> = new Set([
  "$match",
  "$project",
  "$addFields",
  "$set",
  "$unset",
  "$replaceRoot",
  "$unwind",
]);

/** Leading stages that look at one document at a time can run on each shard. */
function perDocumentStages(pipeline: readonly Doc[]): { pushed: readonly Doc[]; rest: readonly Doc[] } {
  const end = pipeline.findIndex((stage) => !perDocument.has(stageOf(stage).name));
  return end < 0 ? { pushed: pipeline, rest: [] } : { pushed: pipeline.slice(0, end), rest: pipeline.slice(end) };
}

/** `aggregate: 1`: pipelines that start from something else than a collection. */
async function aggregateDatabase(ctx: CommandContext, run: PipelineRun): Promise<Doc> {
  const router = routerOf(ctx);
  const first = run.pipeline[0];
  const source = first === undefined ? "" : stageOf(first).name;
  if (source === "$currentOp" && first?.doc("$currentOp")?.bool("localOps") !== true) {
    const shards = (await router.catalog.shards(ctx)).map((shard) => shard.id);
    const cursors = await Promise.all(
      shards.map(async (id) => {
        const shard = await router.shard(ctx, id);
        const command = {
          aggregate: 1,
          pipeline: [
            first as Doc,
            {
              $addFields: {
                shard: { $literal: id },
                opid: {
                  $cond: [
                    { $eq: [{ $type: "$opid" }, "missing"] },
                    "$$REMOVE",
                    { $concat: [id, ":", { $toString: "$opid" }] },
                  ],
                },
              },
            },
          ],
          cursor: {},
        };
        return new RemoteCursor(
          ctx,
          shard,
          "admin",
          await shard.run(ctx, "admin", command, { idempotent: true, withHost: true }),
        );
      }),
    );
    const merged = new MergedCursor(cursors);
    const rest = run.pipeline.slice(1);
    if (rest.length === 0) return firstBatch(ctx, run.replyNs, merged, run.batchSize);
    const database = { name: ctx.db, primary: await anyShard(ctx), version: undefined };
    return mergeOn(ctx, run, rest, merged, {
      database,
      foreign: { local: new Set(), distant: new Set() },
      output: undefined,
      outputRouting: false,
      outputDatabase: undefined,
    });
  }
  if (source === "$listCatalog") {
    // Each shard names itself in what it lists.
    const shards = (await router.catalog.shards(ctx)).map((shard) => shard.id);
    const { pushed, rest } = perDocumentStages(run.pipeline.slice(1));
    const command = { aggregate: 1, pipeline: [first as Doc, ...pushed], cursor: {}, ...commonFields(run, false) };
    const cursors = await Promise.all(
      shards.map(async (id) => {
        const shard = await router.shard(ctx, id);
        const reply = await shard.run(ctx, "admin", command, { idempotent: true, withHost: true });
        return new RemoteCursor(ctx, shard, "admin", reply);
      }),
    );
    const merged = new MergedCursor(cursors);
    if (rest.length === 0) return firstBatch(ctx, run.replyNs, merged, run.batchSize);
    return mergeOn(ctx, run, rest, merged, {
      database: { name: ctx.db, primary: await anyShard(ctx), version: undefined },
      foreign: { local: new Set(), distant: new Set() },
      output: undefined,
      outputRouting: false,
      outputDatabase: undefined,
    });
  }
  if (source === "$shardedDataDistribution") {
    const docs = (await shardedDataDistribution(ctx)).map((doc) => encode(doc));
    const cursor: RouterCursor = { next: async () => ({ docs, exhausted: true }), kill: async () => {} };
    const rest = run.pipeline.slice(1);
    if (rest.length === 0) return firstBatch(ctx, run.replyNs, cursor, run.batchSize);
    return mergeOn(ctx, run, rest, cursor, {
      database: { name: ctx.db, primary: await anyShard(ctx), version: undefined },
      foreign: { local: new Set(), distant: new Set() },
      output: undefined,
      outputRouting: false,
      outputDatabase: undefined,
    });
  }
  if (source === "$documents") {
    const database = (await router.catalog.database(ctx, ctx.db)) ?? {
      name: ctx.db,
      primary: await anyShard(ctx),
      version: undefined,
    };
    const foreign = await classify(ctx, database, run.pipeline);
    const output = outputOf(run.pipeline, ctx.db);
    const id = database.primary === "config" ? await anyShard(ctx) : database.primary;
    const shard = await router.shard(ctx, id);
    const reading = output === undefined ? run.pipeline : run.pipeline.slice(0, -1);
    const command = { aggregate: 1, pipeline: [first as Doc], cursor: {}, ...commonFields(run, false) };
    const plain = new OperationContext(router, { deadline: ctx.deadline, signal: ctx.signal });
    const reply = await shard.run(plain, ctx.db, command, { idempotent: true, withHost: true });
    const cursor = new SingleCursor(new RemoteCursor(plain, shard, ctx.db, reply));
    if (reading.length === 1 && output === undefined) return firstBatch(ctx, run.replyNs, cursor, run.batchSize);
    return mergeOn(ctx, run, reading.slice(1), cursor, {
      database: output === undefined ? database : await router.catalog.databaseOrCreate(ctx, ctx.db),
      foreign,
      output,
      outputRouting:
        output !== undefined &&
        (await router.catalog.collection(ctx, `${output.db}.${output.collection}`)) !== undefined,
      outputDatabase: output === undefined ? undefined : await router.catalog.databaseOrCreate(ctx, output.db),
    });
  }
  if (source === "$listLocalSessions" || source === "$currentOp" || source === "$queryStats")
    throw new CommandError(
      errorCode.CommandNotSupported,
      `${source} on the router itself is not supported by this stand-in`,
    );
  throw new CommandError(
    errorCode.InvalidNamespace,
    `{aggregate: 1} is not valid for '${source}'; a collection is required.`,
  );
}

async function aggregate(ctx: CommandContext): Promise<Reply> {
  const stages = ctx.body.find("pipeline");
  if (stages === undefined)
    throw new CommandError(40414, "BSON field 'aggregate.pipeline' is missing but a required field");
  if (!stages.isArray())
    throw new CommandError(
      errorCode.TypeMismatch,
      `BSON field 'aggregate.pipeline' is the wrong type '${typeName(stages.type)}', expected type 'array'`,
    );
  const pipeline = stages.items().map((stage) => {
    if (!stage.isObject())
      throw new CommandError(errorCode.TypeMismatch, "Each element of the 'pipeline' array must be an object");
    return stage.doc();
  });
  const cursor = ctx.body.doc("cursor");
  if (cursor === undefined && !ctx.body.has("explain"))
    throw new CommandError(
      errorCode.FailedToParse,
      "The 'cursor' option is required, except for aggregate with the explain argument",
    );
  for (const stage of pipeline)
    if (stageOf(stage).name === "$changeStream")
      throw new CommandError(
        errorCode.CommandNotSupported,
        "$changeStream is not supported by this stand-in for mongos; open it on a shard, or use a real mongos",
      );
  const batchSize = cursor?.number("batchSize");
  const whole = ctx.body.first();
  const isDatabase = whole?.isNumber() === true;
  const ns = isDatabase ? `${ctx.db}.$cmd.aggregate` : ctx.namespace();
  const run: PipelineRun = {
    ns,
    replyNs: ns,
    pipeline,
    collation: ctx.body.doc("collation"),
    batchSize,
    rest: ctx.body,
  };
  return isDatabase ? aggregateDatabase(ctx, run) : runPipeline(ctx, run);
}

export const aggregateCommands: CommandTable = {
  aggregate: { requires: requirementOf("aggregate"), inTransaction: true, read: true, handler: aggregate },
};
