/**
 * What the server would refuse, or what would surprise, looked for before anything is touched. The rules see the
 * desired state and, where they need it, the observed one. `problems` stop a deployment; `warnings` are told.
 */
import { readableBson } from "../model/bson-text.ts";
import { isKeyPrefix, keyText, sameKey, shardKeyProblems, uniqueIndexFits } from "../model/key.ts";
import type { Problem } from "../model/problem.ts";
import type {
  ClusterDefaultsState,
  CollectionState,
  IndexState,
  KeyPart,
  Namespace,
  ReplicaSetState,
  ShardState,
  Snapshot,
} from "../model/state.ts";
import { rangeProblems, typeSuspicions } from "../model/zone-range.ts";
import {
  alignCollations,
  canonicalCollection,
  canonicalReplicaSet,
  canonicalSnapshot,
  indexIdentity,
  pairIndexes,
} from "./canonical.ts";
import { type ObservedConfig, planReconfig } from "./reconfig.ts";

export interface Findings {
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

/** What observation can add to a state, when it was asked. */
export interface CollectionFacts {
  /** Number of documents, or an estimate; undefined: not known. */
  readonly documents?: number | undefined;
  /** All indexes of the collection, those on `_id` and the shard key included; undefined: not known. */
  readonly allIndexes?: readonly IndexState[] | undefined;
}

class Collector {
  readonly problems: Problem[] = [];
  readonly warnings: Problem[] = [];

  problem(path: string, message: string, rule: string, fix: string): void {
    this.problems.push({ path, message, rule, fix });
  }

  warn(path: string, message: string, rule: string, fix: string): void {
    this.warnings.push({ path, message, rule, fix });
  }

