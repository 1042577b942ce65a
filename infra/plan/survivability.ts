/**
 * What a cluster can still do when a datacenter is lost, or cut off from others while both live on (O6): computed from
 * the declaration, before anything is deployed.
 *
 * Two majorities are told apart. A primary is elected by a majority of the votes; a write is acknowledged with
 * `w: "majority"` by a majority of the voting members, of which only those with data can acknowledge. With two data
 * members here, two there and an arbiter, the loss of a datacenter leaves three votes of five, so there is a primary,
 * and two members with data where three must acknowledge: writes stall.
 */
import { isElectable } from "../model/replica-set-rules.ts";
import type { ClusterSpec, CollectionSpec, ReplicaSetSpec } from "../model/spec.ts";

export type Extent = "yes" | "partly" | "no";

/** What is lost or cut. */
export type Scenario =
  | { readonly kind: "lost"; readonly datacenter: string }
  /** The datacenters of one side cannot reach those of the other; the row is what the side `seenFrom` can do. */
  | {
      readonly kind: "cut";
      readonly sides: readonly [readonly string[], readonly string[]];
      readonly seenFrom: readonly string[];
    };

export interface ReplicaSetOutlook {
  readonly name: string;
  readonly role: "config" | "shard";
  /** Whether a primary can be elected. */
  readonly elects: boolean;
  /** Whether a write with w: "majority" is acknowledged. */
  readonly acknowledges: boolean;
  /** Elects and acknowledges. */
  readonly writable: boolean;
  /** Whether a member with data can be read with read preference nearest (each member warmed before). */
  readonly readable: boolean;
  /** Datacenters in which the primary can be. */
  readonly primaryIn: readonly string[];
  readonly reason: string;
}

export interface ZoneOutlook {
  readonly zone: string;
  readonly shards: readonly string[];
  readonly write: Extent;
  readonly read: Extent;
  readonly reason: string;
}

export interface CollectionOutlook {
  readonly namespace: string;
  readonly write: Extent;
  readonly read: Extent;
  readonly reason: string;
}

export interface SurvivabilityRow {
  readonly scenario: Scenario;
  /** Datacenters whose servers can be reached, from the client's side. */
  readonly reachable: readonly string[];
  readonly replicaSets: readonly ReplicaSetOutlook[];
  readonly zones: readonly ZoneOutlook[];
  readonly collections: readonly CollectionOutlook[];
  /** Metadata on the config servers: DDL, zones, balancing need it writable; routing goes on while it is readable. */
  readonly metadata: { readonly write: boolean; readonly read: boolean; readonly reason: string };
  readonly routers: readonly string[];
}

/** A row for each datacenter lost, then two for each cut: one as seen from each side. */
export function survivability(spec: ClusterSpec): SurvivabilityRow[] {
  const names = spec.datacenters.map(({ name }) => name);
  const lost = names.map((datacenter) =>
    rowOf(
      spec,
      { kind: "lost", datacenter },
      names.filter((name) => name !== datacenter),
    ),
  );
  const cut = cuts(names).flatMap((sides) =>
    sides.map((side) => rowOf(spec, { kind: "cut", sides, seenFrom: side }, side)),
  );
  return [...lost, ...cut];
}

/** Every way to cut the network in two, up to four datacenters; with more, each datacenter cut off alone. */
function cuts(names: readonly string[]): [readonly string[], readonly string[]][] {
  const [first, ...others] = names;
  if (first === undefined || others.length === 0) return [];
  if (names.length > 4) return names.map((name) => [[name], names.filter((other) => other !== name)]);
  // The side of the first datacenter is it and any of the others but not all of them.
  return Array.from({ length: 2 ** others.length - 1 }, (_, bits) => {
    const side = [first, ...others.filter((_, index) => bits & (1 << index))];
    return [side, names.filter((name) => !side.includes(name))];
  });
}

function rowOf(spec: ClusterSpec, scenario: Scenario, reachable: readonly string[]): SurvivabilityRow {
  const up = new Set(reachable);
  const sets = [spec.configServers, ...spec.shards.map((shard) => shard.replicaSet)].map((set) =>
    replicaSetOutlook(set, up),
  );
  const outlook = new Map(sets.map((set) => [set.name, set]));
  const shardOutlook = new Map(
    spec.shards.flatMap((shard) => {
      const found = outlook.get(shard.replicaSet.name);
      return found ? [[shard.name, found] as const] : [];
    }),
  );
  const zones = [...new Set(spec.shards.flatMap((shard) => shard.zones))].sort().map((zone): ZoneOutlook => {
    const shards = spec.shards.filter((shard) => shard.zones.includes(zone)).map(({ name }) => name);
    return { zone, shards, ...overShards(shards, shardOutlook) };
  });
  const config = outlook.get(spec.configServers.name);
  return {
    scenario,
    reachable,
    replicaSets: sets,
    zones,
    collections: spec.collections.map((collection) => collectionOutlook(collection, spec, zones, shardOutlook)),
    metadata: { write: config?.writable ?? false, read: config?.readable ?? false, reason: config?.reason ?? "" },
    routers: spec.routers.filter((router) => up.has(router.datacenter)).map(({ name }) => name),
  };
}

