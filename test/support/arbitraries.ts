/** Random parts of clusters, for property tests. */
import { Decimal128, Int32, Long, ObjectId, Timestamp } from "bson";
import fc from "fast-check";
import { compareValues, MAX_KEY, MIN_KEY } from "../../infra/model/bson-text.ts";
import { keyParts } from "../../infra/model/key.ts";
import type { CollectionState, MemberState, ReplicaSetState, Snapshot } from "../../infra/model/state.ts";
import { splitRanges } from "../../infra/model/zone-range.ts";

/** A value that a field of a document can have, numbers of all types among them. */
export const bsonScalar: fc.Arbitrary<unknown> = fc.oneof(
  fc.constant(null),
  fc.double(),
  fc.integer({ min: -10, max: 10 }),
  fc.integer({ min: -10, max: 10 }).map((n) => new Int32(n)),
  fc.integer({ min: -10, max: 10 }).map((n) => Long.fromNumber(n)),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map((n) => Long.fromBigInt(n)),
  fc
    .tuple(fc.integer({ min: -1_000_000, max: 1_000_000 }), fc.integer({ min: -30, max: 30 }))
    .map(([digits, exponent]) => Decimal128.fromString(`${digits}E${exponent}`)),
  fc.constantFrom("NaN", "Infinity", "-Infinity").map((text) => Decimal128.fromString(text)),
  fc.string({ unit: "binary", maxLength: 4 }),
  fc.uint8Array({ maxLength: 3 }),
  fc.uint8Array({ minLength: 12, maxLength: 12 }).map((bytes) => new ObjectId(bytes)),
  fc.boolean(),
  fc.date({ noInvalidDate: true }),
  fc.tuple(fc.nat(5), fc.nat(5)).map(([t, i]) => new Timestamp({ t, i })),
  fc.constantFrom(/a/, /a/i, /b/),
);

/** Any BSON value, MinKey, MaxKey, lists and documents included. Field names that JavaScript would reorder are left out. */
export const bsonValue: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    bsonScalar,
    fc.constantFrom(MIN_KEY, MAX_KEY),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom("a", "b", "c", "日"), tie("value"), { maxKeys: 3, noNullPrototype: true }),
  ),
})).value;

const tags = fc.dictionary(fc.constantFrom("datacenter", "disk", "rack"), fc.constantFrom("alfa", "bravo", "ssd"), {
  noNullPrototype: true,
});

/** A member that contradicts itself in nothing. */
export function memberAt(host: string): fc.Arbitrary<MemberState> {
  const common = { host: fc.constant(host), secondaryDelaySecs: fc.constant(0), tags };
  return fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        ...common,
        priority: fc.integer({ min: 1, max: 5 }),
        votes: fc.constant(1 as const),
        hidden: fc.constant(false),
        arbiterOnly: fc.constant(false),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        ...common,
        priority: fc.constant(0),
        votes: fc.constantFrom(0 as const, 1 as const),
        hidden: fc.boolean(),
        arbiterOnly: fc.constant(false),
        secondaryDelaySecs: fc.constantFrom(0, 3600),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        ...common,
        tags: fc.constant({}),
        priority: fc.constant(0),
        votes: fc.constant(1 as const),
        hidden: fc.constant(false),
        arbiterOnly: fc.constant(true),
      }),
    },
  );
}

/** A replica set that a server would accept: at most seven voters, one electable member at least. */
export function replicaSet(name: string, role: "config" | "shard" = "shard"): fc.Arbitrary<ReplicaSetState> {
  return fc
    .record({
      members: fc
        .subarray(
          Array.from({ length: 12 }, (_, index) => `10.0.0.${index}:27017`),
          { minLength: 1, maxLength: 9 },
        )
        .chain((hosts) => fc.tuple(...hosts.map(memberAt))),
      settings: fc.record({ electionTimeoutMillis: fc.constantFrom(5000, 10_000) }, { requiredKeys: [] }),
    })
    .filter(
      ({ members }) =>
        members.filter((member) => member.votes === 1).length <= 7 && members.some((member) => member.priority > 0),
    )
    .map(({ members, settings }) => ({ name, role, members, settings }));
}

