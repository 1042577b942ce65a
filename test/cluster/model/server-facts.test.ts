/** What the model says about the server, asked of a real one. */
import fc from "fast-check";
import { type Document, type MongoClient, MongoServerError } from "mongodb";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { compareValues, MAX_KEY, MIN_KEY, toBsonText } from "../../../infra/model/bson-text.ts";
import { keyDocument, keyParts, shardKeyProblems } from "../../../infra/model/key.ts";
import { memberProblems } from "../../../infra/model/replica-set-rules.ts";
import { boundForServer, completeBound, completeRange } from "../../../infra/model/zone-range.ts";
import { planRanges } from "../../../infra/plan/range-steps.ts";
import { bsonScalar, bsonValue } from "../../support/arbitraries.ts";
import { type ShardedCluster, startShardedCluster } from "../../support/sharded-cluster.ts";

let cluster: ShardedCluster;
let router: MongoClient;
const shard = () => cluster.shards[0]?.members[0] as NonNullable<ShardedCluster["shards"][number]["members"][number]>;
const admin = (command: Document) => router.db("admin").command(command);
/** The code name of the refusal, or "ok". */
const answer = async (command: Document): Promise<string> => {
  try {
    await admin(command);
    return "ok";
  } catch (error) {
    if (error instanceof MongoServerError) return String(error.codeName);
    throw error;
  }
};

beforeAll(async () => {
  cluster = await startShardedCluster({ shards: [{ zones: ["alfa"] }, { zones: ["bravo"] }] });
  router = await cluster.connect();
});
afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]();
});

describe("the order of BSON values", () => {
  test.each([
    ["scalars", bsonScalar],
    ["values of any kind", bsonValue],
  ] as const)("%s sort as the server sorts them, and are equal when it says so", async (_, arbitrary) => {
    const values = fc.sample(arbitrary, 2000);
    const collection = shard().client.db("facts").collection("order");
    await collection.drop();
    // Within a document a list is compared as a whole; at the top it would sort by its smallest element.
    await collection.insertMany(values.map((v) => ({ w: { v } })));
    const raw = { promoteValues: false };
    const sorted = (await collection.find({}, raw).sort({ w: 1, _id: 1 }).toArray()).map(
      (one) => one.w as { v: unknown },
    );
    const groups = (await collection.aggregate([{ $group: { _id: "$w" } }], raw).toArray()).length;
    let distinct = 1;
    for (const [index, { v }] of sorted.entries()) {
      if (index === 0) continue;
      const before = sorted[index - 1]?.v;
      const order = compareValues(before, v);
      expect(order, `${toBsonText({ v: before })} before ${toBsonText({ v })}`).toBeLessThanOrEqual(0);
      if (order < 0) distinct += 1;
    }
    expect(distinct).toBe(groups);
  });
});

