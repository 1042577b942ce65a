/** explain: the shards explain their part, the router puts the parts together as a mongos does. */
import { outputOf, type Split, splitPipeline } from "../aggregation/pipeline.ts";
import { Doc, DocWriter, type Encodable, encode, type Fields } from "../bson/document.ts";
import { CommandContext } from "../context.ts";
import { CommandError, errorCode } from "../errors.ts";
import type { ShardReply } from "../router.ts";
import { connectionStrings, passOn, whole } from "./arguments.ts";
import { viewOf } from "./find.ts";
import type { CommandTable, Privilege } from "./registry.ts";

const verbosities: ReadonlySet<string> = new Set(["queryPlanner", "executionStats", "allPlansExecution"]);

/** The command inside, as if it had come by itself. */
function innerContext(ctx: CommandContext): CommandContext {
  const inner = ctx.body.doc("explain");
  if (inner === undefined)
    throw new CommandError(
      errorCode.TypeMismatch,
      "BSON field 'explain.explain' is the wrong type, expected type 'object'",
    );
  const name = inner.first()?.name ?? "";
  const found = ctx.router.commands.find(name);
  if (found === undefined)
    throw new CommandError(errorCode.CommandNotFound, `Explain failed due to unknown command: ${name}`);
  return new CommandContext(ctx.router, {
    client: ctx.client,
    name: found.name,
    db: inner.string("$db") ?? ctx.db,
    body: inner,
    sequences: new Map(),
    deadline: ctx.deadline,
    session: ctx.session,
    readPreference: ctx.readPreference,
    readConcern: ctx.readConcern,
    writeConcern: undefined,
    comment: ctx.comment,
  });
}

function requires(ctx: CommandContext): readonly Privilege[] {
  const inner = innerContext(ctx);
  const requirement = ctx.router.commands.find(inner.name)?.definition.requires;
  return typeof requirement === "function" ? requirement(inner) : [];
}

/** What a command reads or changes, and how its parts are merged. */
interface Plan {
  readonly query: Doc;
  readonly collation: Doc | undefined;
  readonly stage: (shards: number) => string;
  /** The command as each shard gets it. */
  readonly perShard: Doc;
}

const readStage = (sorted: boolean) => (shards: number) =>
  shards === 1 ? "SINGLE_SHARD" : sorted ? "SHARD_MERGE_SORT" : "SHARD_MERGE";

function findPlan(command: Doc): Plan {
  const sorted = command.doc("sort")?.isEmpty() === false;
  const skip = command.number("skip") ?? 0;
  const limit = command.number("limit") ?? 0;
  return {
    query: command.doc("filter") ?? encode({}),
    collation: command.doc("collation"),
    stage: readStage(sorted),
    // Each shard must give what could be skipped as well; the router skips.
    perShard: skip > 0 ? command.without("skip").with(limit > 0 ? { limit: skip + limit } : {}) : command,
  };
}

/** A find as the stages of a pipeline. */
function findStages(find: Doc): readonly Doc[] {
  const stages: Fields[] = [];
  const add = (stage: string, value: Encodable) => {
    if (value !== undefined && !(value instanceof Doc && value.isEmpty()) && value !== 0)
      stages.push({ [stage]: value });
  };
  add("$match", find.doc("filter"));
  add("$sort", find.doc("sort"));
  add("$skip", find.number("skip") ?? 0);
  add("$limit", find.number("limit") ?? 0);
  add("$project", find.doc("projection"));
  return stages.map((stage) => encode(stage));
}

function readPlan(command: Doc): Plan {
  return {
    query: command.doc("query") ?? encode({}),
    collation: command.doc("collation"),
    stage: readStage(false),
    perShard: command,
  };
}

function writePlan(command: Doc, statements: string): Plan {
  const [statement, ...more] = command.docs(statements);
  if (statement === undefined || more.length > 0)
    throw new CommandError(errorCode.InvalidLength, "explained write batches must be of size 1");
  return {
    query: statement.doc("q") ?? encode({}),
    collation: statement.doc("collation"),
    stage: () => "SHARD_WRITE",
    perShard: command,
  };
}

function planOf(inner: CommandContext): Plan {
  const command = inner.command();
  switch (inner.name) {
    case "find":
      return findPlan(command);
    case "count":
    case "distinct":
      return readPlan(command);
    case "update":
      return writePlan(command, "updates");
    case "delete":
      return writePlan(command, "deletes");
    case "findAndModify":
      return { ...readPlan(command), stage: () => "SINGLE_SHARD" };
    default:
      throw new CommandError(errorCode.IllegalOperation, `Cannot explain cmd: ${inner.name}`);
  }
}

