import { Decimal128 } from "bson";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { MAX_KEY, MIN_KEY } from "../../../infra/model/bson-text.ts";
import type { ClusterDeclaration, MemberDeclaration } from "../../../infra/model/declaration.ts";
import {
  checkDeclaration,
  defineCluster,
  perDatacenter,
  sharded,
  unique,
} from "../../../infra/model/define-cluster.ts";
import { keyParts } from "../../../infra/model/key.ts";
import { InvalidDeclarationError } from "../../../infra/model/problem.ts";
import { rangesPerDatacenter } from "../../../infra/model/zone-range.ts";
import { FIRST_USERID_OF_BRAVO, reference } from "../../../stacks/reference.ts";

// Hundreds of random cases: a second on an idle machine, far more on a busy one.
vi.setConfig({ testTimeout: 60_000 });

const base: ClusterDeclaration = { name: "chat", datacenters: ["alfa", "bravo"] };
const places = (members: readonly { datacenter: string; priority: number }[]) =>
  members.map(({ datacenter, priority }) => `${datacenter} ${priority}`);

describe("the defaults", () => {
  const four = defineCluster({
    name: "chat",
    datacenters: ["alfa", "bravo"],
    collections: { "chat.messages": perDatacenter({ userid: 1 }), "chat.users": unique({ userid: 1 }) },
  });

  test("M1: two members at home and one with priority 0 in the other datacenter, tagged", () => {
    expect(four.shards.map((shard) => [shard.name, ...places(shard.replicaSet.members)])).toEqual([
      ["shard0000", "alfa 1", "alfa 1", "bravo 0"],
      ["shard0001", "bravo 1", "bravo 1", "alfa 0"],
    ]);
    for (const member of four.shards.flatMap((shard) => shard.replicaSet.members)) {
      expect(member.tags).toEqual({ datacenter: member.datacenter });
      expect(member.votes).toBe(1);
    }
  });

  test("M2: each shard carries the zone of its home", () => {
    expect(four.shards.map((shard) => shard.zones)).toEqual([["alfa"], ["bravo"]]);
  });

  test("M3, M10: ranges per datacenter without gaps", () => {
    const [messages] = four.collections;
    expect(messages).toMatchObject({
      namespace: "chat.messages",
      datacenterField: "datacenter",
      unique: false,
      balancing: true,
    });
    expect(messages?.key).toEqual(keyParts({ datacenter: 1, userid: 1 }));
    expect(messages?.ranges).toEqual(
      rangesPerDatacenter({ key: keyParts({ datacenter: 1, userid: 1 }), values: { alfa: "alfa", bravo: "bravo" } }),
    );
  });

  test("M4: config servers 2 + 1 and a mongos in each datacenter", () => {
    expect(places(four.configServers.members)).toEqual(["alfa 2", "alfa 2", "bravo 1"]);
    expect(four.routers.map((router) => `${router.name} ${router.datacenter}`)).toEqual([
      "mongos-alfa alfa",
      "mongos-bravo bravo",
    ]);
  });

  test("U1: a unique shard key", () => {
    expect(four.collections[1]).toMatchObject({ unique: true, key: keyParts({ userid: 1 }), ranges: [] });
  });

  test("the balancer is on, writes are acknowledged by a majority, users have the least they need", () => {
    expect(four.balancer).toEqual({ enabled: true, activeWindow: null, chunkSizeMiB: undefined });
    expect(four.defaults.writeConcern).toEqual({ w: "majority", wtimeoutMillis: 0 });
    expect(
      four.users.map(({ name, roles }) => [name, ...roles.map(({ role, database }) => `${role}@${database}`)]),
    ).toEqual([
      ["admin", "root@admin"],
      ["application", "readWrite@chat"],
    ]);
    expect(four.databases).toEqual([{ name: "chat", primaryShard: undefined }]);
  });

  test("names of processes are stable and unique", () => {
    expect(four.shards[0]?.replicaSet.members.map(({ name }) => name)).toEqual([
      "shard0000-alfa-0",
      "shard0000-alfa-1",
      "shard0000-bravo-0",
    ]);
    expect(four.configServers.members.map(({ name }) => name)).toEqual([
      "config-alfa-0",
      "config-alfa-1",
      "config-bravo-0",
    ]);
  });
});

