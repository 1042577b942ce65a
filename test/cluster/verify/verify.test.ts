import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { applyCollection } from "../../../infra/cluster/apply/collection.ts";
import { applyDefaults } from "../../../infra/cluster/apply/defaults.ts";
import { detectDrift } from "../../../infra/cluster/drift.ts";
import { type Check, verifyCluster } from "../../../infra/cluster/verify/cluster.ts";
import { desiredCollection } from "../../../infra/plan/desired.ts";
import { type ReferenceCluster, startReferenceCluster, TestOperation } from "../reference-cluster.ts";

describe("the reference cluster", () => {
  let reference: ReferenceCluster;

  const verify = async (): Promise<Map<string, Check>> => {
    await using op = new TestOperation();
    const checks = await verifyCluster(op, reference);
    return new Map(checks.map((check) => [check.id, check]));
  };
  const client = () => reference.cluster.connect();

  beforeAll(async () => {
    reference = await startReferenceCluster();
    await using op = new TestOperation();
    for (const spec of reference.spec.collections) {
      await applyCollection(op, reference.connection, desiredCollection(spec));
    }
    await applyDefaults(op, reference.connection, reference.spec.defaults);
  });
  afterAll(() => reference?.[Symbol.asyncDispose]());

  it("passes every check, in little time, and has no drift", async () => {
    await using op = new TestOperation();
    const cold = performance.now();
    await verifyCluster(op, reference);
    const warm = performance.now();
    const checks = await verifyCluster(op, reference);
    const end = performance.now();
    console.log(`verified in ${Math.round(warm - cold)} ms cold, ${Math.round(end - warm)} ms warm`);
    for (const { id, title, status, evidence, problems } of checks) {
      console.log([`${id} ${title}: ${status}`, ...evidence, ...problems].join("\n    "));
    }
    expect(checks.map(({ id, status, problems }) => [id, status, problems])).toEqual(
      ["M1", "M2", "M3", "M4", "M5", "M9", "M10", "M11", "U1"].map((id) => [id, "passed", []]),
    );
    expect(checks.every(({ evidence }) => evidence.length > 0)).toBe(true);
    const begin = performance.now();
    const drift = await detectDrift(op, reference);
    console.log(`drift check in ${Math.round(performance.now() - begin)} ms`);
    expect(drift).toEqual({ changes: [], unseen: [] });
  });

  it("U1: leaves nothing behind, on empty and on full collections alike", async () => {
    const users = (await client()).db("chat").collection("users");
    expect(await users.find().toArray()).toEqual([]);
    await users.insertMany([{ userid: 1 }, { userid: 2_000_000_000 }], { writeConcern: { w: "majority" } });
    const u1 = (await verify()).get("U1");
    expect(u1).toMatchObject({ status: "passed" });
    expect(u1?.evidence.filter((line) => line.includes("a duplicate was refused (11000 userid_1)"))).toHaveLength(2);
    expect((await users.find({}, { projection: { _id: 0 } }).toArray()).map(({ userid }) => userid)).toEqual([
      1, 2_000_000_000,
    ]);
  });

  it("M10: fails when the gaps between the ranges are open", async () => {
    const admin = (await client()).db("admin");
    const gap = reference.spec.collections.find(({ namespace }) => namespace === "chat.messages")?.ranges.at(2);
    if (!gap) throw new Error("the declaration has no gap range");
    await using op = new TestOperation();
    const { applyRanges } = await import("../../../infra/cluster/apply/ranges.ts");
    const { observeCollections } = await import("../../../infra/cluster/observe/collections.ts");
    const [observed] = await observeCollections(op, reference.connection, ["chat.messages"]);
    if (!observed) throw new Error("chat.messages is gone");
    const open = { ...observed, ranges: observed.ranges.filter(({ min }) => min !== gap.min) };
    await applyRanges(op, await op.connections.router(reference.connection), open, observed);
    const { fromBsonText } = await import("../../../infra/model/bson-text.ts");
    await admin.command({ balancerStop: 1 });
    await admin.command({
      moveChunk: "chat.messages",
      bounds: [fromBsonText(gap.min), fromBsonText(gap.max)],
      to: "shard0001",
    });
    const checks = await verify();
    expect(checks.get("M10")).toMatchObject({ status: "failed" });
    expect(checks.get("M10")?.problems.join("\n")).toContain('find with datacenter "alfa"');
    expect(checks.get("M3")).toMatchObject({ status: "failed" });
    await admin.command({ balancerStart: 1 });
    const spec = reference.spec.collections.find(({ namespace }) => namespace === "chat.messages");
    if (!spec) throw new Error("chat.messages is not declared");
    await applyCollection(op, reference.connection, desiredCollection(spec));
    expect((await verify()).get("M10")).toMatchObject({ status: "passed", problems: [] });
  });
});
