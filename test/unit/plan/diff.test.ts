import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { withHosts } from "../../../infra/model/host.ts";
import { keyParts } from "../../../infra/model/key.ts";
import type { IndexState, Snapshot } from "../../../infra/model/state.ts";
import { canonicalIndex, canonicalSnapshot, indexIdentity } from "../../../infra/plan/canonical.ts";
import type { Change } from "../../../infra/plan/change.ts";
import { desiredSnapshot } from "../../../infra/plan/desired.ts";
import { diff, diffCollection } from "../../../infra/plan/diff.ts";
import { orderChanges } from "../../../infra/plan/order.ts";
import { reference } from "../../../stacks/reference.ts";
import { snapshot } from "../../support/arbitraries.ts";
import { applyChange } from "../../support/cluster-model.ts";

// Hundreds of random cases: a second on an idle machine, far more on a busy one.
vi.setConfig({ testTimeout: 60_000 });

const real = (changes: readonly Change[]) => changes.filter((change) => change.action !== "seen");

/** The reference deployment with hosts, as a desired state. */
function placed(): Snapshot {
  const sets = [reference.configServers, ...reference.shards.map((shard) => shard.replicaSet)];
  const names = [
    ...sets.flatMap((set) => set.members.map(({ name }) => name)),
    ...reference.routers.map(({ name }) => name),
  ];
  return desiredSnapshot(
    withHosts(reference, Object.fromEntries(names.map((name, index) => [name, `127.0.0.1:${27_100 + index}`]))),
  );
}

describe("properties", () => {
  test("diff(x, x) is empty, whatever the order of lists", () => {
    fc.assert(
      fc.property(snapshot, (state) => {
        const reversed: Snapshot = {
          ...state,
          replicaSets: state.replicaSets.map((set) => ({ ...set, members: set.members.toReversed() })).reverse(),
          shards: state.shards.map((shard) => ({ ...shard, zones: shard.zones.toReversed() })).reverse(),
          collections: state.collections
            .map((one) => ({ ...one, ranges: one.ranges.toReversed(), indexes: one.indexes.toReversed() }))
            .reverse(),
          users: state.users.map((user) => ({ ...user, roles: [...user.roles, ...user.roles] })),
        };
        expect(real(diff(state, reversed))).toEqual([]);
        expect(canonicalSnapshot(reversed)).toEqual(canonicalSnapshot(state));
      }),
    );
  });

  test("applying diff(desired, observed) in order leaves no difference and touches nothing that is only seen", () => {
    fc.assert(
      fc.property(snapshot, snapshot, (desired, observed) => {
        const changes = orderChanges(diff(desired, observed));
        const after = changes.reduce(applyChange, canonicalSnapshot(observed));
        expect(real(diff(desired, after))).toEqual([]);
        const seen = changes.filter((change) => change.action === "seen");
        expect(diff(desired, after).filter((change) => change.action === "seen")).toHaveLength(seen.length);
      }),
      { numRuns: 150 },
    );
  });

  test("the canonical form is a fixed point", () => {
    fc.assert(
      fc.property(snapshot, (state) => {
        const once = canonicalSnapshot(state);
        expect(canonicalSnapshot(structuredClone(once))).toEqual(once);
      }),
    );
  });

  test("a state survives JSON, as Pulumi keeps it", () => {
    fc.assert(
      fc.property(snapshot, (state) => {
        expect(real(diff(state, JSON.parse(JSON.stringify(state)) as Snapshot))).toEqual([]);
      }),
    );
  });
});

