import { describe, expect, test } from "vitest";
import { keyParts } from "../../../infra/model/key.ts";
import type {
  CollectionState,
  IndexState,
  MemberState,
  ReplicaSetState,
  ShardState,
  Snapshot,
} from "../../../infra/model/state.ts";
import {
  type CollectionFacts,
  collectionRules,
  preflight,
  replicaSetRules,
  shardRules,
  supportsShardKey,
} from "../../../infra/plan/rules.ts";

const index = (fields: Record<string, 1 | "hashed">, more: Partial<IndexState> = {}): IndexState => ({
  name: Object.keys(fields).join("_"),
  key: keyParts(fields),
  unique: false,
  sparse: false,
  hidden: false,
  ...more,
});
const collection = (fields: Partial<CollectionState> = {}): CollectionState => ({
  namespace: "chat.c",
  key: keyParts({ a: 1 }),
  unique: false,
  ranges: [],
  indexes: [],
  balancing: true,
  ...fields,
});
const bare = (...indexes: IndexState[]) => collection({ key: [], indexes });
const ID = index({ _id: 1 }, { unique: true, name: "_id_" });

type Case = [
  string,
  CollectionState,
  CollectionState | undefined,
  CollectionFacts,
  "problem" | "warning" | "nothing",
  RegExp?,
];
const CASES: readonly Case[] = [
  [
    "U2: the shard key with more behind may be unique",
    collection({ indexes: [index({ a: 1, b: 1 }, { unique: true })] }),
    undefined,
    {},
    "nothing",
  ],
  [
    "U2: another unique index may not",
    collection({ indexes: [index({ b: 1 }, { unique: true })] }),
    undefined,
    {},
    "problem",
    /unique index b on \{ b: 1 \} does not begin with the shard key \{ a: 1 \}/,
  ],
  [
    "U2: no unique hashed key",
    collection({ key: keyParts({ a: "hashed" }), unique: true }),
    undefined,
    {},
    "problem",
    /cannot be unique/,
  ],
  [
    "U3: an existing unique index stands in the way, and is named",
    collection(),
    bare(index({ email: 1 }, { unique: true, name: "email_unique" })),
    {},
    "problem",
    /unique index email_unique on \{ email: 1 \} stands in the way/,
  ],
  [
    "U3: found among all indexes, too",
    collection(),
    bare(),
    { allIndexes: [ID, index({ email: 1 }, { unique: true })], documents: 0 },
    "problem",
    /email stands|email on/,
  ],
  [
    "U3: one that begins with the key does not",
    collection(),
    bare(index({ a: 1, b: 1 }, { unique: true })),
    {},
    "nothing",
  ],
  ["U4: an empty collection needs nothing", collection(), bare(), { documents: 0, allIndexes: [ID] }, "nothing"],
  [
    "U4: one with data gets its index first",
    collection(),
    bare(),
    { documents: 7, allIndexes: [ID] },
    "warning",
    /7 documents and no index on \{ a: 1 \}/,
  ],
  [
    "U4: a unique one, for a unique key",
    collection({ unique: true }),
    bare(),
    { documents: 7, allIndexes: [ID, index({ a: 1, b: 1 })] },
    "warning",
    /no unique index/,
  ],
  [
    "U4: a supporting index is enough",
    collection(),
    bare(),
    { documents: 7, allIndexes: [ID, index({ a: 1, b: 1 })] },
    "nothing",
  ],
  [
    "U4: a sparse one is not",
    collection(),
    bare(),
    { documents: 7, allIndexes: [ID, index({ a: 1 }, { sparse: true })] },
    "warning",
    /built first/,
  ],
  [
    "U4: the same key, not unique, blocks the unique one",
    collection({ unique: true }),
    bare(),
    { documents: 7, allIndexes: [ID, index({ a: 1 })] },
    "problem",
    /is there and not unique/,
  ],
  [
    "uniqueness is never changed",
    collection({ unique: true }),
    collection(),
    {},
    "problem",
    /is not unique and declared as unique/,
  ],
  [
    "a key that grows is refined",
    collection({ key: keyParts({ a: 1, b: 1 }) }),
    collection(),
    {},
    "warning",
    /refined from \{ a: 1 \} to \{ a: 1, b: 1 \}/,
  ],
  [
    "another key is not changed to",
    collection({ key: keyParts({ b: 1 }) }),
    collection(),
    {},
    "problem",
    /would change from \{ a: 1 \} to \{ b: 1 \}/,
  ],
  [
    "neither is a unique key",
    collection({ key: keyParts({ b: 1 }), unique: true }),
    collection({ unique: true }),
    {},
    "problem",
    /would change from/,
  ],
  [
    "key and uniqueness at once",
    collection({ key: keyParts({ b: 1 }), unique: true }),
    collection(),
    {},
    "problem",
    /change at once/,
  ],
  ["sharded, declared as not sharded", bare(), collection(), {}, "problem", /declared as not sharded/],
  [
    "an index that must be built anew",
    collection({ indexes: [index({ b: 1 }, { sparse: true })] }),
    collection({ indexes: [index({ b: 1 })] }),
    {},
    "warning",
    /sparse of the index b differs/,
  ],
  [
    "an index that loses its expiry",
    collection({ indexes: [index({ b: 1 })] }),
    collection({ indexes: [index({ b: 1 }, { expireAfterSeconds: 5 })] }),
    {},
    "warning",
    /lets documents expire/,
  ],
  [
    "hidden and another expiry are changed in place",
    collection({ indexes: [index({ b: 1 }, { hidden: true, expireAfterSeconds: 6 })] }),
    collection({ indexes: [index({ b: 1 }, { expireAfterSeconds: 5 })] }),
    {},
    "nothing",
  ],
  [
    "an index's name that is taken",
    collection({ indexes: [index({ b: 1 }, { name: "n" })] }),
    collection({ indexes: [index({ c: 1 }, { name: "n" })] }),
    {},
    "problem",
    /name n belongs to the index on \{ c: 1 \}/,
  ],
  [
    "overlapping ranges",
    collection({
      ranges: [
        { zone: "x", min: '{"a":1}', max: '{"a":5}' },
        { zone: "y", min: '{"a":4}', max: '{"a":9}' },
      ],
    }),
    undefined,
    {},
    "problem",
    /overlaps/,
  ],
  [
    "a bound of a strange type",
    collection({
      ranges: [
        { zone: "x", min: '{"a":1}', max: '{"a":5}' },
        { zone: "y", min: '{"a":"4"}', max: '{"a":{"$maxKey":1}}' },
      ],
    }),
    undefined,
    {},
    "warning",
    /has a string in a where the other bounds have a number/,
  ],
];

