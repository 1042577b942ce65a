/**
 * The one comparison of what is desired with what is observed. The Pulumi provider, `drift` and `verify` all use it, so
 * they cannot disagree. Both sides may come in any form; they are compared in their canonical one (canonical.ts).
 */
import type {
  BalancerState,
  ClusterDefaultsState,
  CollectionState,
  DatabaseState,
  IndexState,
  MemberState,
  ReplicaSetState,
  ShardState,
  Snapshot,
  UserState,
} from "../model/state.ts";
import {
  alignCollations,
  canonicalCollection,
  canonicalReplicaSet,
  canonicalShard,
  canonicalSnapshot,
  canonicalUser,
  indexIdentity,
  pairIndexes,
  roleIdentity,
  userIdentity,
} from "./canonical.ts";
import type { Change, Plain, ResourceKind, ResourceRef } from "./change.ts";

/** Names of the two resources of which a cluster has one. */
export const BALANCER_NAME = "balancer";
export const DEFAULTS_NAME = "defaults";

/** Plain JSON: `undefined` fields left out. */
export function plain(value: unknown): Plain {
  return value === undefined ? null : (JSON.parse(JSON.stringify(value)) as Plain);
}

/** Compares two plain values; the order of an object's keys does not count. */
function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, i) => same(item, b[i]));
  }
  const [x, y] = [a as Record<string, unknown>, b as Record<string, unknown>];
  return [...new Set([...Object.keys(x), ...Object.keys(y)])].every((key) => same(x[key], y[key]));
}

/** Collects the changes of one resource. */
class Changes {
  readonly list: Change[] = [];
  readonly #resource: ResourceRef;

  constructor(kind: ResourceKind, name: string) {
    this.#resource = { kind, name };
  }

