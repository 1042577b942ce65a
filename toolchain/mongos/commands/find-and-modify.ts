/** findAndModify. */
import { Doc, encode, type Value } from "../bson/document.ts";
import { targetingCollation } from "../cluster-router.ts";
import type { CommandContext, Reply } from "../context.ts";
import { CommandError, errorCode } from "../errors.ts";
import type { RunOptions } from "../router.ts";
import { exactKey } from "../targeting/query-ranges.ts";
import { parseShardKey } from "../targeting/shard-key.ts";
import { routerOf } from "./find.ts";
import { moveDocument } from "./move-document.ts";
import type { CommandTable } from "./registry.ts";

async function findAndModify(ctx: CommandContext): Promise<Reply> {
  const router = routerOf(ctx);
  const ns = ctx.namespace();
  const query = ctx.body.doc("query") ?? Doc.empty;
  const given = ctx.command();
  // One name towards the shards, whatever the client called it.
  const command = encode({ findAndModify: ctx.collection() });
  const body = command.with(
    Object.fromEntries(
      given
        .elements()
        .slice(1)
        .map((element) => [element.name, element as Value]),
    ),
  );
  const stmtId = ctx.body.number("stmtId");
  const options: RunOptions = {
    retryableWrite: true,
    withWriteConcern: true,
    ...(ctx.session?.txnNumber !== undefined && !ctx.inTransaction && stmtId !== undefined
      ? { stmtIds: [stmtId] }
      : {}),
  };
  return router.retryStale(ctx, ns, async () => {
    const database = await router.catalog.databaseOrCreate(ctx, ctx.db);
    const routing = await router.catalog.collection(ctx, ns);
    let id = database.primary;
    if (routing !== undefined) {
      const key = exactKey(parseShardKey(routing.key), query, targetingCollation(routing, ctx.body.doc("collation")));
      if (key === undefined)
        throw new CommandError(
          errorCode.ShardKeyNotFound,
          "Query for sharded findAndModify must contain the shard key",
        );
      id = routing.table.chunkFor(key).shard;
    }
    const shard = await router.shard(ctx, id);
    try {
      return await shard.run(ctx, ctx.db, body, { ...options, version: router.versionOf(routing, id, database) });
    } catch (error) {
      if (
        !(error instanceof CommandError) ||
        error.code !== errorCode.WouldChangeOwningShard ||
        error.reply === undefined
      )
        throw error;
      const moved = await moveDocument(ctx, ns, error.reply, id, (send) => send(body));
      const isNew = ctx.body.bool("new") === true;
      const upserted = moved.upserted;
      if (moved.n === 0) return { lastErrorObject: { n: 0, updatedExisting: false }, value: null };
      return {
        lastErrorObject: {
          n: 1,
          updatedExisting: upserted === undefined,
          ...(upserted === undefined ? {} : { upserted }),
        },
        value: isNew ? moved.postImage : upserted === undefined ? moved.preImage : null,
      };
    }
  });
}

export const findAndModifyCommands: CommandTable = {
  findAndModify: {
    aliases: ["findandmodify"],
    requires: (ctx) => [
      {
        resource: { db: ctx.db, collection: ctx.collection() },
        actions: [
          "find",
          ...(ctx.body.bool("remove") === true ? ["remove"] : ["update"]),
          ...(ctx.body.bool("upsert") === true ? ["insert"] : []),
        ],
      },
    ],
    inTransaction: true,
    write: true,
    handler: findAndModify,
  },
};
