import type { Document } from "mongodb";
import { compareValues, readableBson, readableValue, toBsonText } from "../../model/bson-text.ts";
import type { CollectionSpec, ShardSpec } from "../../model/spec.ts";
import type { ZoneRange } from "../../model/state.ts";
import { boundForServer } from "../../model/zone-range.ts";
import { changeText } from "../../plan/change-text.ts";
import { desiredCollection, desiredReplicaSet, desiredShard } from "../../plan/desired.ts";
import { diffCollection, diffReplicaSet, diffShard } from "../../plan/diff.ts";
import { readPlacement } from "../balance.ts";
import { mapConcurrently } from "../concurrency.ts";
import type { Operation } from "../context.ts";
import { codeOf } from "../errors.ts";
import { admin, READ_MILLIS, type readConfig, splitNamespace } from "../metadata.ts";
import { indexesPath } from "../observe/cluster.ts";
import { count, type Findings } from "./check.ts";
import { type Facts, memberText } from "./facts.ts";
import { datacenterValues } from "./key-values.ts";

const unseen = (facts: Facts, path: string) => facts.observation.unseen.find((problem) => problem.path === path);

/** M1: members, priorities, votes and tags as declared, and the primary at home. */
export async function checkMembers(facts: Facts, found: Findings): Promise<void> {
  const { spec, observation, members } = facts;
  for (const { name, home, replicaSet } of spec.shards) {
    const blind = unseen(facts, `replicaSets[${replicaSet.name}]`);
    if (blind) {
      found.blind(`${replicaSet.name}: ${blind.message}${blind.fix ? ` (${blind.fix})` : ""}`);
      continue;
    }
    const observed = observation.snapshot.replicaSets.find((set) => set.name === replicaSet.name);
    for (const change of diffReplicaSet(desiredReplicaSet(replicaSet), observed)) found.wrong(changeText(change));
    if (!observed) continue;
    const at = (place: "home" | "away") =>
      observed.members.filter(({ tags }) => (tags.datacenter === home) === (place === "home"));
    const electable = at("home").filter(({ priority }) => priority > 0).length;
    const passive = at("away").filter(({ priority }) => priority === 0);
    found.saw(
      `${name}: ${count(electable, "electable member")} at home in ${home}, ${count(passive.length, "member")} with priority 0 in ${
        [...new Set(passive.map(({ tags }) => tags.datacenter))].join(", ") || "no other datacenter"
      }`,
    );
    const primaries = (members ?? []).filter((fact) => fact.replicaSet === replicaSet.name && fact.state === "primary");
    const [primary] = primaries;
    if (!primary) found.wrong(`${name} has no primary`);
    else if (primary.member.datacenter !== home) {
      found.wrong(`${name}: the primary ${memberText(primary)} is not in its home ${home}`);
    } else found.saw(`${name}: the primary is ${memberText(primary)}`);
  }
}

/** M2: each shard carries its home's zone. */
export async function checkZones(facts: Facts, found: Findings): Promise<void> {
  const blind = unseen(facts, "shards");
  if (blind) return found.blind(blind.message);
  for (const shard of facts.spec.shards) {
    const observed = facts.observation.snapshot.shards.find(({ name }) => name === shard.name);
    for (const change of diffShard(desiredShard(shard), observed)) found.wrong(changeText(change));
    if (observed) found.saw(`${shard.name}: home ${shard.home}, zones ${observed.zones.join(", ") || "none"}`);
  }
}