describe("zone ranges", () => {
  const key = keyParts({ a: 1, b: 1 });
  const set = (namespace: string, min: Document, max: Document, zone: string | null) =>
    answer({ updateZoneKeyRange: namespace, min, max, zone });
  const stored = (namespace: string) =>
    router.db("config").collection("tags").find({ ns: namespace }, { promoteValues: false }).sort({ min: 1 }).toArray();

  test("a range that overlaps is refused, also with the same bounds and another zone; numbers count by value", async () => {
    expect(await set("facts.overlap", { a: 1, b: 1 }, { a: 5, b: 1 }, "alfa")).toBe("ok");
    expect(await set("facts.overlap", { a: 1, b: 1 }, { a: 5, b: 1 }, "bravo")).toBe("RangeOverlapConflict");
    expect(await set("facts.overlap", { a: 1, b: 1 }, { a: 9, b: 1 }, "alfa")).toBe("RangeOverlapConflict");
    expect(
      await set(
        "facts.overlap",
        { a: 1.0, b: 1 },
        boundForServer(key, completeBound(key, '{"a":{"$numberLong":"5"},"b":1}')),
        null,
      ),
    ).toBe("ok");
    expect(await stored("facts.overlap")).toEqual([]);
  });

  test("a prefix is completed with MinKey at both ends on a sharded collection, MaxKey or not", async () => {
    expect(await answer({ shardCollection: "facts.prefix", key: keyDocument(key) })).toBe("ok");
    const bounds = [
      [{ a: 1 }, { a: 2 }],
      [{ a: 3 }, { a: MAX_KEY }],
    ] as const;
    for (const [min, max] of bounds) expect(await set("facts.prefix", min, max, "alfa")).toBe("ok");
    const ours = bounds.map(([min, max]) => completeRange(key, { zone: "alfa", min, max }));
    expect((await stored("facts.prefix")).map(({ min, max }) => [toBsonText(min), toBsonText(max)])).toEqual(
      ours.map(({ min, max }) => [min, max]),
    );
  });

  test("before sharding a prefix is kept as it is and stands in the way; the plan replaces it", async () => {
    expect(await set("facts.early", { a: 1 }, { a: 2 }, "alfa")).toBe("ok");
    expect(await answer({ shardCollection: "facts.early", key: keyDocument(key) })).toBe("InvalidOptions");
    const observed = (await stored("facts.early")).map(({ min, max, tag }) => ({
      zone: String(tag),
      min: toBsonText(min),
      max: toBsonText(max),
    }));
    const { steps } = planRanges({
      namespace: "facts.early",
      key,
      observed,
      desired: observed,
      sharded: false,
      balancing: { observed: true, desired: true },
    });
    for (const step of steps) {
      if (!("range" in step)) throw new Error(`${step.kind} where nothing can move`);
      const { min, max, zone } = step.range;
      expect(
        await set(
          step.namespace,
          boundForServer(key, min),
          boundForServer(key, max),
          step.kind === "assign" ? zone : null,
        ),
      ).toBe("ok");
    }
    expect(await answer({ shardCollection: "facts.early", key: keyDocument(key) })).toBe("ok");
  });

  test("a hashed field takes only NumberLong, MinKey and MaxKey", async () => {
    const hashed = keyParts({ a: "hashed" });
    expect(await set("facts.int", { a: 0 }, { a: 100 }, "alfa")).toBe("ok");
    expect(await answer({ shardCollection: "facts.int", key: keyDocument(hashed) })).toBe("InvalidOptions");
    const [min, max] = [completeBound(hashed, { a: MIN_KEY }), completeBound(hashed, { a: 100 })];
    expect(await set("facts.long", boundForServer(hashed, min), boundForServer(hashed, max), "alfa")).toBe("ok");
    expect(await answer({ shardCollection: "facts.long", key: keyDocument(hashed) })).toBe("ok");
  });

  test("a zone stays on its last shard while a range needs it, and a range needs a zone that is carried", async () => {
    expect(await answer({ removeShardFromZone: cluster.shards[0]?.name, zone: "alfa" })).toBe("ZoneStillInUse");
    expect(await set("facts.zone", { a: 1 }, { a: 2 }, "nowhere")).toBe("ZoneNotFound");
  });
});

describe("what the rules refuse, the server refuses", () => {
  test.each([
    [keyParts({ a: -1 }), false],
    [keyParts({ a: "hashed", b: "hashed" }), false],
    [keyParts({ a: "hashed" }), true],
    [keyParts({ a: "text" }), false],
  ])("shard key %j, unique %s", async (key, unique) => {
    expect(shardKeyProblems(key, unique, "key")).not.toEqual([]);
    expect(await answer({ shardCollection: "facts.refused", key: keyDocument(key), unique })).not.toBe("ok");
  });

  test.each([
    ["an arbiter with tags", { arbiterOnly: true, priority: 0, tags: { a: "b" } }],
    ["an arbiter without a vote", { arbiterOnly: true, priority: 0, votes: 0 as const }],
    ["an arbiter with a priority", { arbiterOnly: true, priority: 2 }],
    ["priority without a vote", { votes: 0 as const }],
    ["a hidden member with a priority", { hidden: true }],
    ["a delayed member with a priority", { secondaryDelaySecs: 5 }],
    ["a priority out of range", { priority: 1001 }],
  ])("%s", async (_, fields) => {
    const member = {
      priority: 1,
      votes: 1 as const,
      hidden: false,
      arbiterOnly: false,
      secondaryDelaySecs: 0,
      tags: {},
      ...fields,
    };
    expect(memberProblems(member, "member")).not.toEqual([]);
    const { config } = (await shard().admin({ replSetGetConfig: 1 })) as { config: Document };
    const wanted = {
      ...config,
      version: config.version + 1,
      members: [...config.members, { _id: 9, host: "127.0.0.1:1", ...member }],
    };
    await expect(shard().admin({ replSetReconfig: wanted })).rejects.toMatchObject({
      codeName: expect.stringMatching(/^(NewReplicaSetConfigurationIncompatible|InvalidReplicaSetConfig)$/),
    });
  });
});
