/** Shards, zones and the balancer: kept by the config servers. */
import type { Fields } from "../bson/document.ts";
import type { CommandContext } from "../context.ts";
import { askConfig, given, governed, majority, stringArgument, targetNamespace } from "./arguments.ts";
import type { CommandTable } from "./registry.ts";

async function addShard(ctx: CommandContext) {
  const reply = await askConfig(ctx, {
    _configsvrAddShard: ctx.body.first(),
    ...given(ctx, "name", "maxSize"),
    writeConcern: majority,
  });
  ctx.router.catalog.invalidateShards();
  return reply;
}

async function removeShard(ctx: CommandContext) {
  const reply = await askConfig(ctx, { _configsvrRemoveShard: ctx.body.first(), writeConcern: majority });
  ctx.router.catalog.invalidateShards();
  return reply;
}

async function listShards(ctx: CommandContext): Promise<Fields> {
  const shards = await ctx.router.config.find(ctx, { db: "config", collection: "shards" }, {});
  return { shards };
}

async function getShardMap(ctx: CommandContext): Promise<Fields> {
  ctx.router.catalog.invalidateShards();
  const map: Record<string, string> = { config: ctx.router.config.connectionString() };
  for (const shard of await ctx.router.catalog.shards(ctx)) map[shard.id] = shard.host;
  const hosts: Record<string, string> = {};
  const connStrings: Record<string, string> = {};
  for (const [id, connectionString] of Object.entries(map)) {
    connStrings[connectionString] = id;
    const members = connectionString.slice(connectionString.indexOf("/") + 1);
    for (const host of members.split(",")) hosts[host] = id;
  }
  return { map, hosts, connStrings };
}

async function addShardToZone(ctx: CommandContext): Promise<Fields> {
  await askConfig(ctx, {
    _configsvrAddShardToZone: stringArgument(ctx, "addShardToZone"),
    zone: ctx.body.find("zone"),
    writeConcern: majority,
  });
  ctx.router.catalog.invalidateShards();
  return {};
}

async function removeShardFromZone(ctx: CommandContext): Promise<Fields> {
  await askConfig(ctx, {
    _configsvrRemoveShardFromZone: stringArgument(ctx, "removeShardFromZone"),
    zone: ctx.body.find("zone"),
    writeConcern: majority,
  });
  ctx.router.catalog.invalidateShards();
  return {};
}

async function updateZoneKeyRange(ctx: CommandContext): Promise<Fields> {
  const { ns } = targetNamespace(ctx);
  await askConfig(ctx, {
    _configsvrUpdateZoneKeyRange: ns,
    ...given(ctx, "min", "max", "zone"),
    writeConcern: majority,
  });
  return {};
}

const balancer = (internal: string) => (ctx: CommandContext) => askConfig(ctx, { [internal]: 1 });

async function configureCollectionBalancing(ctx: CommandContext): Promise<Fields> {
  await askConfig(ctx, {
    _configsvrConfigureCollectionBalancing: targetNamespace(ctx).ns,
    ...given(ctx, "chunkSize", "defragmentCollection", "enableAutoSplitter"),
  });
  return {};
}

export const shardCommands: CommandTable = {
  addShard: governed("addShard", { adminOnly: true, handler: addShard, aliases: ["addshard"] }),
  removeShard: governed("removeShard", { adminOnly: true, handler: removeShard, aliases: ["removeshard"] }),
  listShards: governed("listShards", { adminOnly: true, handler: listShards, aliases: ["listshards"] }),
  getShardMap: governed("getShardMap", { adminOnly: true, handler: getShardMap }),
  addShardToZone: governed("addShardToZone", { adminOnly: true, handler: addShardToZone }),
  removeShardFromZone: governed("removeShardFromZone", { adminOnly: true, handler: removeShardFromZone }),
  updateZoneKeyRange: governed("updateZoneKeyRange", { adminOnly: true, handler: updateZoneKeyRange }),
  balancerStart: governed("balancerStart", { adminOnly: true, handler: balancer("_configsvrBalancerStart") }),
  balancerStop: governed("balancerStop", { adminOnly: true, handler: balancer("_configsvrBalancerStop") }),
  balancerStatus: governed("balancerStatus", { adminOnly: true, handler: balancer("_configsvrBalancerStatus") }),
  balancerCollectionStatus: governed("balancerCollectionStatus", {
    adminOnly: true,
    handler: (ctx) => askConfig(ctx, { _configsvrBalancerCollectionStatus: targetNamespace(ctx).ns }),
  }),
  configureCollectionBalancing: governed("configureCollectionBalancing", {
    adminOnly: true,
    handler: configureCollectionBalancing,
  }),
};