describe("M9: more datacenters and more shards are the same declaration", () => {
  test.each([
    [["a"], ["a 2", "a 2", "a 2"]],
    [
      ["a", "b"],
      ["a 2", "a 2", "b 1"],
    ],
    [
      ["a", "b", "c"],
      ["a 2", "b 1", "c 1"],
    ],
    [
      ["a", "b", "c", "d"],
      ["a 2", "b 1", "c 1"],
    ],
    [
      ["a", "b", { name: "w", witness: true }],
      ["a 2", "b 1", "w 1"],
    ],
    [
      ["a", "b", "c", { name: "w", witness: true }],
      ["a 2", "b 1", "w 1"],
    ],
    [
      [{ name: "w", witness: true }, "a"],
      ["a 2", "a 2", "w 1"],
    ],
  ])("config servers over %j", (datacenters, expected) => {
    const spec = defineCluster({ name: "x", datacenters });
    expect(places(spec.configServers.members)).toEqual(expected);
    expect(spec.configServers.members.find(({ datacenter }) => datacenter === spec.configServers.home)?.priority).toBe(
      2,
    );
  });

  test("three datacenters with two shards each", () => {
    const spec = defineCluster({
      name: "x",
      datacenters: ["a", "b", "c"],
      shardsPerDatacenter: 2,
      collections: { "d.c": perDatacenter({ u: 1 }) },
    });
    expect(
      spec.shards.map((shard) => `${shard.name} ${shard.home} ${shard.replicaSet.members[2]?.datacenter}`),
    ).toEqual(["shard0000 a b", "shard0001 b c", "shard0002 c a", "shard0003 a b", "shard0004 b c", "shard0005 c a"]);
    expect(spec.collections[0]?.ranges).toHaveLength(7);
  });

  test("a witness is home to no shard and holds no third member", () => {
    const spec = defineCluster({ name: "x", datacenters: ["a", { name: "w", witness: true }, "b"] });
    expect(spec.shards.map((shard) => places(shard.replicaSet.members))).toEqual([
      ["a 1", "a 1", "b 0"],
      ["b 1", "b 1", "a 0"],
    ]);
    expect(spec.routers.map(({ datacenter }) => datacenter)).toEqual(["a", "b"]);
  });

  test("any number of datacenters and shards gives a valid cluster with unique names", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 3 }), (count, shardsPerDatacenter) => {
        const datacenters = ["a", "b", "c", "d", "e", "f"].slice(0, count);
        const spec = defineCluster({
          name: "x",
          datacenters,
          shardsPerDatacenter,
          collections: { "d.c": perDatacenter({ u: 1 }) },
        });
        expect(spec.shards).toHaveLength(count * shardsPerDatacenter);
        const names = [spec.configServers, ...spec.shards.map((shard) => shard.replicaSet)].flatMap((set) =>
          set.members.map(({ name }) => name),
        );
        expect(new Set(names).size).toBe(names.length);
      }),
    );
  });
});

describe("what may be declared otherwise", () => {
  test("a label is not an identity", () => {
    const [plain, labelled] = [
      defineCluster(base),
      defineCluster({ ...base, datacenters: [{ name: "alfa", label: "Frankfurt" }, "bravo"] }),
    ];
    expect({ ...labelled, datacenters: plain.datacenters }).toEqual(plain);
    expect(labelled.datacenters[0]?.label).toBe("Frankfurt");
  });

  test("values of the datacenter field that are no strings", () => {
    const spec = defineCluster({
      ...base,
      collections: {
        "d.c": perDatacenter(
          { u: 1 },
          {
            field: "dc",
            values: [
              [2, "bravo"],
              [Decimal128.fromString("1"), "alfa"],
            ],
          },
        ),
      },
    });
    expect(spec.collections[0]).toMatchObject({ datacenterField: "dc" });
    expect(spec.collections[0]?.ranges.map(({ zone }) => zone)).toEqual(["alfa", "alfa", "alfa", "bravo", "bravo"]);
  });

  test("members, tags, hosts, hidden and delayed ones", () => {
    const spec = defineCluster({
      ...base,
      shards: [
        {
          name: "one",
          home: "alfa",
          members: [
            { datacenter: "alfa", host: "A:1", tags: { disk: "ssd" } },
            { datacenter: "alfa", votes: 0 },
            { datacenter: "bravo", hidden: true },
            { datacenter: "bravo", secondaryDelaySecs: 60 },
          ],
        },
        { name: "two", home: "bravo", zones: ["bravo", "archive", "bravo"], settings: { electionTimeoutMillis: 2000 } },
      ],
    });
    expect(spec.shards[0]?.replicaSet.members.map(({ priority, host }) => [priority, host])).toEqual([
      [1, "a:1"],
      [0, undefined],
      [0, undefined],
      [0, undefined],
    ]);
    expect(spec.shards[0]?.replicaSet.members[0]?.tags).toEqual({ disk: "ssd", datacenter: "alfa" });
    expect(spec.shards[1]).toMatchObject({
      zones: ["archive", "bravo"],
      replicaSet: { settings: { electionTimeoutMillis: 2000 } },
    });
  });

  test("an arbiter has no tags: the server refuses them", () => {
    const spec = defineCluster({
      ...base,
      shards: [
        {
          name: "one",
          home: "alfa",
          members: [{ datacenter: "alfa" }, { datacenter: "alfa" }, { datacenter: "bravo", arbiterOnly: true }],
        },
        { name: "two", home: "bravo" },
      ],
    });
    expect(spec.shards[0]?.replicaSet.members[2]).toMatchObject({ arbiterOnly: true, priority: 0, votes: 1, tags: {} });
  });

  test("ranges as documents, as text, or as Extended JSON objects", () => {
    const range = (min: unknown, max: unknown) =>
      defineCluster({
        ...base,
        collections: {
          "d.c": sharded({ a: 1, b: 1 }, { ranges: [{ zone: "alfa", min: min as never, max: max as never }] }),
        },
      }).collections[0]?.ranges;
    const expected = [
      {
        zone: "alfa",
        min: '{"a":{"$numberInt":"1"},"b":{"$minKey":1}}',
        max: '{"a":{"$numberInt":"1"},"b":{"$maxKey":1}}',
      },
    ];
    expect(range({ a: 1 }, { a: 1, b: MAX_KEY })).toEqual(expected);
    expect(range('{"a":1.0}', '{"a":1,"b":{"$maxKey":1}}')).toEqual(expected);
    expect(range({ a: { $numberLong: "1" }, b: { $minKey: 1 } }, { a: 1, b: { $maxKey: 1 } })).toEqual(expected);
  });

  test("indexes, also on a collection that is not sharded", () => {
    const spec = defineCluster({
      ...base,
      collections: {
        "d.p": sharded([], {
          indexes: [
            {
              key: { email: 1 },
              unique: true,
              partialFilterExpression: { email: { $exists: true } },
              collation: { locale: "en", strength: 2 },
            },
          ],
        }),
      },
    });
    expect(spec.collections[0]).toMatchObject({
      key: [],
      indexes: [
        {
          name: "email_1",
          unique: true,
          sparse: false,
          partialFilterExpression: '{"email":{"$exists":true}}',
          collation: '{"locale":"en","strength":{"$numberInt":"2"}}',
        },
      ],
    });
  });

  test("users: none for the application, one for monitoring, others", () => {
    const spec = defineCluster({
      ...base,
      users: {
        admin: "root",
        application: false,
        monitoring: true,
        others: [{ name: "report", roles: [{ role: "read", database: "chat" }] }],
      },
    });
    expect(spec.users.map(({ name, purpose }) => `${name} ${purpose}`)).toEqual([
      "root admin",
      "monitoring monitoring",
      "report other",
    ]);
  });
});

