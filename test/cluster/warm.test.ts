import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { applyCollection } from "../../infra/cluster/apply/collection.ts";
import { detectDrift } from "../../infra/cluster/drift.ts";
import { verifyCluster } from "../../infra/cluster/verify/cluster.ts";
import { warmMembers } from "../../infra/cluster/warm.ts";
import { perDatacenter } from "../../infra/model/index.ts";
import { desiredCollection } from "../../infra/plan/desired.ts";
import { type ReferenceCluster, startReferenceCluster, TestOperation } from "./reference-cluster.ts";

/** Longer than any read that is answered takes, in milliseconds. */
const BOUND = 4_000;

describe("M11: reads when the primary's datacenter is gone", () => {
  let reference: ReferenceCluster;

  beforeAll(async () => {
    reference = await startReferenceCluster({
      collections: { "chat.warm": perDatacenter({ userid: 1 }), "chat.cold": perDatacenter({ userid: 1 }) },
    });
    await using op = new TestOperation();
    const client = await reference.cluster.connect();
    for (const spec of reference.spec.collections) {
      await applyCollection(op, reference.connection, desiredCollection(spec));
      // Through the routers' primaries only, so that no secondary is asked.
      await client
        .db("chat")
        .collection(spec.namespace.slice("chat.".length))
        .insertMany(
          [
            { datacenter: "alfa", userid: 1 },
            { datacenter: "bravo", userid: 2 },
          ],
          { writeConcern: { w: 3 } },
        );
    }
  });
  afterAll(() => reference?.[Symbol.asyncDispose]());

  it("every member of every shard serves a read, also without being told any tags", async () => {
    await using op = new TestOperation();
    const results = await warmMembers(op, reference.connection, ["chat.warm"]);
    expect(results.map(({ shard, members, served }) => [shard, members, served.length])).toEqual(
      expect.arrayContaining([
        ["shard0000", 3, 3],
        ["shard0001", 3, 3],
      ]),
    );
    // The members name themselves by the machine's name and their port.
    const ports = results.flatMap(({ served }) => served.map((server) => server.split(":").at(-1)));
    expect(ports.sort()).toEqual(
      reference.cluster.shards.flatMap(({ members }) => members.map((member) => String(member.options.port))).sort(),
    );
  });

  it("a warmed member answers completely, a cold one hangs", async () => {
    const { cluster, connections } = reference;
    const client = await cluster.connect(cluster.uris[1], { readPreference: "nearest" });
    // The driver and the router are up before the outage; the members have served only `chat.warm`.
    await client.db("admin").command({ ping: 1 });
    await Promise.all([
      cluster.routers[0]?.kill(),
      ...cluster.membersTagged("datacenter", "alfa").map((m) => m.kill()),
    ]);
    const read = (collection: string) =>
      client.db("chat").collection(collection).find({}, { maxTimeMS: BOUND }).sort({ userid: 1 }).toArray();
    expect((await read("warm")).map(({ userid }) => userid)).toEqual([1, 2]);
    await expect(read("cold")).rejects.toMatchObject({ code: 50 });

    await using op = new TestOperation();
    const [, bravo] = connections;
    if (!bravo) throw new Error("there is no router in bravo");
    // What verification would say now: fewer members than there are have served.
    const results = await warmMembers(op, bravo, ["chat.warm"]);
    expect(results.find(({ shard }) => shard === "shard0000")).toMatchObject({
      members: 3,
      served: [expect.any(String)],
    });
  });

  // Goes on where the test before has left the cluster: alfa is gone.
  it("verification and drift end in time and tell what is gone from what could not be seen", async () => {
    const { connections, spec, memberCredential } = reference;
    const [, bravo] = connections;
    if (!bravo) throw new Error("there is no router in bravo");
    await using op = new TestOperation();
    const begin = performance.now();
    const [checks, drift] = await Promise.all([
      verifyCluster(op, { spec, connection: bravo, memberCredential }),
      detectDrift(op, { spec, connection: bravo, memberCredential }),
    ]);
    const millis = performance.now() - begin;
    const status = new Map(checks.map((check) => [check.id, check.status]));
    expect(status.get("M4")).toBe("failed");
    expect(status.get("M1")).toBe("failed");
    expect(status.get("M2")).toBe("passed");
    expect(status.get("M3")).toBe("passed");
    expect(status.get("M11")).not.toBe("passed");
    expect(drift.changes).toEqual([]);
    expect(drift.unseen.map(({ path }) => path)).toEqual(["collections[chat.cold].indexes", "defaults"]);
    expect(millis).toBeLessThan(40_000);
  });
});
