/** Reads of views on sharded collections: the view's pipeline runs before the reader's own. */
import type { Doc } from "../bson/document.ts";
import type { CommandContext } from "../context.ts";
import { runPipeline } from "./aggregate.ts";

export interface ViewRead {
  readonly collation?: Doc | undefined;
  readonly batchSize?: number | undefined;
  readonly singleBatch?: boolean;
}

/** Runs `stages` after the pipeline of a resolved view (`{ns, pipeline, collation}`). */
export async function runViewAggregate(
  ctx: CommandContext,
  view: Doc,
  stages: readonly Doc[],
  options: ViewRead,
): Promise<Doc> {
  const ns = view.string("ns") ?? "";
  const pipeline = [...view.docs("pipeline"), ...stages];
  return runPipeline(ctx, {
    ns,
    replyNs: ctx.namespace(),
    pipeline,
    collation: view.doc("collation") ?? options.collation,
    batchSize: options.batchSize,
    singleBatch: options.singleBatch === true,
    rest: ctx.body,
  });
}