describe("the reference deployment", () => {
  test("is that of the two datacenters, with both halves of the users", () => {
    expect(reference.shards.map((shard) => shard.name)).toEqual(["shard0000", "shard0001"]);
    expect(reference.collections.map(({ namespace }) => namespace)).toEqual(["chat.messages", "chat.users"]);
    expect(reference.collections[1]?.ranges.map(({ zone, max }) => [zone, max])).toEqual([
      ["alfa", `{"userid":{"$numberInt":"${FIRST_USERID_OF_BRAVO}"}}`],
      ["bravo", '{"userid":{"$maxKey":1}}'],
    ]);
  });
});

const shards = (...members: MemberDeclaration[]): ClusterDeclaration => ({
  ...base,
  shards: [
    { name: "one", home: "alfa", members },
    { name: "two", home: "bravo" },
  ],
});
const collection = (collection: unknown, namespace = "chat.c"): ClusterDeclaration =>
  ({ ...base, collections: { [namespace]: collection } }) as ClusterDeclaration;
const indexes = (...list: unknown[]) => collection({ key: { a: 1 }, indexes: list });
const ranges = (...list: unknown[]) => collection({ key: { a: 1, b: 1 }, ranges: list });
const at = 'collections["chat.c"]';
const [alfa, bravo] = [{ datacenter: "alfa" }, { datacenter: "bravo" }];
const loose = (declaration: unknown) => declaration as ClusterDeclaration;