/** Each managed field of the reference deployment, changed alone by hand. */
const HAND: readonly [
  name: string,
  change: (state: Snapshot) => Snapshot,
  path: string,
  action: Change["action"],
  kind: string,
][] = [
  ["priority", member({ priority: 7 }), "members[127.0.0.1:27103].priority", "update", "ReplicaSet"],
  ["votes", member({ votes: 0 }), "members[127.0.0.1:27103].votes", "update", "ReplicaSet"],
  ["hidden", member({ hidden: true }), "members[127.0.0.1:27103].hidden", "update", "ReplicaSet"],
  ["arbiterOnly", member({ arbiterOnly: true }), "members[127.0.0.1:27103].arbiterOnly", "update", "ReplicaSet"],
  ["delay", member({ secondaryDelaySecs: 5 }), "members[127.0.0.1:27103].secondaryDelaySecs", "update", "ReplicaSet"],
  [
    "tag",
    member({ tags: { datacenter: "bravo" } }),
    "members[127.0.0.1:27103].tags.datacenter",
    "update",
    "ReplicaSet",
  ],
  [
    "tag more",
    member({ tags: { datacenter: "alfa", disk: "ssd" } }),
    "members[127.0.0.1:27103].tags.disk",
    "update",
    "ReplicaSet",
  ],
  [
    "member gone",
    set((one) => ({ ...one, members: one.members.slice(1) })),
    "members[127.0.0.1:27103]",
    "create",
    "ReplicaSet",
  ],
  ["zone gone", shard((one) => ({ ...one, zones: [] })), "zones[alfa]", "create", "Shard"],
  ["zone more", shard((one) => ({ ...one, zones: ["alfa", "x"] })), "zones[x]", "delete", "Shard"],
  ["draining", shard((one) => ({ ...one, draining: true })), "draining", "update", "Shard"],
  ["replica set", shard((one) => ({ ...one, replicaSet: "y" })), "replicaSet", "update", "Shard"],
  [
    "primary shard",
    (state) => ({ ...state, databases: [{ name: "chat", primaryShard: "shard0001" }] }),
    "primaryShard",
    "update",
    "Database",
  ],
  [
    "range gone",
    collection((one) => ({ ...one, ranges: one.ranges.slice(0, -1) })),
    'ranges[{"datacenter":"bravo","userid":{"$maxKey":1}}]',
    "create",
    "ShardedCollection",
  ],
  [
    "range's zone",
    collection((one) => ({ ...one, ranges: one.ranges.map((r, i) => (i === 1 ? { ...r, zone: "bravo" } : r)) })),
    'ranges[{"datacenter":"alfa","userid":{"$minKey":1}}].zone',
    "update",
    "ShardedCollection",
  ],
  [
    "range's max",
    collection((one) => ({
      ...one,
      ranges: one.ranges.map((r, i) => (i === 4 ? { ...r, max: '{"datacenter":"z","userid":{"$minKey":1}}' } : r)),
    })),
    'ranges[{"datacenter":"bravo","userid":{"$maxKey":1}}].max',
    "update",
    "ShardedCollection",
  ],
  [
    "key",
    collection((one) => ({ ...one, key: keyParts({ userid: 1, datacenter: 1 }) })),
    "key",
    "update",
    "ShardedCollection",
  ],
  ["unique", collection((one) => ({ ...one, unique: true })), "unique", "update", "ShardedCollection"],
  ["balancing", collection((one) => ({ ...one, balancing: false })), "balancing", "update", "ShardedCollection"],
  [
    "index by hand",
    collection((one) => ({
      ...one,
      indexes: [{ name: "x_1", key: keyParts({ x: 1 }), unique: false, sparse: false, hidden: false }],
    })),
    'indexes[{"x":1}]',
    "seen",
    "ShardedCollection",
  ],
  [
    "balancer",
    (state) => ({ ...state, balancer: { ...state.balancer, enabled: false } }),
    "enabled",
    "update",
    "Balancer",
  ],
  [
    "window",
    (state) => ({ ...state, balancer: { ...state.balancer, activeWindow: { start: "01:00", stop: "02:00" } } }),
    "activeWindow",
    "update",
    "Balancer",
  ],
  [
    "chunk size",
    (state) => ({ ...state, balancer: { ...state.balancer, chunkSizeMiB: 1 } }),
    "chunkSizeMiB",
    "seen",
    "Balancer",
  ],
  [
    "write concern",
    (state) => ({ ...state, defaults: { writeConcern: { w: 1, wtimeoutMillis: 0 } } }),
    "writeConcern",
    "update",
    "ClusterDefaults",
  ],
  [
    "role",
    (state) => ({
      ...state,
      users: state.users.map((user) => (user.name === "application" ? { ...user, roles: [] } : user)),
    }),
    "roles[readWrite@chat]",
    "create",
    "User",
  ],
  [
    "user by hand",
    (state) => ({ ...state, users: [...state.users, { name: "eve", database: "admin", roles: [] }] }),
    "",
    "seen",
    "User",
  ],
];

function set(change: (one: Snapshot["replicaSets"][number]) => Snapshot["replicaSets"][number]) {
  return (state: Snapshot): Snapshot => ({
    ...state,
    replicaSets: state.replicaSets.map((one) => (one.name === "shard0000" ? change(one) : one)),
  });
}
function member(fields: Partial<Snapshot["replicaSets"][number]["members"][number]>) {
  return set((one) => ({
    ...one,
    members: one.members.map((item) => (item.host === "127.0.0.1:27103" ? { ...item, ...fields } : item)),
  }));
}
function shard(change: (one: Snapshot["shards"][number]) => Snapshot["shards"][number]) {
  return (state: Snapshot): Snapshot => ({
    ...state,
    shards: state.shards.map((one) => (one.name === "shard0000" ? change(one) : one)),
  });
}
function collection(change: (one: Snapshot["collections"][number]) => Snapshot["collections"][number]) {
  return (state: Snapshot): Snapshot => ({
    ...state,
    collections: state.collections.map((one) => (one.namespace === "chat.messages" ? change(one) : one)),
  });
}

describe("one field changed by hand is reported alone, with its path", () => {
  test.each(HAND)("%s", (_, change, path, action, kind) => {
    const desired = placed();
    expect(diff(desired, change(desired))).toMatchObject([{ path, action, resource: { kind } }]);
  });
});

