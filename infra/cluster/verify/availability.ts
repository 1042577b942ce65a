import { survivability } from "../../plan/survivability.ts";
import type { Operation } from "../context.ts";
import { readConfig } from "../metadata.ts";
import { count, type Findings } from "./check.ts";
import { type Facts, memberText } from "./facts.ts";

/**
 * M4, as far as it can be proved without taking anything down: what each datacenter has that lives and answers now, and
 * what the declaration says is left when another one is lost.
 */
export async function checkAvailability(op: Operation, facts: Facts, found: Findings): Promise<void> {
  const { spec, members, routers } = facts;
  await Promise.all(
    routers.map(async ({ router, connection, problem }) => {
      if (problem !== undefined)
        return found.wrong(
          `the router ${router.host ?? router.name} in ${router.datacenter} does not serve: ${problem}`,
        );
      // A router that answers hello may still not reach the config servers.
      const shards = await readConfig(await op.connections.reader(connection), "shards", {}, { _id: 1 });
      found.saw(
        `${router.datacenter}: the router ${router.host ?? router.name} answers and knows ${count(shards.length, "shard")}`,
      );
    }),
  );
  const homes = spec.datacenters.filter(({ witness }) => !witness).map(({ name }) => name);
  for (const name of homes) {
    if (!routers.some(({ router, problem }) => router.datacenter === name && problem === undefined)) {
      found.wrong(`${name} has no router that answers`);
    }
  }
  if (members === undefined)
    found.blind("whether members live is told by themselves, and no credential for them is given");
  else {
    for (const fact of members) {
      if (fact.state !== "unreachable" && fact.state !== "starting") continue;
      found.wrong(`${fact.replicaSet}: ${memberText(fact)} is ${fact.state}${fact.problem ? `: ${fact.problem}` : ""}`);
    }
    const lives = members.filter(({ state }) => state === "primary" || state === "secondary");
    for (const name of homes) {
      const config = lives.filter(
        ({ replicaSet, member }) => replicaSet === spec.configServers.name && member.datacenter === name,
      );
      if (config.length === 0) found.wrong(`${name} has no config server that answers`);
      const parts = [count(config.length, "config server")];
      for (const { name: shard, replicaSet, home } of spec.shards) {
        const here = lives.filter((fact) => fact.replicaSet === replicaSet.name && fact.member.datacenter === name);
        const electable = here.filter(({ member }) => member.priority > 0).length;
        if (home === name && electable === 0) {
          found.wrong(`${shard} has no electable member alive in its home ${name}`);
        }
        parts.push(
          home === name
            ? `${count(electable, "electable member")} of ${shard}`
            : `${count(here.length, "member")} of ${shard} to read from`,
        );
      }
      found.saw(`${name}: ${parts.join(", ")}`);
    }
  }
  const zonesAt = (datacenter: string) =>
    new Set(spec.shards.filter(({ home }) => home === datacenter).flatMap(({ zones }) => zones));
  for (const row of survivability(spec)) {
    if (row.scenario.kind !== "lost") continue;
    const lost = row.scenario.datacenter;
    for (const name of homes.filter((home) => home !== lost)) {
      for (const { zone, write, read, reason } of row.zones.filter((one) => zonesAt(name).has(one.zone))) {
        if (write === "yes" && read === "yes")
          found.saw(`with ${lost} lost, zone ${zone} is read and written in ${name}`);
        else found.wrong(`with ${lost} lost, zone ${zone} can be read: ${read}, written: ${write} (${reason})`);
      }
    }
    const { write, read } = row.metadata;
    found.saw(
      `with ${lost} lost, metadata ${write ? "can be changed" : read ? "can be read and not changed" : "cannot be read"}`,
    );
  }
}