/** Zone ranges of `{ a: 1, b: 1 }` that cover everything, with some of them left out. */
export const someRanges = fc
  .uniqueArray(bsonScalar, { maxLength: 5, comparator: (a, b) => compareValues(a, b) === 0 })
  .chain((values) =>
    fc
      .tuple(
        fc.array(fc.constantFrom("alfa", "bravo"), { minLength: values.length + 1, maxLength: values.length + 1 }),
        fc.array(fc.boolean(), { minLength: values.length + 1, maxLength: values.length + 1 }),
      )
      .map(([zones, keep]) =>
        splitRanges({ key: keyParts({ a: 1, b: 1 }), at: values.toSorted(compareValues), zones }).filter(
          (_, index) => keep[index],
        ),
      ),
  );

function collection(namespace: string): fc.Arbitrary<CollectionState> {
  const index = (field: string) =>
    fc.record(
      {
        name: fc.constant(`${field}_1`),
        key: fc.constant(keyParts({ [field]: 1 })),
        unique: fc.boolean(),
        sparse: fc.boolean(),
        hidden: fc.boolean(),
        expireAfterSeconds: fc.constantFrom(60, 3600),
        partialFilterExpression: fc.constant('{"active":true}'),
        collation: fc.constantFrom('{"locale":"en"}', '{"locale":"de","strength":2}'),
      },
      { requiredKeys: ["name", "key", "unique", "sparse", "hidden"] },
    );
  const common = {
    namespace: fc.constant(namespace),
    indexes: fc.subarray(["x", "y", "z"]).chain((fields) => fc.tuple(...fields.map(index))),
    balancing: fc.boolean(),
    chunkSizeMiB: fc.option(fc.constantFrom(32, 64), { nil: undefined }),
  };
  return fc.oneof(
    fc.record({ ...common, key: fc.constant([]), unique: fc.constant(false), ranges: fc.constant([]) }),
    fc.record({ ...common, key: fc.constant(keyParts({ a: 1, b: 1 })), unique: fc.boolean(), ranges: someRanges }),
  );
}

/** A whole cluster. Things are drawn from few names, so that two snapshots have many in common. */
export const snapshot: fc.Arbitrary<Snapshot> = fc.record({
  replicaSets: fc
    .subarray(["configReplSet", "shard0000", "shard0001"])
    .chain((names) =>
      fc.tuple(...names.map((name) => replicaSet(name, name === "configReplSet" ? "config" : "shard"))),
    ),
  shards: fc.subarray(["shard0000", "shard0001"]).chain((names) =>
    fc.tuple(
      ...names.map((name) =>
        fc.record({
          name: fc.constant(name),
          replicaSet: fc.constant(name),
          zones: fc.subarray(["alfa", "bravo", "charlie"]),
          draining: fc.boolean(),
        }),
      ),
    ),
  ),
  databases: fc.subarray(["chat", "shop"]).chain((names) =>
    fc.tuple(
      ...names.map((name) =>
        fc.record({
          name: fc.constant(name),
          primaryShard: fc.option(fc.constantFrom("shard0000", "shard0001"), { nil: undefined }),
        }),
      ),
    ),
  ),
  collections: fc.subarray(["chat.messages", "chat.users"]).chain((names) => fc.tuple(...names.map(collection))),
  balancer: fc.record({
    enabled: fc.boolean(),
    activeWindow: fc.constantFrom(undefined, null, { start: "23:00", stop: "05:00" }),
    chunkSizeMiB: fc.constantFrom(undefined, 64, 128),
  }),
  defaults: fc.record({
    readConcern: fc.constantFrom(undefined, "local" as const, "majority" as const),
    writeConcern: fc.constantFrom(undefined, { w: "majority", wtimeoutMillis: 0 }, { w: 2, wtimeoutMillis: 100 }),
  }),
  users: fc.subarray(["admin", "application"]).chain((names) =>
    fc.tuple(
      ...names.map((name) =>
        fc.record({
          name: fc.constant(name),
          database: fc.constant("admin"),
          roles: fc.subarray([
            { role: "root", database: "admin" },
            { role: "readWrite", database: "chat" },
            { role: "read", database: "chat" },
          ]),
        }),
      ),
    ),
  ),
});
