/** The members that a replica set gets when the declaration does not list them. */
import type { MemberDeclaration } from "./declaration.ts";
import type { DatacenterSpec } from "./spec.ts";

/** `shard0000`, `shard0001`, … as the reference deployment calls them. */
export function shardName(index: number): string {
  return `shard${String(index).padStart(4, "0")}`;
}

/**
 * Two electable members at home and one with priority 0 in the next datacenter (M1): the home can elect and
 * acknowledge on its own, the other datacenter can read when the home is lost. A single datacenter holds all three.
 */
export function shardLayout(home: string, datacenters: readonly DatacenterSpec[]): MemberDeclaration[] {
  const candidates = datacenters.filter((datacenter) => !datacenter.witness || datacenter.name === home);
  const position = candidates.findIndex((datacenter) => datacenter.name === home);
  const next = candidates[(position + 1) % candidates.length]?.name ?? home;
  return [{ datacenter: home }, { datacenter: home }, { datacenter: next }];
}

/**
 * Three config servers. With two datacenters one of them must hold the majority (2 + 1), and its loss costs changes of
 * metadata; with three, 1 + 1 + 1 survives the loss of any. Witnesses come first: that is what they are for.
 */
export function configLayout(datacenters: readonly DatacenterSpec[]): MemberDeclaration[] {
  const [first, second] = datacenters;
  if (!first) return [];
  if (!second) return [first, first, first].map(({ name }) => ({ datacenter: name }));
  if (datacenters.length === 2) {
    const [main, other] = first.witness ? [second, first] : [first, second];
    return [main, main, other].map(({ name }) => ({ datacenter: name }));
  }
  const homes = datacenters.filter((datacenter) => !datacenter.witness);
  const chosen = new Set(
    [...homes.slice(0, 1), ...datacenters.filter((one) => one.witness), ...homes.slice(1)].slice(0, 3),
  );
  return datacenters.filter((one) => chosen.has(one)).map(({ name }) => ({ datacenter: name }));
}