  take({ problems, warnings }: Findings): void {
    this.problems.push(...problems);
    this.warnings.push(...warnings);
  }
}

const ID_KEY: readonly KeyPart[] = [{ field: "_id", kind: 1 }];

/** Whether an index can stand in for the index of the shard key: begins with it, holds all documents, compares simply. */
export function supportsShardKey(index: IndexState, key: readonly KeyPart[], unique: boolean): boolean {
  const whole = !index.sparse && index.partialFilterExpression === undefined && index.collation === undefined;
  if (!whole || index.key.some((part) => part.kind === "wildcard")) return false;
  return unique ? index.unique && sameKey(index.key, key) : isKeyPrefix(key, index.key);
}

/**
 * Rules for one collection: U2 (which unique indexes it may have), U3 (an existing unique index stands in the way),
 * U4 (a collection with data needs the index of its key first), its ranges, and what changes mean.
 */
export function collectionRules(
  desired: CollectionState,
  observed: CollectionState | undefined,
  facts: CollectionFacts = {},
): Findings {
  const found = new Collector();
  const want = canonicalCollection(desired);
  const have = observed && canonicalCollection(observed);
  const { namespace, key, unique } = want;
  const sharded = key.length > 0;
  if (sharded) {
    found.problems.push(...shardKeyProblems(key, unique, `${namespace}.key`));
    found.problems.push(...rangeProblems(key, want.ranges, `${namespace}.ranges`));
    for (const index of want.indexes.filter((one) => one.unique && !uniqueIndexFits(key, one.key))) {
      found.problem(
        `${namespace}.indexes[${indexIdentity(index)}]`,
        `the unique index ${index.name} on ${keyText(index.key)} does not begin with the shard key ${keyText(key)}`,
        "each shard enforces uniqueness for itself, so a unique index of a sharded collection has the whole shard key as its prefix (U2)",
        "begin it with the shard key, drop unique, or guard the fields with a proxy collection",
      );
    }
    for (const { field, bound, type, usual } of typeSuspicions(key, want.ranges)) {
      found.warn(
        `${namespace}.ranges`,
        `the bound ${readableBson(bound)} has a ${type} in ${field} where the other bounds have a ${usual}`,
        "the server sorts types apart: a range between numbers holds no date and no string",
        `write ${field} in the type that the documents have`,
      );
    }
  }
  if (!have) return found;

  const wasSharded = have.key.length > 0;
  if (sharded && !wasSharded) shardingRules(found, want, have, facts);
  if (sharded && wasSharded) keyChangeRules(found, want, have);
  if (!sharded && wasSharded) {
    found.problem(
      `${namespace}.key`,
      `the collection is sharded on ${keyText(have.key)} and declared as not sharded`,
      "taking the shards of a collection together again is not done behind anyone's back",
      `declare the key ${keyText(have.key)}, or remove the collection from the declaration`,
    );
  }
  const present = alignCollations(want.indexes, have.indexes);
  const { pairs, missing } = pairIndexes(want.indexes, present);
  for (const pair of pairs) indexChangeRules(found, namespace, pair.desired, pair.observed);
  for (const index of missing) {
    const namesake = present.find((other) => other.name === index.name);
    if (namesake) {
      found.problem(
        `${namespace}.indexes[${indexIdentity(index)}]`,
        `the name ${index.name} belongs to the index on ${keyText(namesake.key)}`,
        "names of indexes are unique in a collection",
        "give the index another name, or drop the other one by hand",
      );
    }
  }
  return found;
}

function shardingRules(found: Collector, want: CollectionState, have: CollectionState, facts: CollectionFacts): void {
  const { namespace, key, unique } = want;
  const present = facts.allIndexes ?? have.indexes;
  for (const index of present.filter((one) => one.unique && !sameKey(one.key, ID_KEY))) {
    if (uniqueIndexFits(key, index.key)) continue;
    found.problem(
      `${namespace}.key`,
      `the unique index ${index.name} on ${keyText(index.key)} stands in the way of sharding on ${keyText(key)}`,
      "a collection with a unique index that does not begin with the shard key cannot be sharded (U3)",
      `shard on ${keyText(index.key)}, or drop ${index.name} and guard its fields with a proxy collection`,
    );
  }
  if (facts.documents === 0 || facts.allIndexes === undefined) return;
  const support = present.find((index) => supportsShardKey(index, key, unique));
  const name = keyText(key);
  if (support) return;
  const near = unique && present.find((index) => sameKey(index.key, key) && !index.unique);
  if (near) {
    found.problem(
      `${namespace}.unique`,
      `the index ${near.name} on the key ${name} is there and not unique`,
      "sharding on a unique key needs a unique index on exactly that key, and two indexes on one key cannot be (U4)",
      `look for duplicates, drop ${near.name}, and apply again: the unique index is built first`,
    );
    return;
  }
  const count = facts.documents === undefined ? "" : `${facts.documents} `;
  found.warn(
    `${namespace}.key`,
    `the collection has ${count}documents and no ${unique ? "unique " : ""}index on ${name}: it is built first`,
    "a collection with data is sharded only with an index on its key (U4)",
    unique
      ? "duplicates are looked for and listed before; expect the build to take its time"
      : "expect the build to take its time",
  );
}

function keyChangeRules(found: Collector, want: CollectionState, have: CollectionState): void {
  const { namespace, key } = want;
  const refines = isKeyPrefix(have.key, key) && key.length > have.key.length;
  if (!sameKey(key, have.key)) {
    if (want.unique !== have.unique) {
      found.problem(
        `${namespace}.unique`,
        "the shard key and its uniqueness change at once",
        "a shard key is refined in place, which keeps its uniqueness",
        "change one of them",
      );
    } else if (refines) {
      found.warn(
        `${namespace}.key`,
        `the shard key is refined from ${keyText(have.key)} to ${keyText(key)}`,
        "refining adds fields in place and needs an index on the new key; no document moves by it",
        "make the zone ranges fit the new key in the same declaration",
      );
    } else {
      found.problem(
        `${namespace}.key`,
        `the shard key would change from ${keyText(have.key)} to ${keyText(key)}`,
        "only a longer key with the same beginning is changed to in place; any other key copies every document, and that is not done unasked",
        want.unique
          ? "keep the key: the server reshards only to keys that are not unique"
          : `keep the key, or run reshardCollection by hand and declare the new key then`,
      );
    }
  } else if (want.unique !== have.unique) {
    found.problem(
      `${namespace}.unique`,
      `the shard key ${keyText(key)} is ${have.unique ? "" : "not "}unique and declared as ${want.unique ? "" : "not "}unique`,
      "uniqueness of a shard key is set when the collection is sharded and never changed",
      want.unique
        ? "declare unique: false and guard the fields with a proxy collection"
        : "declare unique: true, as it is",
    );
  }
}

/** Options that can be changed in place are not told; the others mean that the index is built anew. */
function indexChangeRules(found: Collector, namespace: Namespace, want: IndexState, have: IndexState): void {
  const rebuilt = (["unique", "sparse", "partialFilterExpression"] as const).filter(
    (field) => (want[field] ?? false) !== (have[field] ?? false),
  );
  if (want.expireAfterSeconds === undefined && have.expireAfterSeconds !== undefined) {
    found.warn(
      `${namespace}.indexes[${indexIdentity(want)}]`,
      `the index ${have.name} lets documents expire and is declared without: it is built anew`,
      "the server cannot take the expiry from an index",
      `declare expireAfterSeconds: ${have.expireAfterSeconds} to keep it`,
    );
  }
  if (rebuilt.length > 0) {
    found.warn(
      `${namespace}.indexes[${indexIdentity(want)}]`,
      `${rebuilt.join(" and ")} of the index ${have.name} ${rebuilt.length > 1 ? "differ" : "differs"}: it is dropped and built anew`,
      "the server changes only hidden and expireAfterSeconds in place",
      "queries go without the index meanwhile; apply when that is fine",
    );
  }
}

/** Rules for a replica set against what is there. */
export function replicaSetRules(
  desired: ReplicaSetState,
  observed: ObservedConfig | ReplicaSetState | undefined,
  context: { readonly defaults: ClusterDefaultsState | undefined; readonly others?: readonly ReplicaSetState[] },
): Findings {
  const found = new Collector();
  const want = canonicalReplicaSet(desired);
  const path = `replica set ${want.name}`;
  const members = new Set(want.members.map(({ host }) => host));
  for (const other of (context.others ?? []).map(canonicalReplicaSet)) {
    if (other.name === want.name) continue;
    for (const { host } of other.members.filter((member) => members.has(member.host))) {
      found.problem(
        `${path}.members[${host}]`,
        `${host} is a member of the replica set ${other.name}`,
        "a server is a member of one replica set",
        `use another port, or remove it from ${other.name} first`,
      );
    }
  }
  if (observed) {
    const config: ObservedConfig =
      "version" in observed
        ? observed
        : {
            version: 1,
            settings: observed.settings,
            members: observed.members.map((member, _id) => ({ ...member, _id })),
          };
    const { problems, steps } = planReconfig({
      observed: config,
      desired: want,
      defaultWriteConcernSet: context.defaults?.writeConcern !== undefined,
    });
    found.problems.push(...problems);
    if (steps.length > 1) {
      found.warn(
        path,
        `changing it takes ${steps.length} reconfigs: ${steps.map(({ why }) => why).join("; ")}`,
        "one voter changes at a time, and new members copy the data before they vote",
        "expect it to take its time",
      );
    }
  }
  return found;
}

/**
 * Rules for shards: what a zone loses, and where a name has moved to.
 *
 * @param empty names of shards that are known to own no part of any collection
 */
export function shardRules(
  desired: readonly ShardState[],
  observed: readonly ShardState[],
  empty: ReadonlySet<string> = new Set(),
): Findings {
  const found = new Collector();
  const before = new Map(observed.map((shard) => [shard.name, shard]));
  for (const shard of desired) {
    const now = before.get(shard.name);
    if (!now) continue;
    const path = `shard ${shard.name}`;
    if (now.replicaSet !== shard.replicaSet) {
      found.problem(
        `${path}.replicaSet`,
        `it is the replica set ${now.replicaSet}, declared as ${shard.replicaSet}`,
        "a shard keeps its replica set for life",
        "declare a new shard beside it, and drain this one when the new one has its zones",
      );
    }
    if (now.draining) {
      found.warn(
        path,
        "it is being drained",
        "a draining shard gets no documents and leaves when it is empty",
        "applying is refused meanwhile: let the removal finish, or stop it by hand; to let it go for good remove it from the declaration",
      );
    }
    const lost = now.zones.filter((zone) => !shard.zones.includes(zone));
    const gained = shard.zones.filter((zone) => !now.zones.includes(zone));
    if (lost.length > 0 && gained.length > 0 && lost.length === now.zones.length) {
      const message = `its zones change from ${now.zones.join(", ")} to ${shard.zones.join(", ")}`;
      if (empty.has(shard.name)) {
        found.warn(
          `${path}.zones`,
          `${message}; it holds no data yet`,
          "the zones of a shard say where its documents live",
          "nothing has to move; keep the zones if that is not meant",
        );
        continue;
      }
      found.problem(
        `${path}.zones`,
        `${message}: all its zoned documents would move`,
        "counted shards are named by their position, so adding a datacenter or swapping the order moves names to other homes",
        "list the shards with their names and homes, as they are",
      );
    }
  }
  return found;
}

/** Every rule over a whole cluster. `facts` by namespace, where they were asked for. */
export function preflight(
  desired: Snapshot,
  observed: Snapshot | undefined,
  facts: Readonly<Record<Namespace, CollectionFacts>> = {},
): Findings {
  const found = new Collector();
  const want = canonicalSnapshot(desired);
  const have = observed && canonicalSnapshot(observed);
  const sets = new Map(have?.replicaSets.map((set) => [set.name, set]));
  const collections = new Map(have?.collections.map((collection) => [collection.namespace, collection]));

  const hosts = new Map<string, string>();
  for (const set of want.replicaSets) {
    for (const { host } of set.members) {
      const other = hosts.get(host);
      if (other !== undefined && other !== set.name) {
        found.problem(
          `replica set ${set.name}.members[${host}]`,
          `${host} is declared in ${other} as well`,
          "a server is a member of one replica set",
          "give one of them another port",
        );
      }
      hosts.set(host, set.name);
    }
    // Applied before any member changes, so what is desired counts as set.
    const defaults = want.defaults.writeConcern ? want.defaults : have?.defaults;
    found.take(replicaSetRules(set, sets.get(set.name), { defaults, others: have?.replicaSets ?? [] }));
  }
  found.take(shardRules(want.shards, have?.shards ?? []));

  const carried = new Set(
    [
      ...want.shards,
      ...(have?.shards ?? []).filter(({ name }) => !want.shards.some((shard) => shard.name === name)),
    ].flatMap(({ zones }) => zones),
  );
  for (const collection of want.collections) {
    found.take(collectionRules(collection, collections.get(collection.namespace), facts[collection.namespace]));
    for (const zone of new Set(collection.ranges.map((range) => range.zone))) {
      if (carried.has(zone)) continue;
      found.problem(
        `${collection.namespace}.ranges`,
        `no shard carries the zone ${zone}`,
        "the server refuses ranges of a zone that no shard carries",
        "give the zone to a shard, or correct its name",
      );
    }
  }
  for (const collection of have?.collections ?? []) {
    if (want.collections.some(({ namespace }) => namespace === collection.namespace)) continue;
    // Zones that are about to lose their last shard still have ranges of collections that nobody declared.
    const orphaned = new Set(collection.ranges.map(({ zone }) => zone).filter((zone) => !carried.has(zone)));
    for (const zone of orphaned) {
      found.problem(
        `${collection.namespace}.ranges`,
        `the undeclared collection has ranges of the zone ${zone}, which no shard would carry any more`,
        "a zone leaves its last shard only when no range needs it",
        "declare the collection, keep the zone, or remove its ranges by hand",
      );
    }
  }
  for (const database of want.databases) {
    const now = have?.databases.find(({ name }) => name === database.name);
    if (now?.primaryShard && database.primaryShard && now.primaryShard !== database.primaryShard) {
      found.warn(
        `database ${database.name}.primaryShard`,
        `it moves from ${now.primaryShard} to ${database.primaryShard}`,
        "collections that are not sharded move with it, and writes to them wait meanwhile",
        `declare ${now.primaryShard} if that is not meant`,
      );
    }
  }
  return found;
}
