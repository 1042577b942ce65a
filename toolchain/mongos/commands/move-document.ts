/**
 * A document whose shard key value changes so that another shard owns it: deleted on the old shard and inserted on the new
 * one in one transaction, as mongos does it. A retryable write's number becomes the transaction's number.
 */
import { Doc, encode, type Value } from "../bson/document.ts";
import { type ClusterRouter, collOf, dbOf } from "../cluster-router.ts";
import type { CommandContext, OperationContext } from "../context.ts";
import { CommandError, errorCode } from "../errors.ts";
import { keyOfDocument, parseShardKey } from "../targeting/shard-key.ts";
import { inTransactionContext } from "../transactions/transactions.ts";
import { commitTransaction } from "./transactions.ts";

export interface Moved {
  /** 1, or 0 when the document was changed by someone else meanwhile. */
  readonly n: number;
  readonly upserted: Value | undefined;
  readonly preImage: Doc;
  readonly postImage: Doc;
}

/** Runs the write again inside the transaction; gives the shard's answer, or throws its error. */
type Again = (send: (command: Doc) => Promise<Doc>) => Promise<Doc>;

/** Moves the document that `info` (`{preImage, postImage, shouldUpsert}`, from shard `origin`) tells of. */
export async function moveDocument(
  ctx: CommandContext,
  ns: string,
  info: Doc,
  origin: string,
  again: Again,
): Promise<Moved> {
  const router = ctx.router as ClusterRouter;
  if (ctx.inTransaction) return moveIn(router, ctx, ns, info);
  if (ctx.session?.txnNumber === undefined)
    throw new CommandError(
      errorCode.IllegalOperation,
      "Must run update to shard key field in a multi-statement transaction or with retryWrites: true.",
    );
  router.transactions.startInternal(ctx, encode({ level: "local" }));
  const inner = inTransactionContext(ctx);
  try {
    // The document is read again inside the transaction, so that nobody changes it between here and the delete.
    const moved = await router.retryStale(inner, ns, async () => {
      const fresh = await askAgain(router, inner, ns, info, origin, again);
      return moveIn(router, inner, ns, fresh);
    });
    const reply = await commitTransaction(router, inner);
    const concern = reply.doc("writeConcernError");
    if (concern !== undefined)
      throw new CommandError(concern.number("code") ?? 64, concern.string("errmsg") ?? "write concern failed");
    return moved;
  } catch (error) {
    await router.abortImplicitly(inner);
    throw error;
  }
}

/** The statement once more, on the shard that holds the document now; its refusal tells the images. */
async function askAgain(
  router: ClusterRouter,
  ctx: OperationContext,
  ns: string,
  info: Doc,
  origin: string,
  again: Again,
): Promise<Doc> {
  const routing = await router.catalog.collection(ctx, ns);
  const pre = info.doc("preImage");
  if (routing === undefined || pre === undefined) return info;
  // An upsert has no document yet: it is asked where the query led.
  const upsert = info.bool("shouldUpsert") === true;
  const id = upsert ? origin : routing.table.chunkFor(keyOfDocument(parseShardKey(routing.key), pre)).shard;
  const shard = await router.shard(ctx, id);
  try {
    const reply = await again((command) =>
      shard.run(ctx, dbOf(ns), command, { version: router.versionOf(routing, id, undefined) }),
    );
    const [error] = reply.docs("writeErrors");
    if (error?.number("code") === errorCode.WouldChangeOwningShard) return error;
    throw new CommandError(
      errorCode.WriteConflict,
      "the document was changed while it was being moved to another shard; try again",
    );
  } catch (error) {
    if (error instanceof CommandError && error.code === errorCode.WouldChangeOwningShard && error.reply !== undefined)
      return error.reply;
    throw error;
  }
}

async function moveIn(router: ClusterRouter, ctx: OperationContext, ns: string, info: Doc): Promise<Moved> {
  const preImage = info.doc("preImage") ?? Doc.empty;
  const postImage = info.doc("postImage") ?? Doc.empty;
  const routing = await router.catalog.collection(ctx, ns);
  if (routing === undefined) throw new CommandError(errorCode.NamespaceNotSharded, `${ns} is not sharded any more`);
  const key = parseShardKey(routing.key);
  const on = async (document: Doc, command: Doc): Promise<Doc> => {
    const id = routing.table.chunkFor(keyOfDocument(key, document)).shard;
    const shard = await router.shard(ctx, id);
    const reply = await shard.run(ctx, dbOf(ns), command, { version: router.versionOf(routing, id, undefined) });
    const [error] = reply.docs("writeErrors");
    if (error !== undefined)
      throw new CommandError(error.number("code") ?? 0, error.string("errmsg") ?? "", {
        codeName: error.string("codeName"),
        extra: Object.fromEntries(
          error
            .elements()
            .filter((e) => e.name === "keyPattern" || e.name === "keyValue")
            .map((e) => [e.name, e]),
        ),
      });
    return reply;
  };
  const upsert = info.bool("shouldUpsert") === true;
  if (!upsert) {
    const fields = key.fields.map((field) => [field.path, preImage.path(field.path)] as const);
    const query = encode({
      _id: preImage.find("_id"),
      ...Object.fromEntries(
        fields.filter(([path]) => path !== "_id").map(([path, value]) => [path, { $eq: value ?? null }]),
      ),
    });
    const deleted = await on(
      preImage,
      encode({ delete: collOf(ns), deletes: [{ q: query, limit: 1 }], ordered: true }),
    );
    if ((deleted.number("n") ?? 0) === 0) return { n: 0, upserted: undefined, preImage, postImage };
  }
  await on(postImage, encode({ insert: collOf(ns), documents: [postImage], ordered: true }));
  return { n: 1, upserted: upsert ? postImage.find("_id") : undefined, preImage, postImage };
}
