/**
 * One form for states that the server treats as the same: lists that have no order are sorted, hosts and BSON are
 * written in one way, range bounds are complete, and options at the server's default are left out.
 */
import { canonicalBsonText, fromBsonText, toBsonText } from "../model/bson-text.ts";
import { normaliseHost } from "../model/host.ts";
import { sameKey } from "../model/key.ts";
import type {
  BsonText,
  CollectionState,
  IndexState,
  KeyPart,
  MemberState,
  ReplicaSetSettings,
  ReplicaSetState,
  ShardState,
  Snapshot,
  UserState,
  ZoneRange,
} from "../model/state.ts";
import { completeBound, sortRanges } from "../model/zone-range.ts";

/** By code point, the same everywhere: a locale would sort differently on another machine. */
export function byText<T>(text: (item: T) => string): (a: T, b: T) => number {
  return (a, b) => {
    const [x, y] = [text(a), text(b)];
    return x < y ? -1 : x > y ? 1 : 0;
  };
}

function uniqueBy<T>(items: readonly T[], identity: (item: T) => string): T[] {
  return [...new Map(items.map((item) => [identity(item), item])).values()];
}

/** Hosts that a server shows are always well formed; what is not stays as it is, so that it can be shown. */
function hostOf(host: string): string {
  try {
    return normaliseHost(host);
  } catch {
    return host;
  }
}

function withoutUndefined<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, inner]) => inner !== undefined)) as T;
}

function sortedRecord(record: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(record).sort(byText(([key]) => key)));
}

export function canonicalMember(member: MemberState): MemberState {
  const { host, priority, votes, hidden, arbiterOnly, secondaryDelaySecs, tags } = member;
  return { host: hostOf(host), priority, votes, hidden, arbiterOnly, secondaryDelaySecs, tags: sortedRecord(tags) };
}

export function canonicalReplicaSet(set: ReplicaSetState): ReplicaSetState {
  const { name, role, members } = set;
  const settings: ReplicaSetSettings = withoutUndefined(set.settings);
  return { name, role, members: members.map(canonicalMember).sort(byText(({ host }) => host)), settings };
}

export function canonicalShard({ name, replicaSet, zones, draining }: ShardState): ShardState {
  return { name, replicaSet, zones: [...new Set(zones)].sort(), draining };
}

function canonicalBound(key: readonly KeyPart[], bound: BsonText): BsonText {
  try {
    return completeBound(key, bound);
  } catch {
    // Bounds of another key, as a hand may have left them: compared as they are, and so found different.
    return canonicalBsonText(bound);
  }
}

/** Complete, in canonical text, sorted. Two ranges of one zone side by side stay two: the server keeps them apart. */
export function canonicalRanges(key: readonly KeyPart[], ranges: readonly ZoneRange[]): ZoneRange[] {
  return sortRanges(
    ranges.map(({ zone, min, max }) => ({ zone, min: canonicalBound(key, min), max: canonicalBound(key, max) })),
  );
}

/** What the server fills in when a collation names only its locale. */
const COLLATION_DEFAULTS: Readonly<Record<string, unknown>> = {
  caseLevel: false,
  caseFirst: "off",
  strength: 3,
  numericOrdering: false,
  alternate: "non-ignorable",
  maxVariable: "punct",
  normalization: false,
  backwards: false,
};

/**
 * A collation without the options at their defaults and the version that the server adds; undefined for simple
 * comparison, which is none. Some locales have defaults of their own (Thai ignores punctuation, French as written in
 * Canada compares accents backwards): `alignCollations` takes care of those.
 */
export function canonicalCollation(collation: BsonText | undefined): BsonText | undefined {
  if (collation === undefined) return undefined;
  const { locale, version: _, ...options } = fromBsonText(collation);
  if (locale === "simple") return undefined;
  const text = (value: unknown) => toBsonText({ value });
  const kept = Object.entries(options)
    .filter(([name, value]) => text(value) !== text(COLLATION_DEFAULTS[name]))
    .sort(byText(([name]) => name));
  return toBsonText({ locale, ...Object.fromEntries(kept) });
}

/**
 * Observed indexes, with the collation of a desired one where that is what the server made of it: the same key and
 * locale, and every option that was asked for. What it added then are the locale's own defaults.
 */
export function alignCollations(desired: readonly IndexState[], observed: readonly IndexState[]): IndexState[] {
  const wanted = new Set(desired.map(indexIdentity));
  const present = new Set(observed.map(indexIdentity));
  const missing = desired.filter((index) => index.collation !== undefined && !present.has(indexIdentity(index)));
  return observed.map((index) => {
    if (index.collation === undefined || wanted.has(indexIdentity(index))) return index;
    const made = fromBsonText(index.collation);
    const from = missing.findIndex(
      (one) =>
        sameKey(one.key, index.key) &&
        Object.entries(fromBsonText(one.collation ?? "{}")).every(
          ([name, value]) => toBsonText({ value }) === toBsonText({ value: made[name] }),
        ),
    );
    const [match] = from < 0 ? [] : missing.splice(from, 1);
    return match ? { ...index, collation: match.collation } : index;
  });
}

/** The server groups the text fields of an index and does not keep their order. */
function canonicalIndexKey(key: readonly KeyPart[]): KeyPart[] {
  const text = key.filter((part) => part.kind === "text").sort(byText(({ field }) => field));
  return key.map((part) => (part.kind === "text" ? (text.shift() ?? part) : { field: part.field, kind: part.kind }));
}

