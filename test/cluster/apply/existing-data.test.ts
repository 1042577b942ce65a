import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { applyCollection } from "../../../infra/cluster/apply/collection.ts";
import { readPlacement } from "../../../infra/cluster/balance.ts";
import { observeCollections } from "../../../infra/cluster/observe/collections.ts";
import { defineCluster, perDatacenter, unique } from "../../../infra/model/index.ts";
import type { CollectionState } from "../../../infra/model/state.ts";
import { desiredCollection } from "../../../infra/plan/desired.ts";
import { diffCollection } from "../../../infra/plan/diff.ts";
import { type ReferenceCluster, startReferenceCluster, TestOperation } from "../reference-cluster.ts";

const DOCUMENTS = 20_000;

function declared(namespace: string, declaration: ReturnType<typeof perDatacenter>): CollectionState {
  const spec = defineCluster({
    name: "x",
    datacenters: ["alfa", "bravo"],
    collections: { [namespace]: declaration },
  });
  const [collection] = spec.collections;
  if (!collection) throw new Error("the declaration has no collection");
  return desiredCollection(collection);
}

/** Existing collections, not sharded, that are then declared with a key and zones. */
describe("a collection that has data already", () => {
  let reference: ReferenceCluster;

  beforeAll(async () => {
    reference = await startReferenceCluster({ members: 1 });
  });
  afterAll(() => reference?.[Symbol.asyncDispose]());

  it(`M5: the balancer moves ${DOCUMENTS} documents until the ranges hold`, async () => {
    const client = await reference.cluster.connect();
    const messages = client.db("chat").collection("messages");
    for (let batch = 0; batch < DOCUMENTS / 5_000; batch += 1) {
      await messages.insertMany(
        Array.from({ length: 5_000 }, (_, i) => ({
          datacenter: i % 4 === 0 ? "alfa" : "bravo",
          userid: batch * 5_000 + i,
          text: "a message of some length, as people write them to each other",
        })),
      );
    }
    const want = declared("chat.messages", perDatacenter({ userid: 1 }));
    await using op = new TestOperation();
    const state = await applyCollection(op, reference.connection, want);
    expect(diffCollection(want, state)).toEqual([]);
    expect((await readPlacement(op, reference.connection, "chat.messages")).misplaced).toEqual([]);
    expect(op.news.some((line) => /\d+ of \d+ chunks not yet in their zone/.test(line))).toBe(true);
    expect(op.news.at(-1)).toMatch(/every chunk lies in its zone/);

    expect(await messages.countDocuments()).toBe(DOCUMENTS);
    expect(await messages.countDocuments({ datacenter: "alfa" })).toBe(DOCUMENTS / 4);
    // What each shard itself says that it owns: a read of its own documents that leaves out what it has given away.
    for (const [index, datacenter] of (["alfa", "bravo"] as const).entries()) {
      const shard = reference.cluster.shards[index];
      const explain = await client
        .db("chat")
        .command({ explain: { find: "messages", filter: { datacenter } }, verbosity: "executionStats" });
      const parts = explain.executionStats.executionStages.shards as { shardName: string }[];
      expect(parts.map(({ shardName }) => shardName)).toEqual([shard?.name]);
    }
  });

  it("changes nothing when applied again", async () => {
    await using op = new TestOperation();
    await applyCollection(op, reference.connection, declared("chat.messages", perDatacenter({ userid: 1 })));
    expect(op.news).toEqual([]);
  });

  it("U3: names a unique index that stands in the way, and touches nothing", async () => {
    const client = await reference.cluster.connect();
    const collection = client.db("chat").collection("profiles");
    await collection.insertOne({ userid: 1, email: "a@example.net" });
    await collection.createIndex({ email: 1 }, { unique: true });
    await using op = new TestOperation();
    const attempt = applyCollection(
      op,
      reference.connection,
      declared("chat.profiles", unique({ userid: 1 }, { split: { at: [10] } })),
    );
    await expect(attempt).rejects.toThrow(/email_1/);
    expect((await collection.indexes()).map((index) => index.name).sort()).toEqual(["_id_", "email_1"]);
    expect(await client.db("config").collection("tags").countDocuments({ ns: "chat.profiles" })).toBe(0);
    expect((await observeCollections(op, reference.connection, ["chat.profiles"]))[0]?.key).toEqual([]);
  });

  it("U4: lists duplicates of a unique key in the data, null and missing alike, and touches nothing", async () => {
    const client = await reference.cluster.connect();
    const collection = client.db("chat").collection("accounts");
    await collection.insertMany([
      { _id: 1 as never, userid: 7 },
      { _id: 2 as never, userid: 7 },
      { _id: 3 as never, userid: null },
      { _id: 4 as never },
      { _id: 5 as never, userid: 8 },
    ]);
    await using op = new TestOperation();
    const attempt = applyCollection(op, reference.connection, declared("chat.accounts", unique({ userid: 1 })));
    await expect(attempt).rejects.toThrow(/userid: 7(.|\n)*_id 1 and 2/);
    await expect(attempt).rejects.toThrow(/userid: null(.|\n)*_id 3 and 4/);
    expect((await collection.indexes()).map((index) => index.name)).toEqual(["_id_"]);
    await collection.deleteMany({ _id: { $in: [2, 4] as never[] } });
    const state = await applyCollection(op, reference.connection, declared("chat.accounts", unique({ userid: 1 })));
    expect(state).toMatchObject({ key: [{ field: "userid", kind: 1 }], unique: true });
    await expect(collection.insertOne({ userid: 8 })).rejects.toMatchObject({ code: 11000 });
  });

  it("stops with the reason when nothing can move", async () => {
    const client = await reference.cluster.connect();
    await client
      .db("chat")
      .collection("parked")
      .insertMany([{ datacenter: "alfa" }, { datacenter: "bravo" }]);
    await client.db("admin").command({ balancerStop: 1 });
    try {
      await using op = new TestOperation();
      const attempt = applyCollection(op, reference.connection, declared("chat.parked", perDatacenter({ userid: 1 })), {
        stallMillis: 500,
      });
      await expect(attempt).rejects.toMatchObject({
        message: expect.stringContaining("the balancer is off"),
        next: expect.stringContaining("enabled"),
      });
    } finally {
      await client.db("admin").command({ balancerStart: 1 });
    }
  });
});