describe("what the server treats as the same is no difference", () => {
  test("hosts in another case, bounds as prefixes, numbers of another type, a collation written out", () => {
    const index = { name: "n", key: keyParts({ n: 1 }), unique: false, sparse: false, hidden: false };
    const base = placed();
    const state = (bound: string, max: string, host: string, collation: string): Snapshot => ({
      ...base,
      replicaSets: [
        {
          name: "s",
          role: "shard",
          settings: {},
          members: [
            { host, priority: 1, votes: 1, hidden: false, arbiterOnly: false, secondaryDelaySecs: 0, tags: {} },
          ],
        },
      ],
      collections: [
        {
          namespace: "a.b",
          key: keyParts({ x: 1, y: 1 }),
          unique: false,
          balancing: true,
          indexes: [{ ...index, collation }],
          ranges: [{ zone: "z", min: bound, max }],
        },
      ],
    });
    expect(
      diff(
        state('{"x":1}', '{"x":2.5,"y":3}', "DB1.Example.net:27017", '{"locale":"en","strength":2}'),
        state(
          '{"x":{"$numberLong":"1"},"y":{"$minKey":1}}',
          '{"x":{"$numberDecimal":"2.50"},"y":{"$numberDouble":"3.0"}}',
          "db1.example.net:27017",
          '{"locale":"en","caseLevel":false,"caseFirst":"off","strength":{"$numberInt":"2"},"numericOrdering":false,"alternate":"non-ignorable","maxVariable":"punct","normalization":false,"backwards":false,"version":"57.1"}',
        ),
      ),
    ).toEqual([]);
  });

  test("indexes on one key are told apart by how they are built, then by name", () => {
    const index = (name: string, filter?: string) => ({
      name,
      key: keyParts({ n: 1 }),
      unique: false,
      sparse: false,
      hidden: false,
      ...(filter === undefined ? {} : { partialFilterExpression: filter }),
    });
    const changes = (desired: IndexState[], observed: IndexState[]) =>
      diffCollection({ ...bare, indexes: desired }, { ...bare, indexes: observed }).map(
        ({ action, path }) => `${action} ${path}`,
      );
    const bare = { namespace: "a.b", key: keyParts({ x: 1 }), unique: false, balancing: true, ranges: [], indexes: [] };
    const [ours, theirs] = [index("ours", '{"a":1}'), index("theirs", '{"b":1}')];
    expect(changes([ours], [ours, theirs])).toEqual(['seen indexes[{"n":1} theirs]']);
    expect(changes([ours], [theirs, ours])).toEqual(['seen indexes[{"n":1} theirs]']);
    expect(changes([ours], [theirs])).toEqual(['create indexes[{"n":1} ours]', 'seen indexes[{"n":1} theirs]']);
    expect(changes([ours], [theirs, index("other", '{"a":1}')])).toEqual(['seen indexes[{"n":1} theirs]']);
    expect(changes([ours, theirs], [index("ours"), theirs])).toEqual([
      'update indexes[{"n":1} ours].partialFilterExpression',
    ]);
  });

  test("the text fields of an index, which the server keeps in no order", () => {
    const index = { name: "t", unique: false, sparse: false, hidden: false };
    const [one, other] = [keyParts({ a: "text", b: "text", c: 1 }), keyParts({ b: "text", a: "text", c: 1 })];
    expect(canonicalIndex({ ...index, key: one })).toEqual(canonicalIndex({ ...index, key: other }));
    expect(indexIdentity({ key: one })).toBe(indexIdentity({ key: other }));
    expect(indexIdentity({ key: keyParts({ a: 1, b: 1 }) })).not.toBe(indexIdentity({ key: keyParts({ b: 1, a: 1 }) }));
  });

  test("a locale's own defaults, which the server fills in", () => {
    const base = placed();
    const state = (...collations: string[]): Snapshot => ({
      ...base,
      collections: [
        {
          ...{ namespace: "a.b", key: keyParts({ x: 1 }), unique: false, balancing: true, ranges: [] },
          indexes: collations.map((collation, n) => ({
            ...{ name: `n${n}`, key: keyParts({ n: 1 }), unique: false, sparse: false, hidden: false },
            collation,
          })),
        },
      ],
    });
    const thai = '{"locale":"th","strength":2,"alternate":"shifted","normalization":true,"version":"57.1"}';
    const canadian = '{"locale":"fr_CA","strength":3,"backwards":true,"version":"57.1"}';
    expect(diff(state('{"locale":"th","strength":2}', '{"locale":"fr_CA"}'), state(canadian, thai))).toEqual([]);
    expect(diff(state('{"locale":"th","strength":1}'), state(thai)).map(({ action }) => action)).toEqual([
      "create",
      "seen",
    ]);
    expect(diff(state('{"locale":"th"}'), state(canadian)).map(({ action }) => action)).toEqual(["create", "seen"]);
  });

  test("but a string is not the number that it looks like, and a date is not its milliseconds", () => {
    const base = placed();
    const state = (max: string): Snapshot => ({
      ...base,
      collections: [
        {
          namespace: "a.b",
          key: keyParts({ x: 1 }),
          unique: false,
          balancing: true,
          indexes: [],
          ranges: [{ zone: "z", min: '{"x":{"$minKey":1}}', max }],
        },
      ],
    });
    expect(diff(state('{"x":1}'), state('{"x":"1"}'))).toHaveLength(1);
    expect(diff(state('{"x":5}'), state('{"x":{"$date":{"$numberLong":"5"}}}'))).toHaveLength(1);
  });
});
