import { type AnyResource, erased } from "../resource.ts";
import { balancer } from "./balancer.ts";
import { clusterDefaults } from "./cluster-defaults.ts";
import { database } from "./database.ts";
import { keyfile } from "./keyfile.ts";
import { localProcess } from "./local-process.ts";
import { replicaSet } from "./replica-set.ts";
import { shard } from "./shard.ts";
import { shardedCollection } from "./sharded-collection.ts";
import { user } from "./user.ts";

/** Everything that the provider manages. */
export const resources: readonly AnyResource[] = [
  erased(keyfile),
  erased(localProcess),
  erased(replicaSet),
  erased(user),
  erased(shard),
  erased(database),
  erased(shardedCollection),
  erased(balancer),
  erased(clusterDefaults),
];