describe("collections", () => {
  test.each(CASES)("%s", (_, desired, observed, facts, kind, message) => {
    const { problems, warnings } = collectionRules(desired, observed, facts);
    const texts = (list: typeof problems) => list.map((problem) => problem.message);
    if (kind === "nothing") expect([...texts(problems), ...texts(warnings)]).toEqual([]);
    else {
      expect(texts(kind === "problem" ? problems : warnings)).toEqual([expect.stringMatching(message ?? /./)]);
      if (kind === "warning") expect(texts(problems)).toEqual([]);
    }
    for (const { rule, fix, path } of [...problems, ...warnings]) expect([rule, fix, path].every(Boolean)).toBe(true);
  });

  test("what supports a shard key", () => {
    const key = keyParts({ a: 1 });
    expect(supportsShardKey(index({ a: 1, b: 1 }), key, false)).toBe(true);
    expect(supportsShardKey(index({ a: 1, b: 1 }, { unique: true }), key, true)).toBe(false);
    expect(supportsShardKey(index({ b: 1, a: 1 }), key, false)).toBe(false);
    expect(supportsShardKey(index({ a: 1 }, { collation: '{"locale":"en"}' }), key, false)).toBe(false);
    expect(supportsShardKey(index({ a: 1 }, { partialFilterExpression: "{}" }), key, false)).toBe(false);
  });
});

const member = (host: string, fields: Partial<MemberState> = {}): MemberState => ({
  host,
  priority: 1,
  votes: 1,
  hidden: false,
  arbiterOnly: false,
  secondaryDelaySecs: 0,
  tags: {},
  ...fields,
});
const set = (name: string, ...members: MemberState[]): ReplicaSetState => ({
  name,
  role: "shard",
  members,
  settings: {},
});
const shard = (name: string, zones: string[], more: Partial<ShardState> = {}): ShardState => ({
  name,
  replicaSet: name,
  zones,
  draining: false,
  ...more,
});

