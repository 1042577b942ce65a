import { MaxKey, MinKey } from "bson";
import type { Db, Document } from "mongodb";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { applyBalancer } from "../../infra/cluster/apply/balancer.ts";
import { applyCollection } from "../../infra/cluster/apply/collection.ts";
import { applyDefaults } from "../../infra/cluster/apply/defaults.ts";
import { applyReplicaSet } from "../../infra/cluster/apply/replica-set.ts";
import { applyShard } from "../../infra/cluster/apply/shard.ts";
import { applyUser } from "../../infra/cluster/apply/user.ts";
import type { Operation } from "../../infra/cluster/context.ts";
import { detectDrift } from "../../infra/cluster/drift.ts";
import { toBsonText } from "../../infra/model/bson-text.ts";
import { perDatacenter } from "../../infra/model/index.ts";
import { desiredSnapshot } from "../../infra/plan/desired.ts";
import type { Mongod } from "../support/mongod.ts";
import { type ReferenceCluster, startReferenceCluster, TestOperation } from "./reference-cluster.ts";

const PASSWORD = "of-the-report-user";
const AT = (datacenter: unknown, userid: unknown) => ({ datacenter, userid });
const [MIN, MAX] = [new MinKey(), new MaxKey()];
const GAP = { min: AT("alfa", MAX), max: AT("bravo", MIN) };
const BRAVO = { min: AT("bravo", MIN), max: AT("bravo", MAX) };
const INDEX = 'indexes[{"sent":1}]';

interface Case {
  readonly field: string;
  /** What a hand does. */
  readonly change: (admin: Db, reference: ReferenceCluster) => Promise<unknown>;
  /** The differences: action and path. */
  readonly reported: (reference: ReferenceCluster) => readonly (readonly [string, string])[];
  /** Undone by hand again, where nobody declared what the hand has made. */
  readonly undo?: (admin: Db) => Promise<unknown>;
}

function primary(reference: ReferenceCluster): Mongod {
  const member = reference.cluster.shards[1]?.members[0];
  if (!member) throw new Error("shard0001 has no first member");
  return member;
}

function second(reference: ReferenceCluster): string {
  return reference.cluster.shards[1]?.members[1]?.address ?? "";
}

async function reconfigure(reference: ReferenceCluster, change: (config: Document) => void): Promise<void> {
  const { config } = await primary(reference).admin({ replSetGetConfig: 1 });
  change(config);
  config.version += 1;
  await primary(reference).admin({ replSetReconfig: config });
}

const range = (admin: Db, bounds: { min: Document; max: Document }, zone: string | null) =>
  admin.command({ updateZoneKeyRange: "chat.messages", ...bounds, zone });
const collMod = (admin: Db, index: Document) =>
  admin.client.db("chat").command({ collMod: "messages", index: { name: "sent_1", ...index } });

const CASES: readonly Case[] = [
  {
    field: "a member's priority",
    change: (_, reference) => reconfigure(reference, (config) => Object.assign(config.members[1], { priority: 0.5 })),
    reported: (reference) => [["update", `members[${second(reference)}].priority`]],
  },
  {
    field: "a member's tag",
    change: (_, reference) =>
      reconfigure(reference, (config) => Object.assign(config.members[1], { tags: { datacenter: "charlie" } })),
    reported: (reference) => [["update", `members[${second(reference)}].tags.datacenter`]],
  },
  {
    field: "a member's being hidden, which takes its priority",
    change: (_, reference) =>
      reconfigure(reference, (config) => Object.assign(config.members[1], { hidden: true, priority: 0 })),
    reported: (reference) => [
      ["update", `members[${second(reference)}].hidden`],
      ["update", `members[${second(reference)}].priority`],
    ],
  },
  {
    field: "a zone of a shard",
    change: (admin) => admin.command({ addShardToZone: "shard0000", zone: "bravo" }),
    reported: () => [["delete", "zones[bravo]"]],
  },
  {
    field: "a zone range that is missing",
    change: (admin) => range(admin, GAP, null),
    reported: () => [["create", `ranges[${toBsonText(GAP.min)}]`]],
  },
  {
    field: "the zone of a range",
    change: async (admin) => {
      await range(admin, GAP, null);
      await range(admin, GAP, "bravo");
    },
    reported: () => [["update", `ranges[${toBsonText(GAP.min)}].zone`]],
  },
  {
    field: "the bound of a range",
    change: async (admin) => {
      await range(admin, BRAVO, null);
      await range(admin, { min: BRAVO.min, max: AT("bravo", 5) }, "bravo");
    },
    reported: () => [["update", `ranges[${toBsonText(BRAVO.min)}].max`]],
  },
  {
    field: "a declared index",
    change: (admin) => admin.client.db("chat").collection("messages").dropIndex("sent_1"),
    reported: () => [["create", INDEX]],
  },
  {
    field: "an index's being hidden",
    change: (admin) => collMod(admin, { hidden: true }),
    reported: () => [["update", `${INDEX}.hidden`]],
  },
  {
    field: "when an index lets documents expire",
    change: (admin) => collMod(admin, { expireAfterSeconds: 60 }),
    reported: () => [["update", `${INDEX}.expireAfterSeconds`]],
  },
  {
    field: "an index that nobody declared",
    change: (admin) => admin.client.db("chat").collection("messages").createIndex({ by_hand: 1 }),
    reported: () => [["seen", 'indexes[{"by_hand":1}]']],
    undo: (admin) => admin.client.db("chat").collection("messages").dropIndex("by_hand_1"),
  },
  {
    field: "a collection's balancing",
    change: (admin) =>
      admin.client
        .db("config")
        .collection<{ _id: string }>("collections")
        .updateOne({ _id: "chat.messages" }, { $set: { noBalance: true } }),
    reported: () => [["update", "balancing"]],
  },
  {
    field: "the balancer's being on",
    change: (admin) => admin.command({ balancerStop: 1 }),
    reported: () => [["update", "enabled"]],
  },
  {
    field: "the balancer's window",
    change: (admin) =>
      admin.client
        .db("config")
        .collection<{ _id: string }>("settings")
        .updateOne(
          { _id: "balancer" },
          { $set: { activeWindow: { start: "01:00", stop: "02:00" } } },
          { upsert: true },
        ),
    reported: () => [["update", "activeWindow"]],
  },
  {
    field: "the default write concern",
    change: (admin) => admin.command({ setDefaultRWConcern: 1, defaultWriteConcern: { w: 1, wtimeout: 0 } }),
    reported: () => [["update", "writeConcern"]],
  },
  {
    field: "a user's role",
    change: (admin) => admin.command({ grantRolesToUser: "report", roles: [{ role: "readWrite", db: "chat" }] }),
    reported: () => [["delete", "roles[readWrite@chat]"]],
  },
  {
    field: "a user that is missing",
    change: (admin) => admin.command({ dropUser: "report" }),
    reported: () => [["create", ""]],
  },
];

