/**
 * The order in which changes are applied. It follows from what needs what: a shard needs its replica set, a range needs
 * a shard that carries its zone, a collection is placed by the ranges that are there when it is sharded. What takes
 * away comes after what gives, and the balancer is let loose last, when everything says where it should go.
 */
import type { Change, Plain } from "./change.ts";

interface Phase {
  readonly name: string;
  readonly why: string;
  readonly holds: (change: Change) => boolean;
}

const kind =
  (wanted: Change["resource"]["kind"], more: (change: Change) => boolean = () => true) =>
  (change: Change): boolean =>
    change.resource.kind === wanted && more(change);

const whole = (change: Change) => change.path === "";
const gives = (change: Change) => change.action !== "delete";
const at = (start: string) => (change: Change) => change.path.startsWith(start);
const setsTo = (path: string, value: Plain) => (change: Change) => change.path === path && change.desired === value;
const isConfigSet = (change: Change) =>
  typeof change.desired === "object" &&
  change.desired !== null &&
  "role" in change.desired &&
  change.desired.role === "config";
/** A zone that a shard loses or a range that goes. Ranges that change may be the last that need a zone, so these come after all ranges. */
const takes = (change: Change) => change.action === "delete";

/** The first phase that holds for a change is its own. */
export const PHASES: readonly Phase[] = [
  {
    name: "balancer rests",
    why: "a balancer or a collection that should rest rests before anything moves",
    holds: (change) =>
      kind("Balancer", setsTo("enabled", false))(change) ||
      kind("ShardedCollection", setsTo("balancing", false))(change),
  },
  {
    name: "config servers",
    why: "everything but the shards' own servers is kept there",
    holds: kind("ReplicaSet", (change) => whole(change) && isConfigSet(change)),
  },
  {
    name: "default concerns",
    why: "a set with an arbiter is refused until a default write concern is set",
    holds: kind("ClusterDefaults"),
  },
  { name: "new replica sets", why: "a shard is added by its replica set", holds: kind("ReplicaSet", whole) },
  {
    name: "members",
    why: "new members before the shards that they carry are changed; the steps within a set are planned in reconfig.ts",
    holds: kind("ReplicaSet"),
  },
  { name: "users", why: "they need the config servers and nothing else", holds: kind("User", gives) },
  { name: "new shards", why: "a zone needs a shard, a database a primary shard", holds: kind("Shard", whole) },
  {
    name: "shards",
    why: "a shard that drains by mistake stops doing so before anything is placed",
    holds: kind("Shard", (change) => gives(change) && !at("zones[")(change)),
  },
  { name: "zones", why: "the server refuses a range of a zone that no shard carries", holds: kind("Shard", gives) },
  {
    name: "databases",
    why: "a database is made on its primary shard before collections are",
    holds: kind("Database", gives),
  },
  {
    name: "ranges",
    why: "ranges that are there when a collection is sharded place its chunks at once; replaced ranges follow range-steps.ts",
    holds: kind("ShardedCollection", (change) => at("ranges[")(change) && gives(change)),
  },
  { name: "collections", why: "indexes and chunk sizes need the collection", holds: kind("ShardedCollection", whole) },
  {
    name: "shard keys",
    why: "sharding makes the key's own index and places the chunks",
    holds: kind("ShardedCollection", (change) => change.path === "key" || change.path === "unique"),
  },
  {
    name: "indexes",
    why: "the server checks unique indexes against the shard key",
    holds: kind("ShardedCollection", (change) => at("indexes[")(change) && gives(change)),
  },
  {
    name: "chunk sizes",
    why: "of sharded collections",
    holds: kind("ShardedCollection", (change) => change.path === "chunkSizeMiB"),
  },
  {
    name: "old ranges",
    why: "nothing takes their place, so their documents are free from here on",
    holds: kind("ShardedCollection", (change) => at("ranges[")(change) && takes(change)),
  },
  { name: "old zones", why: "a zone leaves its last shard only when no range needs it", holds: kind("Shard", takes) },
  { name: "old indexes, roles and the rest", why: "what takes away comes after what gives", holds: takes },
  {
    name: "balancing of collections",
    why: "chunks move when all ranges are in place",
    holds: kind("ShardedCollection", (change) => change.path === "balancing"),
  },
  { name: "balancer", why: "last: it acts on everything before", holds: kind("Balancer") },
  { name: "the rest", why: "depends on nothing", holds: () => true },
];

const BALANCING = PHASES.findIndex((phase) => phase.name === "balancing of collections");

/** The position of a change's phase in `PHASES`; `sharding`: the collections that only get their shard key now. */
function phaseOf(change: Change, sharding: ReadonlySet<string>): number {
  // A collection that has no chunks yet has no balancing to switch off.
  if (change.path === "balancing" && sharding.has(change.resource.name)) return BALANCING;
  return PHASES.findIndex((phase) => phase.holds(change));
}

/**
 * The changes in the order in which they can be applied. Those that are only `seen` come last: there is nothing to do.
 * Within a phase the order of the list is kept.
 */
export function orderChanges(changes: readonly Change[]): Change[] {
  const sharding = new Set(
    changes
      .filter(({ resource, path }) => resource.kind === "ShardedCollection" && path === "key")
      .map(({ resource }) => resource.name),
  );
  const rank = (change: Change) => (change.action === "seen" ? PHASES.length : phaseOf(change, sharding));
  return changes
    .map((change) => ({ change, rank: rank(change) }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ change }) => change);
}
