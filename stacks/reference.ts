/**
 * The reference deployment: a chat service in two datacenters, alfa and bravo.
 *
 * `messages` is written in the datacenter that is named in each document, so each datacenter writes its own.
 *
 * `users` is sharded on a unique `userid`. Uniqueness over the whole cluster means that each userid has one home, and
 * whoever holds that home decides whether it can be created while a datacenter is lost. Without zones that would be
 * up to the balancer: a small collection stays on one shard, and with its datacenter all registrations are gone. So the
 * ids are given out in two blocks, those below a thousand million for alfa and the others for bravo: either datacenter
 * registers users on its own while the other is gone, and the unique shard key still refuses every duplicate.
 */
import { type ClusterSpec, defineCluster, perDatacenter, unique } from "../infra/model/index.ts";

/** The first userid that belongs to bravo. */
export const FIRST_USERID_OF_BRAVO = 1_000_000_000;

export const reference: ClusterSpec = defineCluster({
  name: "chat",
  datacenters: ["alfa", "bravo"],
  databases: { chat: { primaryShard: "shard0000" } },
  collections: {
    "chat.messages": perDatacenter({ userid: 1 }),
    "chat.users": unique({ userid: 1 }, { split: { at: [FIRST_USERID_OF_BRAVO] } }),
  },
});