async function explain(ctx: CommandContext): Promise<Fields | Doc> {
  const started = performance.now();
  const inner = innerContext(ctx);
  const verbosity = ctx.body.string("verbosity") ?? "allPlansExecution";
  if (!verbosities.has(verbosity))
    throw new CommandError(
      errorCode.BadValue,
      `Enumeration value '${verbosity}' for field 'explain.verbosity' is not a valid value.`,
    );
  if (inner.name === "aggregate") return explainAggregate(inner, verbosity);
  const plan = planOf(inner);
  const ns = inner.namespace();
  if (inner.name === "findAndModify" && (await ctx.router.targets(inner, ns, plan.query, plan.collation)).length > 1)
    throw new CommandError(errorCode.ShardKeyNotFound, "Query for sharded findAndModify must contain the shard key");
  let replies: readonly ShardReply[];
  try {
    replies = await ctx.router.onShardsOwning(
      inner,
      ns,
      { explain: plan.perShard, verbosity },
      {
        idempotent: true,
        readPreference: ctx.readPreference,
        query: plan.query,
        ...(plan.collation === undefined ? {} : { collation: plan.collation }),
      },
    );
  } catch (error) {
    const view = viewOf(error);
    if (view === undefined || inner.name !== "find") throw error;
    // A view on a sharded collection is read by an aggregate, and explained as one.
    const stages = [...view.docs("pipeline"), ...findStages(inner.body)];
    const behind = { ns: view.string("ns") ?? ns, pipeline: stages, collation: view.doc("collation") };
    return resolvingViews(behind, (resolved) => explainPipeline(inner, resolved, verbosity));
  }
  return merged(inner, plan.stage(replies.length), verbosity, replies, performance.now() - started);
}

async function merged(
  ctx: CommandContext,
  stage: string,
  verbosity: string,
  replies: readonly ShardReply[],
  elapsedMs: number,
): Promise<Fields> {
  const hosts = await connectionStrings(ctx);
  const { info } = ctx.router;
  const planned = replies.map(({ shard, reply }) => {
    const out = new DocWriter()
      .append("shardName", shard)
      .append("connectionString", hosts.get(shard) ?? ctx.router.config.connectionString())
      .append("serverInfo", reply.find("serverInfo"));
    const planner = reply.doc("queryPlanner");
    if (planner !== undefined) out.all(planner);
    return out.finish();
  });
  return {
    queryPlanner: { mongosPlannerVersion: 1, winningPlan: { stage, shards: planned } },
    ...(verbosity === "queryPlanner" ? {} : { executionStats: executed(stage, verbosity, replies, elapsedMs) }),
    serverInfo: { host: info.host, port: info.port, version: info.version, gitVersion: "none" },
    command: ctx.command().with({ $db: ctx.db }),
  };
}

function executed(stage: string, verbosity: string, replies: readonly ShardReply[], elapsedMs: number): Fields {
  const stats = replies.map(({ shard, reply }) => ({ shard, stats: reply.doc("executionStats") ?? encode({}) }));
  const total = (field: string): Encodable => whole(stats.reduce((n, one) => n + (one.stats.number(field) ?? 0), 0));
  const totals = {
    nReturned: total("nReturned"),
    executionTimeMillis: Math.round(elapsedMs),
    totalKeysExamined: total("totalKeysExamined"),
    totalDocsExamined: total("totalDocsExamined"),
  };
  return {
    ...totals,
    executionStages: {
      stage,
      ...totals,
      totalChildMillis: total("executionTimeMillis"),
      shards: stats.map((one) =>
        new DocWriter().append("shardName", one.shard).all(one.stats.without("allPlansExecution")).finish(),
      ),
    },
    ...(verbosity === "allPlansExecution"
      ? {
          allPlansExecution: stats.map((one) => ({
            shardName: one.shard,
            allPlans: one.stats.find("allPlansExecution"),
          })),
        }
      : {}),
  };
}

/** What every document read must meet: the `$match` stages in front, which decide which shards are asked. */
function leadingMatch(pipeline: readonly Doc[]): Doc {
  const end = pipeline.findIndex((stage) => stage.doc("$match") === undefined);
  const conditions = (end < 0 ? pipeline : pipeline.slice(0, end)).flatMap((stage) => stage.doc("$match") ?? []);
  const [first, ...more] = conditions;
  if (first === undefined) return encode({});
  return more.length === 0 ? first : encode({ $and: conditions });
}

