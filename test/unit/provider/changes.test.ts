import { describe, expect, test } from "vitest";
import type { CollectionState, ReplicaSetState, UserState } from "../../../infra/model/state.ts";
import { diffCollection, diffReplicaSet, diffShard, diffUser } from "../../../infra/plan/diff.ts";
import { fieldDiffs } from "../../../infra/provider/changes.ts";
import { formatPath } from "../../../infra/provider/property-path.ts";

const member = { priority: 1, votes: 1, hidden: false, arbiterOnly: false, secondaryDelaySecs: 0 } as const;
const set: ReplicaSetState = {
  name: "shard0000",
  role: "shard",
  // Not in the order in which the planner sorts them: positions are those of the declaration.
  members: [
    { ...member, host: "127.0.0.1:27103", tags: { datacenter: "bravo" } },
    { ...member, host: "127.0.0.1:27101", tags: { datacenter: "alfa", "data.center": "a", data: "b" } },
    { ...member, host: "127.0.0.1:27102", tags: { datacenter: "alfa" } },
  ],
  settings: { electionTimeoutMillis: 10_000 },
};
const collection: CollectionState = {
  namespace: "chat.messages",
  key: [
    { field: "datacenter", kind: 1 },
    { field: "userid", kind: 1 },
  ],
  unique: false,
  ranges: [
    { zone: "bravo", min: bound("bravo", "$minKey"), max: bound("bravo", "$maxKey") },
    { zone: "alfa", min: bound("alfa", "$minKey"), max: bound("alfa", "$maxKey") },
  ],
  indexes: [
    { name: "b_1", key: [{ field: "b", kind: 1 }], unique: false, sparse: false, hidden: false },
    {
      name: "a.x_1",
      key: [{ field: "a.x", kind: 1 }],
      unique: false,
      sparse: false,
      hidden: false,
      collation: '{"locale":"en"}',
    },
  ],
  balancing: true,
};
const user: UserState = {
  name: "application",
  database: "admin",
  roles: [
    { role: "readWrite", database: "chat" },
    { role: "read", database: "config" },
  ],
};

function bound(datacenter: string, end: "$minKey" | "$maxKey"): string {
  return `{"datacenter":"${datacenter}","userid":{"${end}":1}}`;
}

const changedMember = (index: number, change: object) => ({
  ...set,
  members: set.members.map((m, i) => (i === index ? { ...m, ...change } : m)),
});

describe("the planner's changes become the engine's property paths", () => {
  const cases: readonly (readonly [
    string,
    () => ReturnType<typeof fieldDiffs>,
    readonly (readonly [string, string])[],
  ])[] = [
    [
      "a member's priority",
      () => marks(diffReplicaSet, changedMember(1, { priority: 5 }), set),
      [["update", "members[1].priority"]],
    ],
    [
      "a member's tag",
      () => marks(diffReplicaSet, changedMember(0, { tags: { datacenter: "x" } }), set),
      [["update", "members[0].tags.datacenter"]],
    ],
    [
      "a tag with a dot in its name",
      () =>
        marks(diffReplicaSet, changedMember(1, { tags: { datacenter: "alfa", "data.center": "z", data: "b" } }), set),
      [["update", 'members[1].tags["data.center"]']],
    ],
    [
      "a new member",
      () => marks(diffReplicaSet, set, { ...set, members: set.members.slice(0, 2) }),
      [["add", "members[2]"]],
    ],
    [
      "a removed member",
      () => marks(diffReplicaSet, { ...set, members: set.members.slice(0, 2) }, set),
      [["delete", "members[2]"]],
    ],
    [
      "a setting",
      () => marks(diffReplicaSet, set, { ...set, settings: { electionTimeoutMillis: 1 } }),
      [["update", "settings.electionTimeoutMillis"]],
    ],
    [
      "the zones of a shard",
      () => {
        const shard = { name: "s", replicaSet: "s", draining: false };
        return marks(diffShard, { ...shard, zones: ["a", "c"] }, { ...shard, zones: ["a", "b"] });
      },
      [
        ["add", "zones[1]"],
        ["delete", "zones[1]"],
      ],
    ],
    [
      "a range's zone",
      () =>
        marks(diffCollection, collection, {
          ...collection,
          ranges: collection.ranges.map((r) => (r.zone === "alfa" ? { ...r, zone: "x" } : r)),
        }),
      [["update", "ranges[1].zone"]],
    ],
    [
      "a range that is gone",
      () => marks(diffCollection, collection, { ...collection, ranges: collection.ranges.slice(0, 1) }),
      [["add", "ranges[1]"]],
    ],
    [
      "an index's expiry, where the index has a collation",
      () =>
        marks(
          diffCollection,
          { ...collection, indexes: collection.indexes.map((i) => ({ ...i, hidden: i.name === "a.x_1" })) },
          collection,
        ),
      [["update", "indexes[1].hidden"]],
    ],
    [
      "a dropped index",
      () => marks(diffCollection, collection, { ...collection, indexes: collection.indexes.slice(1) }),
      [["add", "indexes[0]"]],
    ],
    [
      "one of two indexes on a key",
      () => {
        const [b] = collection.indexes;
        if (!b) throw new Error("the collection has no index");
        const two = { ...collection, indexes: [{ ...b, name: "x", unique: true }, b] };
        return marks(diffCollection, two, { ...two, indexes: two.indexes.slice(0, 1) });
      },
      [["add", "indexes[1]"]],
    ],
    ["an index that nobody declared", () => marks(diffCollection, { ...collection, indexes: [] }, collection), []],
    [
      "the shard key",
      () =>
        marks(
          diffCollection,
          { ...collection, key: collection.key.slice(0, 1), ranges: [] },
          { ...collection, ranges: [] },
        ),
      [["update", "key"]],
    ],
    ["a user's role", () => marks(diffUser, user, { ...user, roles: user.roles.slice(0, 1) }), [["add", "roles[1]"]]],
  ];

  test.each(cases)("%s", (_name, differences, expected) => {
    expect(differences().map(({ kind, path }) => [kind, formatPath(path)])).toEqual(expected);
  });
});

function marks<T extends object>(
  diff: (desired: T, observed: T) => Parameters<typeof fieldDiffs>[0],
  desired: T,
  observed: T,
) {
  return fieldDiffs(diff(desired, observed), desired, observed);
}