describe("replica sets", () => {
  test("a member of another set", () => {
    const { problems } = replicaSetRules(set("one", member("a:1"), member("b:1")), undefined, {
      defaults: {},
      others: [set("two", member("B:1"))],
    });
    expect(problems).toMatchObject([
      { path: "replica set one.members[b:1]", message: "b:1 is a member of the replica set two" },
    ]);
  });
  test("an arbiter without a default write concern", () => {
    const desired = set("one", member("a:1"), member("b:1"), member("c:1", { arbiterOnly: true, priority: 0 }));
    const observed = set("one", member("a:1"), member("b:1"));
    expect(replicaSetRules(desired, observed, { defaults: {} }).problems).toMatchObject([
      { message: expect.stringContaining("c:1 would be refused") },
    ]);
    expect(
      replicaSetRules(desired, observed, { defaults: { writeConcern: { w: "majority", wtimeoutMillis: 0 } } }).problems,
    ).toEqual([]);
  });
  test("several reconfigs are told", () => {
    const { warnings } = replicaSetRules(
      set("one", member("a:1"), member("b:1"), member("c:1")),
      set("one", member("a:1")),
      { defaults: {} },
    );
    expect(warnings).toMatchObject([
      { message: expect.stringMatching(/takes 3 reconfigs: add b:1, c:1 without a vote/) },
    ]);
  });
});

describe("shards", () => {
  test.each([
    ["another replica set", shard("s", ["a"], { replicaSet: "t" }), "problems", /declared as t/],
    ["draining", shard("s", ["a"]), "warnings", /being drained/],
    ["all zones change", shard("s", ["b"]), "problems", /zones change from a to b: all its zoned documents would move/],
  ] as const)("%s", (_, desired, kind, message) => {
    const observed = shard("s", ["a"], { draining: message.source.includes("drained") });
    expect(shardRules([desired], [observed])[kind].map((one) => one.message)).toEqual([expect.stringMatching(message)]);
  });
  test("all zones of an empty shard may change", () => {
    expect(shardRules([shard("s", ["b"])], [shard("s", ["a"])], new Set(["s"]))).toMatchObject({
      problems: [],
      warnings: [{ message: expect.stringMatching(/it holds no data yet/) }],
    });
  });
  test("nothing is said when nothing changes, or zones only come", () => {
    expect(shardRules([shard("s", ["a", "b"]), shard("new", ["c"])], [shard("s", ["a"])])).toMatchObject({
      problems: [],
      warnings: [],
    });
  });
});

describe("a whole cluster", () => {
  const state = (fields: Partial<Snapshot> = {}): Snapshot => ({
    replicaSets: [],
    shards: [shard("s", ["a"])],
    databases: [],
    collections: [],
    balancer: { enabled: true },
    defaults: {},
    users: [],
    ...fields,
  });
  const ranged = collection({ ranges: [{ zone: "b", min: '{"a":1}', max: '{"a":5}' }] });

  test("a range of a zone that no shard carries", () => {
    expect(preflight(state({ collections: [ranged] }), undefined).problems).toMatchObject([
      { message: "no shard carries the zone b" },
    ]);
    expect(preflight(state({ collections: [ranged], shards: [shard("s", ["b"])] }), undefined).problems).toEqual([]);
  });
  test("a zone that an undeclared collection still needs", () => {
    const { problems } = preflight(state(), state({ shards: [shard("s", ["b"])], collections: [ranged] }));
    expect(problems).toMatchObject([
      { path: "shard s.zones", message: expect.stringContaining("all its zoned documents would move") },
      { path: "chat.c.ranges", message: expect.stringContaining("no shard would carry any more") },
    ]);
  });
  test("a database that moves", () => {
    const { warnings } = preflight(
      state({ databases: [{ name: "d", primaryShard: "s" }] }),
      state({ databases: [{ name: "d", primaryShard: "t" }] }),
    );
    expect(warnings).toMatchObject([{ message: "it moves from t to s" }]);
  });
  test("a host in two declared sets", () => {
    expect(
      preflight(state({ replicaSets: [set("one", member("a:1")), set("two", member("A:1"))] }), undefined).problems,
    ).toMatchObject([{ path: "replica set two.members[a:1]" }]);
  });
  test("facts reach the rules of their collection", () => {
    const { warnings } = preflight(state({ collections: [collection()] }), state({ collections: [bare()] }), {
      "chat.c": { documents: 3, allIndexes: [] },
    });
    expect(warnings).toMatchObject([{ message: expect.stringContaining("3 documents") }]);
  });
});
