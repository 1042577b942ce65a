/** What is allowed and yet worth knowing about a declaration: told in preview, never a reason to stop. */
import { readableBson } from "../model/bson-text.ts";
import type { Problem } from "../model/problem.ts";
import type { ClusterSpec } from "../model/spec.ts";
import { typeSuspicions } from "../model/zone-range.ts";
import { survivability } from "./survivability.ts";

export function remarks(spec: ClusterSpec): Problem[] {
  const told: Problem[] = [];
  const add = (path: string, message: string, rule: string, fix: string) => told.push({ path, message, rule, fix });
  const homes = spec.datacenters.filter((datacenter) => !datacenter.witness);
  if (homes.length === 1) {
    add(
      "datacenters",
      `all data is in ${homes[0]?.name}`,
      "a cluster in one datacenter goes with it (M4)",
      "add a datacenter",
    );
  }
  for (const { name } of homes) {
    if (!spec.routers.some((router) => router.datacenter === name)) {
      add(
        "routers",
        `${name} has no mongos`,
        "applications in a datacenter reach the cluster through a mongos of their own (M4)",
        `add one with datacenter: "${name}"`,
      );
    }
  }
  for (const row of survivability(spec)) {
    if (row.scenario.kind !== "lost") continue;
    const { datacenter } = row.scenario;
    for (const outlook of row.replicaSets) {
      const index = spec.shards.findIndex((shard) => shard.replicaSet.name === outlook.name);
      const home = index < 0 ? spec.configServers.home : spec.shards[index]?.home;
      const path = index < 0 ? "configServers.members" : `shards[${index}].members`;
      if (outlook.elects && !outlook.acknowledges) {
        add(
          path,
          `when ${datacenter} is lost, ${outlook.name} has a primary that cannot acknowledge majority writes: ${outlook.reason}`,
          "electing takes a majority of the votes, acknowledging one of members with data; an arbiter counts for the first only",
          "put a member with data in place of the arbiter",
        );
      } else if (!outlook.writable && home !== datacenter && index >= 0) {
        add(
          path,
          `when ${datacenter} is lost, ${outlook.name} cannot be written although its home is ${home}: ${outlook.reason}`,
          "the majority of a shard's members lives at its home (M1)",
          `move a voting member from ${datacenter} to ${home}`,
        );
      }
    }
  }
  for (const collection of spec.collections) {
    const path = `collections[${JSON.stringify(collection.namespace)}]`;
    if (collection.key.length > 0 && collection.ranges.length === 0 && homes.length > 1) {
      add(
        path,
        "it has no zones",
        "without zones the balancer decides which datacenter a document depends on",
        "use perDatacenter or split, unless that is meant",
      );
    }
    for (const { field, bound, type, usual } of typeSuspicions(collection.key, collection.ranges)) {
      add(
        `${path}.ranges`,
        `the bound ${readableBson(bound)} has a ${type} in ${field} where the other bounds have a ${usual}`,
        "the server sorts types apart: a range between numbers holds no date and no string",
        `write ${field} in the type that the documents have`,
      );
    }
  }
  return told;
}