/** Each rule once: the mistake, where it is reported, and what the message says. */
const MISTAKES: readonly [rule: string, declaration: ClusterDeclaration, path: string, message: RegExp][] = [
  ["not an object", loose("chat"), "", /is not an object/],
  ["no name", loose({ datacenters: ["alfa"] }), "name", /is missing/],
  ["a name of the wrong type", loose({ ...base, name: 5 }), "name", /5 is not a text/],
  ["a name that cannot be a file name", { ...base, name: "my chat" }, "name", /no good as a name/],
  ["no datacenters given", loose({ name: "chat" }), "datacenters", /is missing/],
  ["an empty list of datacenters", { name: "chat", datacenters: [] }, "datacenters", /no datacenter/],
  [
    "a datacenter twice",
    { name: "chat", datacenters: ["alfa", "bravo", "alfa"] },
    "datacenters[2]",
    /is datacenters\[0\] as well/,
  ],
  ["a bad datacenter name", { name: "chat", datacenters: ["al fa", "bravo"] }, "datacenters[0]", /no good as a name/],
  [
    "witnesses only",
    { name: "chat", datacenters: [{ name: "w", witness: true }] },
    "datacenters",
    /every datacenter is a witness/,
  ],
  ["an unknown field", loose({ ...base, collection: {} }), "collection", /unknown field collection/],
  [
    "an unknown field far down",
    loose({
      ...base,
      shards: [
        { name: "one", home: "alfa", members: [{ datacenter: "alfa", prioirty: 1 }] },
        { name: "two", home: "bravo" },
      ],
    }),
    "shards[0].members[0].prioirty",
    /unknown field prioirty/,
  ],
  [
    "shards listed and counted",
    {
      ...base,
      shardsPerDatacenter: 2,
      shards: [
        { name: "one", home: "alfa" },
        { name: "two", home: "bravo" },
      ],
    },
    "shardsPerDatacenter",
    /together/,
  ],
  ["half a shard", { ...base, shardsPerDatacenter: 0.5 }, "shardsPerDatacenter", /0.5/],
  ["an empty list of shards", { ...base, shards: [] }, "shards", /no shard/],
  [
    "a shard twice",
    {
      ...base,
      shards: [
        { name: "one", home: "alfa" },
        { name: "one", home: "bravo" },
      ],
    },
    "shards[1].name",
    /replica set one is used by shards\[0\].name/,
  ],
  [
    "a shard called config",
    {
      ...base,
      shards: [
        { name: "config", home: "alfa" },
        { name: "two", home: "bravo" },
      ],
    },
    "shards[0].name",
    /cannot be called config/,
  ],
  [
    "a shard named as the config servers",
    {
      ...base,
      configServers: { name: "one" },
      shards: [
        { name: "one", home: "alfa" },
        { name: "two", home: "bravo" },
      ],
    },
    "configServers.name",
    /replica set one is used/,
  ],
  [
    "an unknown home",
    {
      ...base,
      shards: [
        { name: "one", home: "alva" },
        { name: "two", home: "bravo" },
        { name: "three", home: "alfa" },
      ],
    },
    "shards[0].home",
    /no datacenter alva/,
  ],
  [
    "a witness as home",
    {
      name: "x",
      datacenters: ["alfa", { name: "w", witness: true }],
      shards: [
        { name: "one", home: "alfa" },
        { name: "two", home: "w", members: [{ datacenter: "w" }] },
      ],
    },
    "shards[1].home",
    /w is a witness/,
  ],
  [
    "a datacenter that is home to no shard",
    { ...base, shards: [{ name: "one", home: "alfa" }] },
    "datacenters[1]",
    /no electable member of its own/,
  ],
  [
    "no electable member at home",
    shards({ ...alfa, priority: 0 }, { ...alfa, priority: 0 }, { ...bravo, priority: 1 }),
    "shards[0].members",
    /no member in alfa can become primary/,
  ],
  [
    "no electable member anywhere",
    shards({ ...alfa, priority: 0 }, bravo, bravo),
    "shards[0].members",
    /no member can become primary/,
  ],
  [
    "a higher priority away from home",
    shards(alfa, alfa, { ...bravo, priority: 3 }),
    "shards[0].members",
    /is not in the home datacenter alfa/,
  ],
  ["an even number of voters", shards(alfa, alfa, alfa, bravo), "shards[0].members", /4 voting members/],
  ["eight voters and one", shards(...Array.from({ length: 9 }, () => alfa)), "shards[0].members", /9 voting members/],
  [
    "fifty-one members",
    shards(alfa, ...Array.from({ length: 50 }, () => ({ ...alfa, votes: 0 as const }))),
    "shards[0].members",
    /51 members/,
  ],
  ["no member", shards(), "shards[0].members", /no member/],
  [
    "priority without a vote",
    shards({ ...alfa, votes: 0, priority: 1 }, alfa, alfa, bravo),
    "shards[0].members[0].priority",
    /without a vote/,
  ],
  [
    "priority on a hidden member",
    shards({ ...alfa, hidden: true, priority: 1 }, alfa, bravo),
    "shards[0].members[0].priority",
    /hidden member/,
  ],
  [
    "priority on a delayed member",
    shards({ ...alfa, secondaryDelaySecs: 5, priority: 1 }, alfa, bravo),
    "shards[0].members[0].priority",
    /delayed member/,
  ],
  [
    "a priority out of range",
    shards({ ...alfa, priority: 1001 }, alfa, bravo),
    "shards[0].members[0].priority",
    /out of range/,
  ],
  [
    "a negative delay",
    shards({ ...alfa, secondaryDelaySecs: -1 }, alfa, bravo),
    "shards[0].members[0].secondaryDelaySecs",
    /out of range/,
  ],
  [
    "two votes",
    shards(loose({ ...alfa, votes: 2 }) as never, alfa, bravo),
    "shards[0].members[0].votes",
    /2 is not 0 or 1/,
  ],
  [
    "an arbiter with a priority",
    shards(alfa, alfa, { ...bravo, arbiterOnly: true, priority: 5 }),
    "shards[0].members[2].priority",
    /arbiter cannot have priority/,
  ],
  [
    "an arbiter without a vote",
    shards(alfa, { ...bravo, arbiterOnly: true, votes: 0 }),
    "shards[0].members[1].votes",
    /arbiter without a vote/,
  ],
  [
    "an arbiter with tags",
    shards(alfa, alfa, { ...bravo, arbiterOnly: true, tags: { disk: "ssd" } }),
    "shards[0].members[2].tags",
    /arbiter with tags/,
  ],
  [
    "a hidden arbiter",
    shards(alfa, alfa, { ...bravo, arbiterOnly: true, hidden: true }),
    "shards[0].members[2].hidden",
    /hidden arbiter/,
  ],
  [
    "an arbiter without a managed write concern",
    { ...shards(alfa, alfa, { ...bravo, arbiterOnly: true }), defaults: { writeConcern: null } },
    "defaults.writeConcern",
    /has an arbiter/,
  ],
  [
    "an arbiter among the config servers",
    { ...base, configServers: { members: [alfa, alfa, { ...bravo, arbiterOnly: true }] } },
    "configServers.members[2].arbiterOnly",
    /arbiter among the config servers/,
  ],
  [
    "a delayed config server",
    { ...base, configServers: { members: [alfa, alfa, { ...bravo, secondaryDelaySecs: 1 }] } },
    "configServers.members[2].secondaryDelaySecs",
    /delayed config server/,
  ],
  [
    "an even number of config servers",
    { ...base, configServers: { members: [alfa, bravo] } },
    "configServers.members",
    /2 voting members/,
  ],
  [
    "a member in no datacenter",
    shards({ datacenter: "bavo" }, alfa, alfa),
    "shards[0].members[0].datacenter",
    /no datacenter bavo/,
  ],
  [
    "a tag that contradicts",
    shards({ ...alfa, tags: { datacenter: "bravo" } }, alfa, bravo),
    "shards[0].members[0].tags.datacenter",
    /tag says bravo/,
  ],
  [
    "a process name twice",
    shards({ ...alfa, name: "x" }, { ...alfa, name: "x" }, bravo),
    "shards[0].members[1].name",
    /process x is used by shards\[0\].members\[0\].name/,
  ],
  ["a host without a port", shards({ ...alfa, host: "db1" }, alfa, bravo), "shards[0].members[0].host", /no port/],
  [
    "a host used twice",
    shards({ ...alfa, host: "db1:1" }, { ...alfa, host: "DB1:1" }, bravo),
    "shards[0].members[1].host",
    /host db1:1 is used by shards\[0\].members\[0\].host/,
  ],
  [
    "a host used by a mongos too",
    { ...shards({ ...alfa, host: "db1:1" }, alfa, bravo), routers: [{ name: "r", datacenter: "alfa", host: "db1:1" }] },
    "routers[0].host",
    /host db1:1 is used/,
  ],
  [
    "an unknown setting",
    shards() &&
      loose({
        ...base,
        shards: [
          { name: "one", home: "alfa", settings: { electionTimeout: 1 } },
          { name: "two", home: "bravo" },
        ],
      }),
    "shards[0].settings.electionTimeout",
    /unknown field/,
  ],
  [
    "a router in no datacenter",
    { ...base, routers: [{ name: "r", datacenter: "charlie" }] },
    "routers[0].datacenter",
    /no datacenter charlie/,
  ],
  ["routers listed and counted", { ...base, routersPerDatacenter: 1, routers: [] }, "routersPerDatacenter", /together/],
  ["a namespace without a dot", collection({ key: { a: 1 } }, "messages"), "collections.messages", /not a namespace/],
  [
    "a collection in admin",
    collection({ key: { a: 1 } }, "admin.c"),
    'collections["admin.c"]',
    /belongs to the server/,
  ],
  [
    "a collection in config",
    collection({ key: { a: 1 } }, "config.c"),
    'collections["config.c"]',
    /belongs to the server/,
  ],
  [
    "a system collection",
    collection({ key: { a: 1 } }, "chat.system.users"),
    'collections["chat.system.users"]',
    /belongs to the server/,
  ],
  [
    "a collection without a name",
    collection({ key: { a: 1 } }, "chat."),
    'collections["chat."]',
    /not a collection name/,
  ],
  [
    "a dollar in a collection's name",
    collection({ key: { a: 1 } }, "chat.a$b"),
    'collections["chat.a$b"]',
    /holds a \$/,
  ],
  ["a bad database name", collection({ key: { a: 1 } }, "a b.c"), 'collections["a b.c"]', /not a database name/],
  [
    "a namespace that is too long",
    collection({ key: { a: 1 } }, `chat.${"c".repeat(240)}`),
    `collections["chat.${"c".repeat(240)}"]`,
    /too long/,
  ],
  [
    "databases that differ only in case",
    { ...base, collections: { "chat.a": sharded({ a: 1 }), "Chat.b": sharded({ a: 1 }) } },
    "databases.Chat",
    /differ only in case/,
  ],
  [
    "an unknown primary shard",
    { ...base, databases: { chat: { primaryShard: "shard000" } } },
    "databases.chat.primaryShard",
    /no shard shard000/,
  ],
  ["no shard key", collection({}), `${at}.key`, /is missing/],
  ["an empty shard key object", collection({ key: {} }), `${at}.key`, /no field/],
  ["a descending shard key", collection({ key: { a: -1 } }), `${at}.key.a`, /cannot be part of a shard key/],
  ["two hashed fields", collection({ key: { a: "hashed", b: "hashed" } }), `${at}.key`, /both hashed/],
  ["a unique hashed key", collection({ key: { a: "hashed" }, unique: true }), `${at}.key`, /cannot be unique/],
  ["unique without a key", collection({ key: [], unique: true }), `${at}.unique`, /without a shard key/],
  ["field names that are reordered", collection({ key: { a: 1, "1": 1 } }), `${at}.key.1`, /order of the field/],
  ["a key of a strange kind", collection({ key: { a: 2 } }), `${at}.key`, /is no key/],
  [
    "ranges in two ways",
    collection({ key: { datacenter: 1 }, perDatacenter: true, split: { at: [1] } }),
    `${at}.split`,
    /together/,
  ],
  ["ranges without a key", collection({ key: [], split: { at: [1] } }), `${at}.split`, /without a shard key/],
  [
    "a range of a zone that no shard carries",
    ranges({ zone: "alva", min: { a: 1 }, max: { a: 2 } }),
    `${at}.ranges[0].zone`,
    /no shard carries the zone alva/,
  ],
  [
    "a range that does not fit the key",
    ranges({ zone: "alfa", min: { b: 1 }, max: { a: 2 } }),
    `${at}.ranges[0].min`,
    /no prefix of the shard key/,
  ],
  ["a range without an end", ranges({ zone: "alfa", min: { a: 1 } }), `${at}.ranges[0].max`, /is missing/],
  [
    "an empty range: both ends completed with MinKey",
    ranges({ zone: "alfa", min: { a: 1 }, max: { a: 1 } }),
    `${at}.ranges[0]`,
    /is empty/,
  ],
  [
    "ranges that overlap",
    ranges({ zone: "alfa", min: { a: 1 }, max: { a: 5 } }, { zone: "bravo", min: { a: 4, b: MIN_KEY }, max: { a: 9 } }),
    `${at}.ranges[1]`,
    /\{ a: 4, b: MinKey \} to .*zone bravo.* overlaps .*ranges\[0\], \{ a: 1, b: MinKey \} to .*zone alfa/,
  ],
  [
    "ranges per datacenter of a key that begins otherwise",
    collection({ key: { userid: 1, datacenter: 1 }, perDatacenter: true }),
    `${at}.perDatacenter`,
    /does not begin with datacenter/,
  ],
  [
    "ranges per datacenter in an unknown zone",
    collection({ key: { datacenter: 1 }, perDatacenter: { values: { x: "charlie" } } }),
    `${at}.perDatacenter.values`,
    /no shard carries the zone charlie/,
  ],
  [
    "a split that does not ascend",
    collection({ key: { a: 1 }, split: { at: [2, 1], zones: ["alfa", "bravo", "alfa"] } }),
    `${at}.split`,
    /does not lie above/,
  ],
  [
    "a split with too few zones",
    collection({ key: { a: 1 }, split: { at: [1, 2] } }),
    `${at}.split`,
    /3 pieces, but 2 zones/,
  ],
  [
    "a unique index without the shard key as prefix",
    indexes({ key: { email: 1 }, unique: true }),
    `${at}.indexes[0].unique`,
    /does not begin with the shard key/,
  ],
  [
    "a unique index with the shard key behind",
    indexes({ key: { email: 1, a: 1 }, unique: true }),
    `${at}.indexes[0].unique`,
    /does not begin with the shard key/,
  ],
  [
    "a unique hashed index",
    indexes({ key: { a: "hashed" }, unique: true }),
    `${at}.indexes[0].unique`,
    /hashed field a/,
  ],
  ["an index on _id", indexes({ key: { _id: 1 } }), `${at}.indexes[0].key`, /makes itself/],
  [
    "the shard key's own index",
    indexes({ key: { a: 1 }, unique: true }),
    `${at}.indexes[0].key`,
    /index of the shard key/,
  ],
  [
    "an index twice",
    indexes({ key: { b: 1 } }, { key: { b: 1 }, name: "other" }),
    `${at}.indexes[1].key`,
    /same key as .*indexes\[0\]/,
  ],
  [
    "an index name twice",
    indexes({ key: { b: 1 }, name: "n" }, { key: { c: 1 }, name: "n" }),
    `${at}.indexes[1].name`,
    /name n is that of/,
  ],
  [
    "expiry by two fields",
    indexes({ key: { b: 1, c: 1 }, expireAfterSeconds: 1 }),
    `${at}.indexes[0].expireAfterSeconds`,
    /cannot expire/,
  ],
  [
    "sparse and partial",
    indexes({ key: { b: 1 }, sparse: true, partialFilterExpression: { b: 1 } }),
    `${at}.indexes[0].sparse`,
    /together/,
  ],
  ["an index without fields", indexes({ key: {} }), `${at}.indexes[0].key`, /no field/],
  [
    "a filter that is no document",
    indexes({ key: { b: 1 }, partialFilterExpression: "{" }),
    `${at}.indexes[0].partialFilterExpression`,
    /not Extended JSON/,
  ],
  [
    "a chunk size out of range",
    collection({ key: { a: 1 }, chunkSizeMiB: 2000 }),
    `${at}.chunkSizeMiB`,
    /out of range/,
  ],
  [
    "a time that is none",
    { ...base, balancer: { activeWindow: { start: "24:00", stop: "05:00" } } },
    "balancer.activeWindow.start",
    /not a time of day/,
  ],
  [
    "a time without a zero",
    { ...base, balancer: { activeWindow: { start: "23:00", stop: "5:00" } } },
    "balancer.activeWindow.stop",
    /not a time of day/,
  ],
  [
    "a window of no length",
    { ...base, balancer: { activeWindow: { start: "05:00", stop: "05:00" } } },
    "balancer.activeWindow",
    /same time/,
  ],
  [
    "unacknowledged writes as the default",
    { ...base, defaults: { writeConcern: { w: 0 } } },
    "defaults.writeConcern.w",
    /w: 0/,
  ],
  [
    "a read concern that cannot be the default",
    loose({ ...base, defaults: { readConcern: "linearizable" } }),
    "defaults.readConcern",
    /not one of/,
  ],
  [
    "a user twice",
    { ...base, users: { others: [{ name: "admin", roles: [{ role: "read", database: "chat" }] }] } },
    "users.others[0]",
    /is users.admin as well/,
  ],
  [
    "a user without a role",
    { ...base, users: { others: [{ name: "x", roles: [] }] } },
    "users.others[0].roles",
    /no role/,
  ],
  ["a user called __system", { ...base, users: { admin: "__system" } }, "users.admin", /belongs to the server/],
  [
    "an application's database that nobody declares",
    { ...base, users: { application: { databases: ["caht"] } } },
    "users.application.databases[0]",
    /no database caht/,
  ],
];