export function canonicalIndex(index: IndexState): IndexState {
  const { name, key, unique, sparse, hidden, expireAfterSeconds, partialFilterExpression, collation } = index;
  return withoutUndefined({
    name,
    key: canonicalIndexKey(key),
    unique,
    sparse,
    hidden,
    expireAfterSeconds,
    partialFilterExpression: partialFilterExpression && canonicalBsonText(partialFilterExpression),
    collation: canonicalCollation(collation),
  });
}

/** What an index is known by: its key and its collation. */
export function indexIdentity(index: Pick<IndexState, "key" | "collation">): string {
  const key = canonicalIndexKey(index.key)
    .map(({ field, kind }) => `${JSON.stringify(field)}:${typeof kind === "number" ? kind : JSON.stringify(kind)}`)
    .join(",");
  const collation = canonicalCollation(index.collation);
  return collation ? `{${key}} ${collation}` : `{${key}}`;
}

/** Which observed index is which desired one; several may share one identity. */
export interface IndexPairs {
  readonly pairs: readonly { readonly desired: IndexState; readonly observed: IndexState }[];
  /** Desired indexes that are not there. */
  readonly missing: readonly IndexState[];
  /** Observed indexes that are none of the desired ones. */
  readonly others: readonly IndexState[];
}

/** What the server builds an index by, besides its identity: since 5.0 indexes that differ in it live side by side. */
export function sameBuild(a: IndexState, b: IndexState): boolean {
  return a.unique === b.unique && a.sparse === b.sparse && a.partialFilterExpression === b.partialFilterExpression;
}

/**
 * Which observed index is which desired one. Of those with the same key and collation it is the one that is built the
 * same way, else the one of that name: an index that someone else made on the same key is not ours.
 *
 * @param desired in canonical form, as `observed`
 */
export function pairIndexes(desired: readonly IndexState[], observed: readonly IndexState[]): IndexPairs {
  const twins = new Map<IndexState, IndexState>();
  const free = new Set(observed);
  const groups = Map.groupBy(observed, indexIdentity);
  const rules = [sameBuild, (a: IndexState, b: IndexState) => a.name === b.name];
  for (const matches of rules) {
    for (const index of desired.filter((one) => !twins.has(one))) {
      const twin = groups.get(indexIdentity(index))?.find((other) => free.has(other) && matches(index, other));
      if (!twin) continue;
      twins.set(index, twin);
      free.delete(twin);
    }
  }
  return {
    pairs: [...twins].map(([index, twin]) => ({ desired: index, observed: twin })),
    missing: desired.filter((index) => !twins.has(index)),
    others: observed.filter((index) => free.has(index)),
  };
}

/** Results of `canonicalCollection`: they need no second round, and there may be thousands with thousands of ranges. */
const canonicalCollections = new WeakSet<CollectionState>();

export function canonicalCollection(collection: CollectionState): CollectionState {
  if (canonicalCollections.has(collection)) return collection;
  const { namespace, key, unique, ranges, indexes, balancing, chunkSizeMiB } = collection;
  const canonical = withoutUndefined({
    namespace,
    key: key.map(({ field, kind }) => ({ field, kind })),
    unique: key.length > 0 && unique,
    ranges: canonicalRanges(key, ranges),
    indexes: indexes
      .filter((index) => !sameKey(index.key, [{ field: "_id", kind: 1 }]))
      .map(canonicalIndex)
      .sort(byText((index) => `${indexIdentity(index)} ${index.name}`)),
    balancing,
    chunkSizeMiB,
  });
  canonicalCollections.add(canonical);
  return canonical;
}

/** What a user is known by. */
export function userIdentity(user: Pick<UserState, "name" | "database">): string {
  return `${user.database}.${user.name}`;
}

/** What a role is known by. */
export function roleIdentity(role: UserState["roles"][number]): string {
  return `${role.role}@${role.database}`;
}

export function canonicalUser({ name, database, roles }: UserState): UserState {
  const list = roles.map(({ role, database: on }) => ({ role, database: on }));
  return { name, database, roles: uniqueBy(list, roleIdentity).sort(byText(roleIdentity)) };
}

/** A whole cluster in canonical form. Applying it twice changes nothing. */
export function canonicalSnapshot(snapshot: Snapshot): Snapshot {
  const { replicaSets, shards, databases, collections, balancer, defaults, users } = snapshot;
  return {
    replicaSets: replicaSets.map(canonicalReplicaSet).sort(byText(({ name }) => name)),
    shards: shards.map(canonicalShard).sort(byText(({ name }) => name)),
    databases: databases
      .map(({ name, primaryShard }) => withoutUndefined({ name, primaryShard }))
      .sort(byText(({ name }) => name)),
    collections: collections.map(canonicalCollection).sort(byText(({ namespace }) => namespace)),
    balancer: withoutUndefined({
      enabled: balancer.enabled,
      activeWindow: balancer.activeWindow && { start: balancer.activeWindow.start, stop: balancer.activeWindow.stop },
      chunkSizeMiB: balancer.chunkSizeMiB,
    }),
    defaults: withoutUndefined({
      readConcern: defaults.readConcern,
      writeConcern: defaults.writeConcern && {
        w: defaults.writeConcern.w,
        wtimeoutMillis: defaults.writeConcern.wtimeoutMillis,
      },
    }),
    users: users.map(canonicalUser).sort(byText(userIdentity)),
  };
}
