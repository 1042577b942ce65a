/** `$merge` into a sharded collection: every document becomes a routed write. */
import type { Output } from "../aggregation/pipeline.ts";
import { bsonType, type Doc, encode, type Fields, Value } from "../bson/document.ts";
import { CommandContext } from "../context.ts";
import type { RouterCursor } from "../cursors/store.ts";
import { CommandError } from "../errors.ts";
import { routerOf } from "./find.ts";
import { writeBatch } from "./write.ts";

const batchSize = 1_000;

/** Fields that identify a document in the target: `on`, else `_id` and the shard key. */
function identity(output: Output, shardKey: Doc): string[] {
  const given = output.spec.isObject() ? output.spec.doc().find("on") : undefined;
  if (given?.type === bsonType.string) return [given.text()];
  if (given?.isArray() === true) return given.items().map((item) => item.text());
  const fields = shardKey.elements().map((field) => field.name);
  return fields.includes("_id") ? fields : ["_id", ...fields];
}

/** Writes all documents of a cursor into the target collection. */
export async function mergeIntoSharded(
  ctx: CommandContext,
  output: Output,
  cursor: RouterCursor,
  variables: Doc | undefined,
): Promise<void> {
  const router = routerOf(ctx);
  const ns = `${output.db}.${output.collection}`;
  const routing = await router.catalog.collection(ctx, ns);
  const on = identity(output, routing?.key ?? encode({ _id: 1 }));
  const spec = output.spec.isObject() ? output.spec.doc() : encode({});
  const whenMatched = spec.find("whenMatched") ?? Value.of("merge");
  const whenNotMatched = spec.string("whenNotMatched") ?? "insert";
  const matched = whenMatched.type === bsonType.string ? whenMatched.text() : "pipeline";
  for (;;) {
    const batch = await cursor.next(ctx, batchSize);
    if (batch.docs.length > 0) {
      const inserts = matched === "fail" && whenNotMatched === "insert";
      const statements = batch.docs.map((doc) =>
        inserts ? doc : statementFor(doc, on, matched, whenMatched, whenNotMatched, spec.doc("let") ?? variables),
      );
      const inner = new CommandContext(router, {
        client: ctx.client,
        name: inserts ? "insert" : "update",
        db: output.db,
        body: encode({ [inserts ? "insert" : "update"]: output.collection, ordered: true }),
        sequences: new Map([[inserts ? "documents" : "updates", statements]]),
        deadline: ctx.deadline,
        writeConcern: ctx.writeConcern,
        signal: ctx.signal,
      });
      const reply = encode(await writeBatch(inner, inserts ? "insert" : "update"));
      const [error] = reply.docs("writeErrors");
      if (error !== undefined)
        throw new CommandError(
          error.number("code") ?? 0,
          `PlanExecutor error during aggregation :: caused by :: ${error.string("errmsg")}`,
        );
      if (whenNotMatched === "fail" && (reply.number("n") ?? 0) < statements.length)
        throw new CommandError(
          13113,
          "$merge could not find a matching document in the target collection for at least one document in the source collection",
          { codeName: "MergeStageNoMatchingDocument" },
        );
    }
    if (batch.exhausted) return;
  }
}

function statementFor(
  doc: Doc,
  on: readonly string[],
  matched: string,
  whenMatched: Value,
  whenNotMatched: string,
  variables: Doc | undefined,
): Doc {
  const q: Record<string, Fields[string]> = {};
  for (const path of on) q[path] = { $eq: doc.path(path) ?? null };
  const upsert = whenNotMatched === "insert";
  const changed = doc.without(...on.filter((path) => !path.includes(".")));
  switch (matched) {
    case "replace":
      return encode({ q, u: doc, upsert });
    case "keepExisting":
      return encode({ q, u: { $setOnInsert: changed }, upsert });
    case "pipeline":
      return encode({
        q,
        u: whenMatched,
        upsert,
        c: encode({ new: doc }).with(Object.fromEntries((variables?.elements() ?? []).map((v) => [v.name, v]))),
      });
    default:
      return encode({ q, u: changed.isEmpty() ? { $setOnInsert: {} } : { $set: changed }, upsert });
  }
}