/** M3: shard keys and zone ranges as declared. */
export async function checkRanges(facts: Facts, found: Findings): Promise<void> {
  const blind = unseen(facts, "collections");
  if (blind) return found.blind(blind.message);
  for (const spec of facts.sharded) {
    const observed = facts.observation.snapshot.collections.find(({ namespace }) => namespace === spec.namespace);
    const indexes = unseen(facts, indexesPath(spec.namespace));
    if (indexes && (!observed || spec.unique)) {
      found.blind(`${spec.namespace}: its indexes cannot be read: ${indexes.message}`);
      continue;
    }
    for (const change of diffCollection(desiredCollection(spec), observed)) {
      if (/^(|key|unique|ranges\[.*)$/s.test(change.path)) found.wrong(changeText(change));
    }
    if (!observed) continue;
    const zones = Map.groupBy(observed.ranges, ({ zone }) => zone);
    const perZone = [...zones].map(([zone, ranges]) => `${ranges.length} in ${zone}`);
    found.saw(
      `${spec.namespace}: sharded on { ${observed.key.map(({ field, kind }) => `${field}: ${kind}`).join(", ")} }${
        observed.unique ? ", unique" : ""
      }, ${count(observed.ranges.length, "zone range")}${perZone.length > 0 ? ` (${perZone.join(", ")})` : ""}`,
    );
    for (const { value, zone } of datacenterValues(spec)) {
      found.saw(`${spec.namespace}: ${spec.datacenterField} ${readableValue(value)} belongs to zone ${zone}`);
    }
  }
}

/** M5: every chunk on a shard of its zone, and no document elsewhere. */
export async function checkPlacement(op: Operation, facts: Facts, found: Findings): Promise<void> {
  await mapConcurrently(facts.sharded, 8, async (spec) => {
    const { namespace } = spec;
    const [placement] = await Promise.all([
      readPlacement(op, facts.connection, namespace),
      checkBalancerStatus(op, facts, namespace, found),
      spec.ranges.length > 0 ? checkDocuments(op, facts, spec, found) : undefined,
    ]);
    const perShard = Object.entries(placement.chunksPerShard).map(([shard, chunks]) => `${chunks} on ${shard}`);
    found.saw(
      `${namespace}: ${count(placement.chunks, "chunk")} in ${count(placement.ranges, "zone range")}, ${perShard.join(", ")}; ${
        placement.misplaced.length === 0 ? "none" : placement.misplaced.length
      } misplaced`,
    );
    for (const chunk of placement.misplaced.slice(0, 5)) {
      const where = `the chunk from ${JSON.stringify(chunk.min)} on ${chunk.shard}`;
      found.wrong(
        chunk.zone === undefined
          ? `${namespace}: ${where} spans several zone ranges`
          : `${namespace}: ${where} belongs to zone ${chunk.zone}${chunk.jumbo ? " and is marked jumbo" : ""}`,
      );
    }
    if (placement.misplaced.length > 5) found.wrong(`${namespace}: and ${placement.misplaced.length - 5} chunks more`);
  });
}

async function checkBalancerStatus(op: Operation, facts: Facts, namespace: string, found: Findings): Promise<void> {
  const client = await op.connections.reader(facts.connection);
  const status = await admin(client, { balancerCollectionStatus: namespace, maxTimeMS: READ_MILLIS });
  if (status.balancerCompliant === true) found.saw(`${namespace}: the balancer calls it compliant`);
  else if (status.firstComplianceViolation === "zoneViolation") {
    found.wrong(`${namespace}: the balancer sees a zone violation that it has yet to correct`);
  } else found.saw(`${namespace}: the balancer has work to do (${status.firstComplianceViolation})`);
}

/**
 * Asks each shard's primary itself, past any router, how many documents it holds and whether any lies in a range of a
 * zone that the shard does not carry. What a migration has left behind and is yet to delete (orphans) is told apart by
 * the shard's own list of such ranges.
 */
async function checkDocuments(op: Operation, facts: Facts, spec: CollectionSpec, found: Findings): Promise<void> {
  const { members, memberCredential, connection } = facts;
  if (members === undefined || memberCredential === undefined) {
    return found.blind(
      `${spec.namespace}: documents are counted by asking members, and no credential for them is given`,
    );
  }
  const { database, collection } = splitNamespace(spec.namespace);
  await Promise.all(
    facts.spec.shards.map(async (shard) => {
      const primary = members.find((fact) => fact.replicaSet === shard.replicaSet.name && fact.state === "primary");
      const host = primary?.member.host;
      if (host === undefined) return found.blind(`${shard.name} has no primary that could count its documents`);
      const client = await op.connections.member(host, memberCredential, connection.tlsCaFile);
      const db = client.db(database);
      const [{ n }, deletions] = await Promise.all([
        db.command({ count: collection, maxTimeMS: READ_MILLIS }),
        readRangeDeletions(client, spec.namespace),
      ]);
      const orphans = deletions.reduce((sum, row) => sum + Number(row.numOrphanDocs ?? 0), 0);
      const left = deletions.length > 0 ? `, and ${count(orphans, "document")} moved away and yet to be deleted` : "";
      found.saw(
        `${spec.namespace}: ${count(Number(n) - orphans, "document")} on ${shard.name} (zone ${shard.zones.join(", ")})${left}`,
      );
      const hint = Object.fromEntries(spec.key.map(({ field, kind }) => [field, kind]));
      const deleting = deletions.flatMap(({ range }) => (range?.min && range?.max ? [range as Bounds] : []));
      if (deleting.length < deletions.length) {
        found.blind(`${spec.namespace}: ${shard.name} does not say which ranges it is yet to delete`);
        return;
      }
      const places = foreignRanges(spec, shard).flatMap(({ zone, min, max }) => {
        const bounds = { min: boundForServer(spec.key, min), max: boundForServer(spec.key, max) };
        return outside(bounds, deleting).map((place) => ({ zone, ...place }));
      });
      await mapConcurrently(places, 8, async ({ zone, min, max }) => {
        const [stray] = await db
          .collection(collection)
          .find(
            {},
            {
              min,
              max,
              hint: hint as never,
              limit: 1,
              projection: { _id: 1 },
              maxTimeMS: READ_MILLIS,
            },
          )
          .toArray()
          .catch((error: unknown) => {
            // The collection has never been on this shard, so there is no index to look into and nothing to find.
            if (Number(n) === 0 && codeOf(error) !== undefined) return [];
            throw error;
          });
        if (stray) {
          found.wrong(
            `${spec.namespace}: ${shard.name} holds documents of zone ${zone}, among them _id ${readableValue(stray._id)} (range from ${readableBson(toBsonText(min))})`,
          );
        }
      });
    }),
  );
}

async function readRangeDeletions(client: Parameters<typeof readConfig>[0], namespace: string) {
  return client
    .db("config")
    .collection("rangeDeletions")
    .find({ nss: namespace }, { maxTimeMS: READ_MILLIS, promoteLongs: false })
    .toArray();
}

interface Bounds {
  readonly min: Document;
  readonly max: Document;
}

/** The parts of a range that lie in none of the others, in order. */
export function outside({ min, max }: Bounds, others: readonly Bounds[]): Bounds[] {
  const parts: Bounds[] = [];
  let from = min;
  for (const other of others.toSorted((a, b) => compareValues(a.min, b.min))) {
    if (compareValues(other.max, from) <= 0) continue;
    if (compareValues(other.min, max) >= 0) break;
    if (compareValues(from, other.min) < 0) parts.push({ min: from, max: other.min });
    from = other.max;
  }
  if (compareValues(from, max) < 0) parts.push({ min: from, max });
  return parts;
}

/** Ranges of zones that the shard does not carry; neighbours are taken together. */
function foreignRanges(spec: CollectionSpec, shard: ShardSpec): ZoneRange[] {
  const merged: ZoneRange[] = [];
  for (const range of spec.ranges) {
    if (shard.zones.includes(range.zone)) continue;
    const last = merged.at(-1);
    if (last && last.max === range.min && last.zone === range.zone)
      merged[merged.length - 1] = { ...last, max: range.max };
    else merged.push(range);
  }
  return merged;
}

/** M9: every datacenter that is home to data has what the declaration gives each of them. */
export async function checkDatacenters(facts: Facts, found: Findings): Promise<void> {
  const { spec, observation } = facts;
  const blind = unseen(facts, "shards");
  if (blind) return found.blind(blind.message);
  const homes = spec.datacenters.filter(({ witness }) => !witness);
  for (const { name } of homes) {
    const shards = spec.shards.filter(({ home }) => home === name);
    const live = shards.filter((shard) => observation.snapshot.shards.some((one) => one.name === shard.name));
    const routers = spec.routers.filter(({ datacenter }) => datacenter === name);
    if (live.length === 0) found.wrong(`${name} is home to no shard of the cluster`);
    if (routers.length === 0) found.wrong(`${name} has no router`);
    for (const collection of facts.sharded.filter(({ datacenterField }) => datacenterField !== undefined)) {
      const zones = new Set(live.flatMap(({ zones: carried }) => carried));
      if (collection.ranges.some(({ zone }) => zones.has(zone))) continue;
      found.wrong(`${collection.namespace} has no zone range for ${name}`);
    }
    found.saw(`${name}: ${count(live.length, "shard")}, ${count(routers.length, "router")}`);
  }
  found.saw(`${count(homes.length, "datacenter")} and ${count(spec.shards.length, "shard")} by one declaration`);
}
