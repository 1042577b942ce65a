/** `$shardedDataDistribution`: how many documents and bytes each shard owns of each sharded collection. */
import type { Fields } from "../bson/document.ts";
import type { OperationContext } from "../context.ts";
import { whole } from "./arguments.ts";

/** Collections asked at the same time. */
const AT_ONCE = 8;

/** One document per sharded collection, as the stage gives them on a mongos. */
export async function shardedDataDistribution(ctx: OperationContext): Promise<Fields[]> {
  const entries = await ctx.router.config.find(
    ctx,
    { db: "config", collection: "collections" },
    { filter: { unsplittable: { $ne: true } }, projection: { _id: 1 }, sort: { _id: 1 } },
  );
  const namespaces = entries.flatMap((entry) => entry.string("_id") ?? []);
  const found: Fields[] = [];
  for (let i = 0; i < namespaces.length; i += AT_ONCE)
    found.push(...(await Promise.all(namespaces.slice(i, i + AT_ONCE).map((ns) => distributionOf(ctx, ns)))));
  return found;
}

async function distributionOf(ctx: OperationContext, ns: string): Promise<Fields> {
  const collection = ns.slice(ns.indexOf(".") + 1);
  const replies = await ctx.router.onShardsOwning(ctx, ns, { collStats: collection }, { idempotent: true });
  return {
    ns,
    shards: replies.map(({ shard, reply }) => {
      const orphaned = reply.number("numOrphanDocs") ?? 0;
      const average = reply.number("avgObjSize") ?? 0;
      const owned = (reply.number("count") ?? 0) - orphaned;
      return {
        shardName: shard,
        numOrphanedDocs: whole(orphaned),
        numOwnedDocuments: whole(owned),
        ownedSizeBytes: whole(owned * average),
        orphanedSizeBytes: whole(orphaned * average),
      };
    }),
  };
}
