/** commitTransaction, abortTransaction and the commands of sessions. */

import { randomBytes } from "node:crypto";
import { bsonType, Doc, encode, Value } from "../bson/document.ts";
import type { ClusterRouter } from "../cluster-router.ts";
import { type CommandContext, OperationContext, type Reply } from "../context.ts";
import { CommandError, errorCode } from "../errors.ts";
import { noSuchTransaction } from "../transactions/transactions.ts";
import { routerOf } from "./find.ts";
import type { CommandTable } from "./registry.ts";
import { mergeConcernErrors } from "./write.ts";

/** Commits the transaction of an operation; the reply may hold a writeConcernError. */
export async function commitTransaction(
  router: ClusterRouter,
  ctx: OperationContext,
  recoveryToken?: Doc,
): Promise<Doc> {
  const transaction = router.transactions.of(ctx);
  if (transaction === undefined) throw noSuchTransaction("no transaction");
  if (transaction.outcome === "aborted")
    throw noSuchTransaction(`Transaction ${transaction.txnNumber} has been aborted`);
  const options = { withWriteConcern: true, idempotent: true, commit: true } as const;
  const participants = [...transaction.participants];
  if (participants.length === 0) {
    const recovery = recoveryToken?.string("recoveryShardId");
    if (recovery === undefined) {
      if (transaction.recovering)
        throw new CommandError(50940, "Cannot recover the transaction decision without a recoveryToken");
      transaction.outcome = "committed";
      return encode({});
    }
    const shard = await router.shard(ctx, recovery);
    return shard.run(
      new OperationContext(router, { deadline: ctx.deadline, session: ctx.session, writeConcern: ctx.writeConcern }),
      "admin",
      { coordinateCommitTransaction: 1, participants: [] },
      { ...options, recovering: true },
    );
  }
  transaction.outcome = "committed";
  const writers = participants.filter(([, p]) => p.readOnly !== true).map(([id]) => id);
  try {
    if (participants.length === 1 || writers.length === 0) {
      const errors: { shard: string; error: Doc }[] = [];
      let last: Doc = Doc.empty;
      for (const [id] of participants) {
        const shard = await router.shard(ctx, id);
        last = await commitOn(shard.run.bind(shard), ctx, options);
        const concern = last.doc("writeConcernError");
        if (concern !== undefined) errors.push({ shard: id, error: concern });
      }
      return errors.length === 0 ? encode({}) : encode({ writeConcernError: mergeConcernErrors(errors) });
    }
    const coordinator = await router.shard(ctx, transaction.coordinator as string);
    const command = encode({
      coordinateCommitTransaction: 1,
      participants: participants.map(([id]) => ({ shardId: id })),
    });
    const reply = await coordinator.run(ctx, "admin", command, options);
    const concern = reply.doc("writeConcernError");
    return concern === undefined ? encode({}) : encode({ writeConcernError: concern });
  } catch (error) {
    if (error instanceof CommandError && error.code === errorCode.NoSuchTransaction) transaction.outcome = "aborted";
    throw error;
  }
}

type Run = (
  ctx: OperationContext,
  db: string,
  command: Doc,
  options: { withWriteConcern: true; idempotent: true; commit: true },
) => Promise<Doc>;

function commitOn(
  run: Run,
  ctx: OperationContext,
  options: { withWriteConcern: true; idempotent: true; commit: true },
): Promise<Doc> {
  return run(ctx, "admin", encode({ commitTransaction: 1 }), options);
}

async function commit(ctx: CommandContext): Promise<Reply> {
  requireTransaction(ctx);
  return commitTransaction(routerOf(ctx), ctx, ctx.body.doc("recoveryToken"));
}

async function abort(ctx: CommandContext): Promise<Reply> {
  requireTransaction(ctx);
  const router = routerOf(ctx);
  const transaction = router.transactions.of(ctx);
  if (transaction === undefined) throw noSuchTransaction("no transaction");
  if (transaction.outcome === "aborted")
    throw noSuchTransaction(`Transaction ${transaction.txnNumber} has been aborted`);
  if (transaction.outcome === "committed" && transaction.participants.size > 0)
    throw new CommandError(256, "Transaction has been committed", { codeName: "TransactionCommitted" });
  const participants = [...transaction.participants.keys()];
  if (participants.length === 0)
    throw noSuchTransaction("no known command has been sent by this router for this transaction");
  transaction.outcome = "aborted";
  let failed: unknown;
  await Promise.all(
    participants.map(async (id) => {
      try {
        const shard = await router.shard(ctx, id);
        await shard.run(
          ctx,
          "admin",
          { abortTransaction: 1 },
          { withWriteConcern: true, idempotent: true, commit: true },
        );
      } catch (error) {
        failed ??= error;
      }
    }),
  );
  if (failed !== undefined) throw failed;
  return {};
}

function requireTransaction(ctx: CommandContext): void {
  if (ctx.db !== "admin")
    throw new CommandError(errorCode.Unauthorized, `${ctx.name} may only be run against the admin database.`);
  if (!ctx.inTransaction)
    throw new CommandError(125, `${ctx.name} must be run within a transaction`, {
      codeName: "CommandFailed",
    });
}

/** Ends sessions: their cursors close, their open transactions abort. */
async function endSessions(ctx: CommandContext): Promise<Reply> {
  const router = routerOf(ctx);
  const field = ctx.body.first();
  const ids = field?.isArray() === true ? field.items() : [];
  for (const value of ids) {
    const id = value.isObject() ? value.doc().find("id") : undefined;
    if (id === undefined) continue;
    const prefix = id.bytes.toString("hex", id.start + 5, id.end);
    for (const entry of router.cursors.entries)
      if (entry.sessionKey?.startsWith(prefix) === true) await router.cursors.kill(entry.id);
    await router.endSession(prefix);
  }
  return {};
}

async function startSession(_ctx: CommandContext): Promise<Reply> {
  const id = randomBytes(16);
  id[6] = ((id[6] as number) & 0x0f) | 0x40;
  id[8] = ((id[8] as number) & 0x3f) | 0x80;
  const bytes = Buffer.alloc(21);
  bytes.writeInt32LE(16);
  bytes[4] = 4;
  id.copy(bytes, 5);
  return { id: { id: new Value(bsonType.binData, bytes, 0, 21) }, timeoutMinutes: 30 };
}

export const transactionCommands: CommandTable = {
  commitTransaction: { requires: "authenticated", inTransaction: true, handler: commit },
  abortTransaction: { requires: "authenticated", inTransaction: true, handler: abort },
  endSessions: { requires: "authenticated", handler: endSessions },
  killSessions: {
    requires: () => [{ resource: { cluster: true }, actions: ["killAnySession"] }],
    handler: endSessions,
  },
  refreshSessions: { requires: "authenticated", handler: async () => ({}) },
  startSession: { requires: "authenticated", handler: startSession },
};