  create(path: string, desired: unknown): void {
    this.list.push({ resource: this.#resource, action: "create", path, desired: plain(desired) });
  }

  delete(path: string, observed: unknown): void {
    this.list.push({ resource: this.#resource, action: "delete", path, observed: plain(observed) });
  }

  seen(path: string, observed: unknown): void {
    this.list.push({ resource: this.#resource, action: "seen", path, observed: plain(observed) });
  }

  /** `undefined` counts as null: the field is managed and is to have no value. */
  field(path: string, desired: unknown, observed: unknown): void {
    if (same(desired ?? null, observed ?? null)) return;
    this.list.push({
      resource: this.#resource,
      action: "update",
      path,
      desired: plain(desired),
      observed: plain(observed),
    });
  }

  /** Like `field`, but a desired `undefined` means that nobody manages it. */
  managed(path: string, desired: unknown, observed: unknown): void {
    if (desired !== undefined) this.field(path, desired, observed);
  }

  /** Lists whose items have an identity. `others`: what becomes of observed items that nobody declared. */
  items<T>(
    path: string,
    lists: { readonly desired: readonly T[]; readonly observed: readonly T[] },
    identity: (item: T) => string,
    both: (path: string, desired: T, observed: T) => void,
    others: "delete" | "seen" = "delete",
  ): void {
    const observed = new Map(lists.observed.map((item) => [identity(item), item]));
    const desired = new Map(lists.desired.map((item) => [identity(item), item]));
    for (const [name, item] of desired) {
      const twin = observed.get(name);
      if (twin === undefined) this.create(`${path}[${name}]`, item);
      else both(`${path}[${name}]`, item, twin);
    }
    for (const [name, item] of observed) {
      if (!desired.has(name)) this[others](`${path}[${name}]`, item);
    }
  }
}

export function diffReplicaSet(desired: ReplicaSetState, observed: ReplicaSetState | undefined): Change[] {
  const changes = new Changes("ReplicaSet", desired.name);
  const want = canonicalReplicaSet(desired);
  if (!observed) {
    changes.create("", want);
    return changes.list;
  }
  const have = canonicalReplicaSet(observed);
  changes.field("role", want.role, have.role);
  changes.items(
    "members",
    { desired: want.members, observed: have.members },
    (member: MemberState) => member.host,
    (path, a, b) => {
      for (const field of ["priority", "votes", "hidden", "arbiterOnly", "secondaryDelaySecs"] as const) {
        changes.field(`${path}.${field}`, a[field], b[field]);
      }
      for (const tag of new Set([...Object.keys(a.tags), ...Object.keys(b.tags)])) {
        changes.field(`${path}.tags.${tag}`, a.tags[tag], b.tags[tag]);
      }
    },
  );
  for (const [name, value] of Object.entries(want.settings)) {
    changes.managed(`settings.${name}`, value, have.settings[name as keyof typeof have.settings]);
  }
  return changes.list;
}

export function diffShard(desired: ShardState, observed: ShardState | undefined): Change[] {
  const changes = new Changes("Shard", desired.name);
  const want = canonicalShard(desired);
  if (!observed) {
    changes.create("", want);
    return changes.list;
  }
  const have = canonicalShard(observed);
  changes.field("replicaSet", want.replicaSet, have.replicaSet);
  changes.items(
    "zones",
    { desired: want.zones, observed: have.zones },
    (zone) => zone,
    () => {},
  );
  changes.field("draining", want.draining, have.draining);
  return changes.list;
}

export function diffDatabase(desired: DatabaseState, observed: DatabaseState | undefined): Change[] {
  const changes = new Changes("Database", desired.name);
  if (observed) changes.managed("primaryShard", desired.primaryShard, observed.primaryShard);
  else changes.create("", desired);
  return changes.list;
}

/**
 * Zone ranges belong to the declaration: an undeclared one in a declared namespace is a `delete`. An undeclared index
 * is only `seen`: it holds no meaning for placement, and dropping what someone built by hand is not ours to do.
 */
export function diffCollection(desired: CollectionState, observed: CollectionState | undefined): Change[] {
  const changes = new Changes("ShardedCollection", desired.namespace);
  const want = canonicalCollection(desired);
  if (!observed) {
    changes.create("", want);
    return changes.list;
  }
  const have = canonicalCollection(observed);
  changes.field("key", want.key, have.key);
  changes.field("unique", want.unique, have.unique);
  changes.items(
    "ranges",
    { desired: want.ranges, observed: have.ranges },
    (range) => range.min,
    (path, a, b) => {
      changes.field(`${path}.max`, a.max, b.max);
      changes.field(`${path}.zone`, a.zone, b.zone);
    },
  );
  diffIndexes(changes, want.indexes, alignCollations(want.indexes, have.indexes));
  changes.field("balancing", want.balancing, have.balancing);
  changes.managed("chunkSizeMiB", want.chunkSizeMiB, have.chunkSizeMiB);
  return changes.list;
}

/** An index is named by its identity; where several share one, by its name as well. */
function diffIndexes(changes: Changes, desired: readonly IndexState[], observed: readonly IndexState[]): void {
  const { pairs, missing, others } = pairIndexes(desired, observed);
  const sharing = Map.groupBy([...desired, ...others], indexIdentity);
  const pathOf = (index: IndexState) => {
    const identity = indexIdentity(index);
    return `indexes[${(sharing.get(identity)?.length ?? 0) > 1 ? `${identity} ${index.name}` : identity}]`;
  };
  for (const index of missing) changes.create(pathOf(index), index);
  for (const pair of pairs) {
    for (const field of ["unique", "sparse", "hidden", "expireAfterSeconds", "partialFilterExpression"] as const) {
      changes.field(`${pathOf(pair.desired)}.${field}`, pair.desired[field], pair.observed[field]);
    }
  }
  for (const index of others) changes.seen(pathOf(index), index);
}

export function diffBalancer(desired: BalancerState, observed: BalancerState | undefined): Change[] {
  const changes = new Changes("Balancer", BALANCER_NAME);
  if (!observed) {
    changes.create("", desired);
    return changes.list;
  }
  changes.field("enabled", desired.enabled, observed.enabled);
  for (const field of ["activeWindow", "chunkSizeMiB"] as const) {
    if (desired[field] !== undefined) changes.field(field, desired[field], observed[field]);
    else if (observed[field] !== undefined && observed[field] !== null) changes.seen(field, observed[field]);
  }
  return changes.list;
}

export function diffDefaults(desired: ClusterDefaultsState, observed: ClusterDefaultsState | undefined): Change[] {
  const changes = new Changes("ClusterDefaults", DEFAULTS_NAME);
  if (!observed) {
    changes.create("", desired);
    return changes.list;
  }
  changes.managed("readConcern", desired.readConcern, observed.readConcern);
  changes.managed("writeConcern", desired.writeConcern, observed.writeConcern);
  return changes.list;
}

export function diffUser(desired: UserState, observed: UserState | undefined): Change[] {
  const changes = new Changes("User", userIdentity(desired));
  const want = canonicalUser(desired);
  if (!observed) {
    changes.create("", want);
    return changes.list;
  }
  changes.items("roles", { desired: want.roles, observed: canonicalUser(observed).roles }, roleIdentity, () => {});
  return changes.list;
}

/** Compares the things of one kind by identity; what nobody declared is `seen`. */
function diffAll<T>(
  kind: ResourceKind,
  lists: { readonly desired: readonly T[]; readonly observed: readonly T[] },
  identity: (item: T) => string,
  diffOne: (desired: T, observed: T | undefined) => Change[],
): Change[] {
  const observed = new Map(lists.observed.map((item) => [identity(item), item]));
  const declared = new Set(lists.desired.map(identity));
  return [
    ...lists.desired.flatMap((item) => diffOne(item, observed.get(identity(item)))),
    ...[...observed]
      .filter(([name]) => !declared.has(name))
      .map(([name, item]): Change => ({ resource: { kind, name }, action: "seen", path: "", observed: plain(item) })),
  ];
}

/** Every difference, in the order of the kinds; `orderChanges` (order.ts) gives the order in which to apply them. */
export function diff(desired: Snapshot, observed: Snapshot): Change[] {
  const [want, have] = [canonicalSnapshot(desired), canonicalSnapshot(observed)];
  const both = <K extends keyof Snapshot>(field: K) => ({ desired: want[field], observed: have[field] });
  return [
    ...diffAll("ReplicaSet", both("replicaSets"), ({ name }) => name, diffReplicaSet),
    ...diffAll("Shard", both("shards"), ({ name }) => name, diffShard),
    ...diffAll("Database", both("databases"), ({ name }) => name, diffDatabase),
    ...diffAll("ShardedCollection", both("collections"), ({ namespace }) => namespace, diffCollection),
    ...diffBalancer(want.balancer, have.balancer),
    ...diffDefaults(want.defaults, have.defaults),
    ...diffAll("User", both("users"), userIdentity, diffUser),
  ];
}
