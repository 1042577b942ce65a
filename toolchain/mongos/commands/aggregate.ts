/** aggregate. */
import { type Doc, encode } from "../bson/document.ts";
import type { CommandContext, Reply } from "../context.ts";
import { RemoteCursor, SingleCursor } from "../cursors/remote.ts";
import { CommandError, errorCode } from "../errors.ts";
import { emptyCursor, firstBatch, passThrough, readOptions, routerOf, viewOf } from "./find.ts";
import type { CommandTable } from "./registry.ts";

export interface PipelineRun {
  readonly ns: string;
  readonly replyNs: string;
  readonly pipeline: readonly Doc[];
  readonly collation?: Doc | undefined;
  readonly batchSize?: number | undefined;
  readonly singleBatch?: boolean;
  readonly rest: Doc;
}

export async function runPipeline(_ctx: CommandContext, _run: PipelineRun): Promise<Doc> {
  throw new CommandError(errorCode.CommandNotSupported, "not yet");
}

async function aggregate(ctx: CommandContext): Promise<Reply> {
  const router = routerOf(ctx);
  const ns = ctx.namespace();
  return router.retryStale(ctx, ns, async () => {
    const database = await router.catalog.database(ctx, ctx.db);
    if (database === undefined) return emptyCursor(ns);
    const id = database.primary;
    const shard = await router.shard(ctx, id);
    const reply = await shard.run(ctx, ctx.db, ctx.command(), {
      ...readOptions(ctx),
      version: router.versionOf(undefined, id, database),
    });
    return passThrough(ctx, reply, () => {
      const remote = new RemoteCursor(ctx, shard, ctx.db, reply);
      while (remote.shift() !== undefined);
      return new SingleCursor(remote);
    });
  });
}

export const aggregateCommands: CommandTable = {
  aggregate: { requires: "authenticated", inTransaction: true, read: true, handler: aggregate },
};
void [encode, firstBatch, viewOf];
