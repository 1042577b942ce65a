import fc from "fast-check";
import { expect, test, vi } from "vitest";
import type { Change } from "../../../infra/plan/change.ts";
import { diff } from "../../../infra/plan/diff.ts";
import { orderChanges, PHASES } from "../../../infra/plan/order.ts";
import { snapshot } from "../../support/arbitraries.ts";

// Hundreds of random cases: a second on an idle machine, far more on a busy one.
vi.setConfig({ testTimeout: 60_000 });

type Test = (change: Change) => boolean;
const is =
  (
    kind: Change["resource"]["kind"],
    path?: RegExp,
    actions: readonly Change["action"][] = ["create", "update", "delete"],
  ): Test =>
  (change) =>
    change.resource.kind === kind && (path === undefined || path.test(change.path)) && actions.includes(change.action);
const gives = ["create", "update"] as const;

/** What must come before what, said independently of the phases. `same`: only within one resource. */
const DEPENDENCIES: readonly {
  readonly why: string;
  readonly first: Test;
  readonly later: Test;
  readonly same?: true;
}[] = [
  { why: "a shard is added by its replica set", first: is("ReplicaSet", /^$/, ["create"]), later: is("Shard") },
  {
    why: "an arbiter wants the default write concern",
    first: is("ClusterDefaults"),
    later: is("ReplicaSet", /^members/),
  },
  {
    why: "a new zone is carried before a range names it",
    first: is("Shard", /^(zones.*)?$/, ["create"]),
    later: is("ShardedCollection", /^(ranges.*)?$/, gives),
  },
  { why: "a database has its primary shard first", first: is("Shard", /^$/, ["create"]), later: is("Database") },
  {
    why: "a collection is made in its database",
    first: is("Database", undefined, gives),
    later: is("ShardedCollection", /^(key|indexes.*|)$/, gives),
  },
  {
    why: "ranges before sharding",
    first: is("ShardedCollection", /^ranges/, gives),
    later: is("ShardedCollection", /^key$/),
    same: true,
  },
  {
    why: "the shard key before further indexes",
    first: is("ShardedCollection", /^key$/),
    later: is("ShardedCollection", /^indexes/, gives),
    same: true,
  },
  {
    why: "ranges go before their zone does",
    first: is("ShardedCollection", /^ranges/),
    later: is("Shard", /^zones/, ["delete"]),
  },
  {
    why: "new ranges before old ones go",
    first: is("ShardedCollection", /^ranges/, gives),
    later: is("ShardedCollection", /^ranges/, ["delete"]),
    same: true,
  },
  {
    why: "all ranges before a collection's chunks may move",
    first: is("ShardedCollection", /^ranges/),
    later: (change) => is("ShardedCollection", /^balancing$/)(change) && change.desired === true,
    same: true,
  },
  {
    why: "all collections before the balancer is let loose",
    first: is("ShardedCollection"),
    later: (change) => is("Balancer", /^enabled$/)(change) && change.desired === true,
  },
  {
    why: "the balancer rests before ranges change",
    first: (change) => is("Balancer", /^enabled$/)(change) && change.desired === false,
    later: is("ShardedCollection", /^(ranges.*|key|)$/),
  },
  {
    why: "sharded before its balancing is set",
    first: is("ShardedCollection", /^key$/),
    later: is("ShardedCollection", /^balancing$/),
    same: true,
  },
  {
    why: "roles are given before they are taken",
    first: is("User", /^roles/, ["create"]),
    later: is("User", /^roles/, ["delete"]),
    same: true,
  },
];

test("order never breaks a dependency", () => {
  const met = new Set<string>();
  fc.assert(
    fc.property(snapshot, snapshot, fc.infiniteStream(fc.nat()), (desired, observed, seeds) => {
      // From any order of the list.
      const shuffled = diff(desired, observed)
        .map((change) => ({ change, at: seeds.next().value as number }))
        .sort((a, b) => a.at - b.at)
        .map(({ change }) => change);
      const ordered = orderChanges(shuffled);
      expect(ordered).toHaveLength(shuffled.length);
      for (const { why, first, later: then, same } of DEPENDENCIES) {
        for (const [position, one] of ordered.entries()) {
          if (!first(one)) continue;
          const earlier = ordered
            .slice(0, position)
            .find((change) => then(change) && (!same || change.resource.name === one.resource.name) && change !== one);
          if (ordered.some((change) => then(change))) met.add(why);
          if (earlier)
            throw new Error(
              `${why}: ${earlier.resource.name} ${earlier.path} came before ${one.resource.name} ${one.path}`,
            );
        }
      }
    }),
    { numRuns: 200 },
  );
  // Each dependency was put to the test at least once, or the test proves nothing about it.
  expect([...met].toSorted()).toEqual(DEPENDENCIES.map(({ why }) => why).toSorted());
});

test("what is only seen comes last", () => {
  fc.assert(
    fc.property(snapshot, snapshot, (desired, observed) => {
      const actions = orderChanges(diff(desired, observed)).map((change) => change.action === "seen");
      expect(actions).toEqual(actions.toSorted());
    }),
  );
});

test("each phase says why it is where it is", () => {
  for (const { name, why } of PHASES) expect(why, name).not.toBe("");
});