describe("mistakes", () => {
  test.each(MISTAKES)("%s", (_, declaration, path, message) => {
    const { problems } = checkDeclaration(declaration);
    expect(problems).toEqual([expect.objectContaining({ path, message: expect.stringMatching(message) })]);
    expect(() => defineCluster(declaration)).toThrow(InvalidDeclarationError);
  });

  test("every rule names the rule or the way out", () => {
    for (const [rule, declaration] of MISTAKES) {
      for (const problem of checkDeclaration(declaration).problems) {
        expect([rule, problem.rule ?? problem.fix]).not.toContain(undefined);
      }
    }
  });

  test("a misspelt name is met with the nearest one", () => {
    const fixes = checkDeclaration(
      loose({
        ...base,
        balnacer: {},
        shards: [
          { name: "one", home: "afla" },
          { name: "two", home: "bravo" },
          { name: "three", home: "alfa" },
        ],
      }),
    ).problems.map(({ fix }) => fix);
    expect(fixes).toEqual(["did you mean balancer?", "did you mean alfa?"]);
  });

  test("ten mistakes, wrong shapes and broken rules mixed, are all reported at once, each with its path", () => {
    const declaration = loose({
      name: "my chat",
      datacenters: ["alfa", "bravo", "bravo"],
      shrads: [],
      shards: [
        {
          name: "one",
          home: "alfa",
          members: [
            { datacenter: "alfa", priority: "high" },
            { datacenter: "alfa", hidden: true, priority: 1 },
            { datacenter: "bravo", host: "db1" },
          ],
        },
        { name: "two", home: "brave" },
        { name: "three", home: "bravo" },
      ],
      collections: {
        "chat.a": { key: { a: "hashed" }, unique: true },
        "chat.b": {
          key: { a: 1 },
          ranges: [
            { zone: "alfa", min: { a: 1 }, max: { a: 5 } },
            { zone: "bravo", min: { a: 4 }, max: { a: 9 } },
          ],
        },
      },
      balancer: { activeWindow: { start: "9", stop: "10:00" } },
    });
    const paths = [
      "name",
      "datacenters[2]",
      "shrads",
      "shards[0].members[0].priority",
      "shards[0].members[1].priority",
      "shards[0].members[2].host",
      "shards[1].home",
      'collections["chat.a"].key',
      'collections["chat.b"].ranges[1]',
      "balancer.activeWindow.start",
    ];
    expect(
      checkDeclaration(declaration)
        .problems.map(({ path }) => path)
        .toSorted(),
    ).toEqual(paths.toSorted());
    let message = "";
    try {
      defineCluster(declaration);
    } catch (error) {
      message = String(error);
    }
    expect(message).toContain("10 mistakes");
    for (const path of paths) expect(message).toContain(path);
  });

  test("an unreadable list item does not shift the paths of the others", () => {
    const { problems } = checkDeclaration(
      loose({
        ...base,
        shards: [
          5,
          { name: "one", home: "alfa", members: [null, { datacenter: "alfa" }, { datacenter: "alfa", host: "x" }] },
          { name: "two", home: "bravo" },
        ],
      }),
    );
    expect(problems.map(({ path }) => path)).toEqual([
      "shards[0]",
      "shards[1].members[0]",
      "shards[1].members[2].host",
    ]);
  });

  test("what follows from an unreadable field is not reported on top of it, nor at another item's place", () => {
    const { problems } = checkDeclaration(
      loose({
        ...base,
        shards: [5, { name: 6, home: "alfa" }, { name: "two", home: "bravo" }, { name: "one", home: "alfa" }],
      }),
    );
    expect(problems.map(({ path }) => path)).toEqual(["shards[0]", "shards[1].name"]);
  });

  test("every documented field is known", () => {
    const everything: Required<ClusterDeclaration> = {
      name: "x",
      datacenters: [{ name: "alfa", label: "A", witness: false }, "bravo"],
      shardsPerDatacenter: undefined,
      shards: [
        {
          name: "one",
          home: "alfa",
          zones: ["alfa"],
          members: [
            {
              ...{
                datacenter: "alfa",
                name: "m",
                host: "a:1",
                priority: 1,
                votes: 1,
                hidden: false,
                arbiterOnly: false,
              },
              ...{ secondaryDelaySecs: 0, tags: { disk: "ssd" } },
            },
          ],
          settings: {
            electionTimeoutMillis: 1,
            heartbeatTimeoutSecs: 1,
            catchUpTimeoutMillis: -1,
            chainingAllowed: true,
          },
        },
        { name: "two", home: "bravo" },
      ],
      configServers: { name: "cfg", home: "alfa", members: [alfa], settings: {} },
      routersPerDatacenter: undefined,
      routers: [{ name: "r", datacenter: "alfa", host: "a:2" }],
      databases: { d: { primaryShard: "one" } },
      collections: {
        "d.a": {
          ...{
            key: { a: 1 },
            unique: true,
            ranges: [{ zone: "alfa", min: { a: 1 }, max: { a: 2 } }],
            balancing: false,
            chunkSizeMiB: 64,
          },
          indexes: [
            {
              ...{ key: { b: 1 }, name: "n", unique: false, sparse: false, hidden: true, expireAfterSeconds: 1 },
              ...{ partialFilterExpression: { b: 1 }, collation: { locale: "en" } },
            },
          ],
        },
        "d.b": { key: { dc: 1 }, perDatacenter: { field: "dc", values: { alfa: "alfa" } } },
        "d.c": { key: { a: 1 }, split: { at: [1], zones: ["alfa", "bravo"] } },
      },
      balancer: { enabled: true, activeWindow: { start: "00:00", stop: "23:59" }, chunkSizeMiB: 1024 },
      defaults: { readConcern: "local", writeConcern: { w: 1, wtimeoutMillis: 5 } },
      users: {
        ...{ admin: "a", application: { name: "b", databases: ["d"] }, monitoring: "m" },
        others: [{ name: "o", database: "d", roles: [{ role: "read", database: "d" }] }],
      },
    };
    expect(checkDeclaration(everything).problems).toEqual([]);
  });

  test("no declaration, however wrong, ends in anything but a list of problems", () => {
    const junk = fc.oneof(
      fc.jsonValue(),
      fc.constantFrom(undefined, Number.NaN, () => 1, new Date(0), MIN_KEY),
    );
    const field = fc.constantFrom(
      "name",
      "datacenters",
      "shards",
      "configServers",
      "routers",
      "databases",
      "collections",
      "balancer",
      "defaults",
      "users",
      "shardsPerDatacenter",
    );
    fc.assert(
      fc.property(
        fc.dictionary(field, junk),
        fc.dictionary(fc.constantFrom("home", "members", "zones", "name", "key", "ranges", "indexes"), junk),
        (top, inner) => {
          for (const declaration of [
            { ...base, ...top },
            { ...base, shards: [inner] },
            { ...base, collections: { "a.b": inner } },
          ]) {
            const { problems, spec } = checkDeclaration(loose(declaration));
            for (const problem of problems) expect(typeof problem.path).toBe("string");
            if (problems.length === 0) expect(spec).toBeDefined();
          }
        },
      ),
      { numRuns: 200 },
    );
  });
});
