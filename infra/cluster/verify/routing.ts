import type { TagSet } from "mongodb";
import { readableValue } from "../../model/bson-text.ts";
import { mapConcurrently } from "../concurrency.ts";
import type { Operation } from "../context.ts";
import { READ_MILLIS, splitNamespace } from "../metadata.ts";
import { explainedShards, warmMembers } from "../warm.ts";
import { count, type Findings } from "./check.ts";
import type { Facts } from "./facts.ts";
import { datacenterValues } from "./key-values.ts";

/** M10: a read, an update and a delete that name the datacenter reach one shard, and it is one of that datacenter's. */
export async function checkTargeting(op: Operation, facts: Facts, found: Findings): Promise<void> {
  const cases = facts.routers.flatMap((router) =>
    facts.sharded.flatMap((spec) => datacenterValues(spec).map((value) => ({ router, spec, ...value }))),
  );
  if (cases.length === 0) {
    found.saw("no collection has zone ranges per datacenter");
    return;
  }
  const seen = await mapConcurrently(cases, 8, async ({ router, spec, value, zone }) => {
    if (router.problem !== undefined)
      return found.blind(`the router in ${router.router.datacenter}: ${router.problem}`);
    const { database, collection } = splitNamespace(spec.namespace);
    const field = spec.datacenterField ?? "";
    const query = { [field]: value };
    const db = (await op.connections.reader(router.connection)).db(database);
    const commands = {
      find: { find: collection, filter: query },
      update: { update: collection, updates: [{ q: query, u: { $set: { alfabravo: 1 } }, multi: true }] },
      delete: { delete: collection, deletes: [{ q: query, limit: 0 }] },
    };
    const allowed = new Set(facts.spec.shards.filter(({ zones }) => zones.includes(zone)).map(({ name }) => name));
    const reached = await Promise.all(
      Object.entries(commands).map(async ([name, command]) => {
        const answer = await db.command({ explain: command, verbosity: "queryPlanner", maxTimeMS: READ_MILLIS });
        const shards = explainedShards(answer).map(({ shard }) => shard);
        const label = `${spec.namespace}: ${name} with ${field} ${readableValue(value)} through ${router.router.host ?? router.router.name}`;
        const strangers = shards.filter((shard) => !allowed.has(shard));
        if (shards.length === 0) found.blind(`${label}: explain names no shard`);
        else if (strangers.length > 0 || (allowed.size === 1 && shards.length > 1)) {
          found.wrong(
            `${label} reaches ${shards.join(" and ")}, and zone ${zone} is on ${[...allowed].join(", ")} only`,
          );
        }
        return shards;
      }),
    );
    return `${spec.namespace}: ${field} ${readableValue(value)} through the router in ${router.router.datacenter}: find, update and delete reach ${[
      ...new Set(reached.flat()),
    ].join(" and ")}`;
  });
  for (const text of seen) if (text) found.saw(text);
}

/** M11: every member has served a routed read of every sharded collection. It warms those that had not. */
export async function checkWarmth(op: Operation, facts: Facts, found: Findings): Promise<void> {
  const results = await warmMembers(
    op,
    facts.connection,
    facts.sharded.map(({ namespace }) => namespace),
    { tagSets: tagSetsOf(facts) },
  );
  for (const { namespace, shard, members, served, problem } of results) {
    found.saw(
      `${namespace}: ${served.length} of ${count(members, "member")} of ${shard} served a routed read (${served.join(", ")})`,
    );
    if (served.length < members) {
      found.wrong(
        `${namespace}: ${members - served.length} of ${count(members, "member")} of ${shard} served no routed read${problem ? `: ${problem}` : ""}`,
      );
    }
  }
}

/** A tag set for each datacenter. */
function tagSetsOf({ spec }: Facts): TagSet[] {
  return spec.datacenters.map(({ name }) => ({ datacenter: name }));
}