/** Everything that is declared, one after another. */
async function applyAll(op: Operation, reference: ReferenceCluster): Promise<void> {
  const { spec, connection, memberCredential } = reference;
  const desired = desiredSnapshot(spec);
  for (const set of desired.replicaSets) {
    const declared = [spec.configServers, ...spec.shards.map((shard) => shard.replicaSet)].find(
      ({ name }) => name === set.name,
    );
    const homeHosts = (declared?.members ?? [])
      .filter(({ datacenter }) => datacenter === declared?.home)
      .flatMap(({ host }) => host ?? []);
    await applyReplicaSet(op, { desired: set, credential: memberCredential, homeHosts });
  }
  for (const shard of desired.shards) {
    const hosts =
      desired.replicaSets.find(({ name }) => name === shard.replicaSet)?.members.map(({ host }) => host) ?? [];
    await applyShard(op, connection, { desired: shard, hosts });
  }
  await applyBalancer(op, connection, desired.balancer);
  await applyDefaults(op, connection, desired.defaults);
  for (const collection of desired.collections) {
    await applyCollection(op, connection, collection, { previous: collection });
  }
  const report = desired.users.find(({ name }) => name === "report");
  if (report) await applyUser(op, connection, report, PASSWORD);
}

describe("drift of a live cluster", () => {
  let reference: ReferenceCluster;

  beforeAll(async () => {
    reference = await startReferenceCluster({
      collections: {
        "chat.messages": perDatacenter({ userid: 1 }, { indexes: [{ key: { sent: 1 }, expireAfterSeconds: 3600 }] }),
      },
      users: { others: [{ name: "report", roles: [{ role: "read", database: "chat" }] }] },
    });
    await using op = new TestOperation();
    await applyAll(op, reference);
  });
  afterAll(() => reference?.[Symbol.asyncDispose]());

  it("is none after everything was applied, and applying again says and changes nothing", async () => {
    await using op = new TestOperation();
    expect(await detectDrift(op, reference)).toEqual({ changes: [], unseen: [] });
    await applyAll(op, reference);
    expect(op.news).toEqual([]);
  });

  for (const { field, change, reported, undo } of CASES) {
    it(`${field}: is reported by its path, and repaired`, async () => {
      const admin = (await reference.cluster.connect()).db("admin");
      await change(admin, reference);
      await using op = new TestOperation();
      const { changes, unseen } = await detectDrift(op, reference);
      expect(unseen).toEqual([]);
      expect(changes.map(({ action, path }) => [action, path]).sort()).toEqual(reported(reference).toSorted());
      if (undo) await undo(admin);
      else await applyAll(op, reference);
      expect(await detectDrift(op, reference)).toEqual({ changes: [], unseen: [] });
    });
  }

  it("tells what it could not see apart from what is gone", async () => {
    await using op = new TestOperation();
    const { spec, connection } = reference;
    const wrong = { kind: "keyfile", keyfile: "another" } as const;
    const { changes, unseen } = await detectDrift(op, { spec, connection, memberCredential: wrong });
    expect(changes).toEqual([]);
    expect(unseen.map(({ path }) => path)).toEqual([
      "replicaSets[config]",
      "replicaSets[shard0000]",
      "replicaSets[shard0001]",
    ]);
    expect(JSON.stringify(unseen)).toMatch(/keyfile or password/i);
  });

  it("could not tell, in time, when the router is frozen", async () => {
    const { router } = reference.cluster;
    router.process.freeze();
    try {
      await using op = new TestOperation();
      const begin = performance.now();
      const { changes, unseen } = await detectDrift(op, reference);
      expect(changes).toEqual([]);
      expect(unseen.map(({ path }) => path)).toEqual([
        "balancer",
        "collections",
        "databases",
        "defaults",
        "shards",
        "users",
      ]);
      expect(performance.now() - begin).toBeLessThan(30_000);
    } finally {
      router.process.thaw();
    }
  });

  it("never shows a password, whatever goes wrong", async () => {
    await using op = new TestOperation();
    const credential = {
      kind: "scram",
      username: "report",
      password: "not-the-one-0815",
      authSource: "admin",
    } as const;
    const { changes, unseen } = await detectDrift(op, {
      ...reference,
      connection: { ...reference.connection, credential },
    });
    expect(unseen.length).toBeGreaterThan(0);
    expect(JSON.stringify([changes, unseen, op.news])).not.toContain("not-the-one-0815");
  });
});