/** An aggregate as it is explained: on which collection, and what of it runs where. */
interface AggregatePlan {
  readonly ns: string;
  readonly pipeline: readonly Doc[];
  readonly collation: Doc | undefined;
}

async function explainAggregate(ctx: CommandContext, verbosity: string): Promise<Fields | Doc> {
  const plan: AggregatePlan = {
    ns: ctx.namespace(),
    pipeline: ctx.body.docs("pipeline"),
    collation: ctx.body.doc("collation"),
  };
  return resolvingViews(plan, (resolved) => explainPipeline(ctx, resolved, verbosity));
}

/** Explains on the collection behind a view when a shard says that it is a view on a sharded one. */
async function resolvingViews(
  plan: AggregatePlan,
  explained: (plan: AggregatePlan) => Promise<Fields | Doc>,
): Promise<Fields | Doc> {
  try {
    return await explained(plan);
  } catch (error) {
    const view = viewOf(error);
    const ns = view?.string("ns");
    if (view === undefined || ns === undefined || ns === plan.ns) throw error;
    const pipeline = [...view.docs("pipeline"), ...plan.pipeline];
    return resolvingViews({ ns, pipeline, collation: view.doc("collation") ?? plan.collation }, explained);
  }
}

async function explainPipeline(ctx: CommandContext, plan: AggregatePlan, verbosity: string): Promise<Fields | Doc> {
  const { ns, pipeline, collation } = plan;
  const routing = await ctx.router.catalog.collection(ctx, ns);
  const query = leadingMatch(pipeline);
  const shards = await ctx.router.targets(ctx, ns, query, collation);
  const reading = outputOf(pipeline, ctx.db) === undefined ? pipeline : pipeline.slice(0, -1);
  const split = routing === undefined || shards.length < 2 ? undefined : splitPipeline(reading);
  const common = ctx.name === "aggregate" ? ctx.command().without("explain", "aggregate") : encode({});
  const command = encode({ aggregate: "" })
    .with(Object.fromEntries(common.elements().map((element) => [element.name, element])))
    .with({
      aggregate: ns.slice(ns.indexOf(".") + 1),
      pipeline: split === undefined ? pipeline : split.shards,
      cursor: {},
      ...(collation === undefined ? {} : { collation }),
      ...(split === undefined ? {} : { fromMongos: true, needsMerge: true }),
    });
  const replies = await ctx.router.onShardsOwning(
    ctx,
    ns,
    { explain: command, verbosity },
    {
      idempotent: true,
      readPreference: ctx.readPreference,
      query,
      ...(collation === undefined ? {} : { collation }),
    },
  );
  const [only] = replies;
  // An unsharded collection's shard answers for the whole.
  if (routing === undefined && only !== undefined) return passOn(only.reply);
  const { info } = ctx.router;
  return {
    serverInfo: { host: info.host, port: info.port, version: info.version, gitVersion: "none" },
    ...(split === undefined
      ? { splitPipeline: null }
      : {
          mergeType: "mongos",
          splitPipeline: { shardsPart: split.shards, mergerPart: mergerPart(split, pipeline, ctx.db) },
        }),
    shards: Object.fromEntries(replies.map(({ shard, reply }) => [shard, shardPart(reply)])),
    command: ctx.command().with({ $db: ctx.db }),
  };
}

function mergerPart(split: Split, pipeline: readonly Doc[], db: string): readonly Encodable[] {
  return [
    ...(split.skip > 0 ? [{ $skip: split.skip }] : []),
    ...(split.limit === undefined ? [] : [{ $limit: split.limit }]),
    ...split.merge,
    ...(outputOf(pipeline, db) === undefined ? [] : pipeline.slice(-1)),
  ];
}

function shardPart(reply: Doc): Doc {
  const server = reply.doc("serverInfo");
  const out = new DocWriter().append("host", `${server?.string("host") ?? ""}:${server?.number("port") ?? ""}`);
  for (const field of ["explainVersion", "stages", "queryPlanner", "executionStats"]) {
    const value = reply.find(field);
    if (value !== undefined) out.element(value);
  }
  return out.finish();
}

export const explainCommands: CommandTable = {
  explain: { requires, handler: explain },
};