const count = (n: number, what: string) => `${n} ${what}${n === 1 ? "" : "s"}`;

/** What one replica set can do with the members in the datacenters that are up. */
export function replicaSetOutlook(set: ReplicaSetSpec, up: ReadonlySet<string>): ReplicaSetOutlook {
  const voters = set.members.filter((member) => member.votes === 1);
  const withData = voters.filter((member) => !member.arbiterOnly);
  const electionMajority = Math.floor(voters.length / 2) + 1;
  // The server's own rule: a majority of the voters, but never more than there are voters with data.
  const writeMajority = Math.min(electionMajority, withData.length);
  const alive = set.members.filter((member) => up.has(member.datacenter));
  const votes = alive.filter((member) => member.votes === 1).length;
  const acknowledging = alive.filter((member) => member.votes === 1 && !member.arbiterOnly);
  const electable = alive.filter(isElectable);
  const elects = votes >= electionMajority && electable.length > 0;
  const acknowledges = elects && acknowledging.length >= writeMajority;
  const readable = alive.some((member) => !member.arbiterOnly && !member.hidden);
  const late = acknowledging.filter((member) => member.secondaryDelaySecs > 0).length;
  const reasons: string[] = [];
  if (votes < electionMajority) {
    reasons.push(`${count(votes, "vote")} of ${voters.length} left, ${electionMajority} needed to elect a primary`);
  } else if (electable.length === 0) {
    reasons.push("the members left have priority 0: none can be primary");
  } else if (!acknowledges) {
    reasons.push(
      `a primary is elected (${votes} of ${voters.length} votes), but only ${count(acknowledging.length, "member")} with data can acknowledge where ${writeMajority} must`,
    );
  } else {
    reasons.push(`${votes} of ${voters.length} votes left`);
    if (acknowledging.length - late < writeMajority)
      reasons.push("acknowledged only after the delay of a delayed member");
  }
  if (!elects) reasons.push(readable ? "can be read with nearest" : "no member with data is left to read from");
  return {
    name: set.name,
    role: set.role,
    elects,
    acknowledges,
    writable: acknowledges,
    readable,
    primaryIn: elects ? [...new Set(electable.map((member) => member.datacenter))] : [],
    reason: reasons.join("; "),
  };
}

function extent(all: readonly boolean[]): Extent {
  return all.every(Boolean) ? (all.length > 0 ? "yes" : "no") : all.some(Boolean) ? "partly" : "no";
}

function overShards(
  shards: readonly string[],
  outlook: ReadonlyMap<string, ReplicaSetOutlook>,
): { write: Extent; read: Extent; reason: string } {
  const each = shards.flatMap((name) => {
    const found = outlook.get(name);
    return found ? [found] : [];
  });
  return {
    write: extent(each.map((one) => one.writable)),
    read: extent(each.map((one) => one.readable)),
    reason: each.map((one) => `${one.name}: ${one.reason}`).join("; "),
  };
}

function collectionOutlook(
  collection: CollectionSpec,
  spec: ClusterSpec,
  zones: readonly ZoneOutlook[],
  outlook: ReadonlyMap<string, ReplicaSetOutlook>,
): CollectionOutlook {
  const { namespace } = collection;
  const everywhere = spec.shards.map(({ name }) => name);
  if (collection.key.length === 0) {
    const database = spec.databases.find(({ name }) => namespace.startsWith(`${name}.`));
    if (database?.primaryShard !== undefined) {
      const { write, read, reason } = overShards([database.primaryShard], outlook);
      return { namespace, write, read, reason: `lives on the primary shard of ${database.name}; ${reason}` };
    }
    const { write, read } = overShards(everywhere, outlook);
    return {
      namespace,
      write,
      read,
      reason: "lives on its database's primary shard, which is not declared: all or nothing",
    };
  }
  if (collection.ranges.length === 0) {
    const { write, read } = overShards(everywhere, outlook);
    return { namespace, write, read, reason: "has no zones: the balancer decides which documents are on which shard" };
  }
  const named = [...new Set(collection.ranges.map(({ zone }) => zone))];
  const own = zones.filter(({ zone }) => named.includes(zone));
  const total = (field: "write" | "read"): Extent => {
    const each = own.map((zone) => zone[field]);
    if (each.every((one) => one === "yes")) return "yes";
    return each.every((one) => one === "no") ? "no" : "partly";
  };
  const which = own.map(
    ({ zone, write, read }) =>
      `zone ${zone}: ${write === "no" ? (read === "no" ? "neither read nor written" : "read only") : write === "yes" ? "written" : "partly written"}`,
  );
  return { namespace, write: total("write"), read: total("read"), reason: which.join("; ") };
}
