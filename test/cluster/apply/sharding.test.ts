import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { applyBalancer, resetBalancer } from "../../../infra/cluster/apply/balancer.ts";
import { applyCollection } from "../../../infra/cluster/apply/collection.ts";
import { applyDatabase } from "../../../infra/cluster/apply/database.ts";
import { applyDefaults, resetDefaults } from "../../../infra/cluster/apply/defaults.ts";
import { applyShard, removeShard } from "../../../infra/cluster/apply/shard.ts";
import { applyUser, removeUser } from "../../../infra/cluster/apply/user.ts";
import { readPlacement } from "../../../infra/cluster/balance.ts";
import { observeBalancer } from "../../../infra/cluster/observe/balancer.ts";
import { observeCollections } from "../../../infra/cluster/observe/collections.ts";
import { observeDatabases } from "../../../infra/cluster/observe/databases.ts";
import { observeDefaults } from "../../../infra/cluster/observe/defaults.ts";
import { observeShards } from "../../../infra/cluster/observe/shards.ts";
import { observeUsers } from "../../../infra/cluster/observe/users.ts";
import type { Connection } from "../../../infra/model/connection.ts";
import {
  type CollectionDeclaration,
  defineCluster,
  perDatacenter,
  sharded,
  unique,
} from "../../../infra/model/index.ts";
import type { CollectionState } from "../../../infra/model/state.ts";
import { desiredCollection } from "../../../infra/plan/desired.ts";
import { diffCollection } from "../../../infra/plan/diff.ts";
import { shard } from "../../../infra/provider/resources/shard.ts";
import { shardedCollection } from "../../../infra/provider/resources/sharded-collection.ts";
import { ADMIN, type ShardedCluster, startShardedCluster } from "../../support/sharded-cluster.ts";
import { TestOperation } from "../reference-cluster.ts";

function declared(namespace: string, declaration: CollectionDeclaration): CollectionState {
  const spec = defineCluster({
    name: "x",
    datacenters: ["alfa", "bravo"],
    collections: { [namespace]: declaration },
  });
  const [collection] = spec.collections;
  if (!collection) throw new Error("the declaration has no collection");
  return desiredCollection(collection);
}

/** Stops as if the process were killed when the news of this number comes. */
class KilledOperation extends TestOperation {
  readonly #at: number;

  constructor(at: number) {
    super();
    this.#at = at;
  }

  override readonly progress = (text: string): void => {
    this.news.push(text);
    if (this.news.length === this.#at) throw new Error("killed");
  };
}

describe("a sharded cluster", () => {
  let cluster: ShardedCluster;
  let connection: Connection;
  const config = async () => (await cluster.connect()).db("config");
  const spare = () => {
    const shard = cluster.shards[2];
    if (!shard) throw new Error("the cluster has no spare shard");
    return shard;
  };

  beforeAll(async () => {
    cluster = await startShardedCluster({
      shards: [
        { name: "shard0000", zones: ["alfa"] },
        { name: "shard0001", zones: ["bravo"] },
        { name: "shard0002", spare: true },
      ],
      setParameters: { orphanCleanupDelaySecs: 1 },
    });
    const { username, password } = ADMIN;
    connection = {
      hosts: [cluster.router.address],
      credential: { kind: "scram", username, password, authSource: "admin" },
    };
  });
  afterAll(() => cluster?.[Symbol.asyncDispose]());

  describe("shards", () => {
    const request = (zones: string[]) => ({
      desired: { name: "shard0002", replicaSet: "shard0002", zones, draining: false },
      hosts: spare().members.map(({ address }) => address),
    });

    it("are added with their zones; again, nothing happens; zones follow", async () => {
      await using op = new TestOperation();
      expect(await applyShard(op, connection, request(["charlie"]))).toMatchObject({ zones: ["charlie"] });
      op.news.length = 0;
      await applyShard(op, connection, request(["charlie"]));
      expect(op.news).toEqual([]);
      expect(await applyShard(op, connection, request(["alfa"]))).toMatchObject({ zones: ["alfa"] });
    });

    it("are left alone when the name or the replica set is another's", async () => {
      await using op = new TestOperation();
      const { hosts, desired } = request(["alfa"]);
      await expect(applyShard(op, connection, { hosts, desired: { ...desired, name: "other" } })).rejects.toMatchObject(
        {
          message: expect.stringContaining("under the name shard0002"),
        },
      );
      await expect(
        applyShard(op, connection, { hosts, desired: { ...desired, replicaSet: "other" } }),
      ).rejects.toMatchObject({ message: expect.stringContaining("is the replica set shard0002, not other") });
    });

    it("are drained with progress and counts, databases move, and the rest stays", async () => {
      await using op = new TestOperation();
      await applyDatabase(op, connection, { name: "leaving", primaryShard: "shard0002" });
      const client = await cluster.connect();
      await client
        .db("leaving")
        .collection("plain")
        .insertMany(Array.from({ length: 100 }, (_, n) => ({ n })));
      await applyCollection(op, connection, declared("leaving.sharded", sharded({ n: 1 })));
      await client
        .db("leaving")
        .collection("sharded")
        .insertMany(Array.from({ length: 100 }, (_, n) => ({ n })));
      op.news.length = 0;
      await removeShard(op, connection, "shard0002");
      expect((await observeShards(op, connection)).map(({ name }) => name)).toEqual(["shard0000", "shard0001"]);
      expect(op.news.join("\n")).toMatch(/draining, 1 chunk left, databases to move: leaving/);
      expect(op.news.join("\n")).toMatch(/moving the database leaving to shard000/);
      expect(await client.db("leaving").collection("plain").countDocuments()).toBe(100);
      expect(await client.db("leaving").collection("sharded").countDocuments()).toBe(100);
      await removeShard(op, connection, "shard0002");
    });

    it("are never forced: a shard whose zone has ranges stays, and why is told", async () => {
      await using op = new TestOperation();
      await applyCollection(op, connection, declared("stay.home", perDatacenter({ n: 1 })));
      await expect(removeShard(op, connection, "shard0001", { stallMillis: 1_000 })).rejects.toMatchObject({
        next: expect.stringMatching(/zone/),
      });
      // Undo the draining that was begun, as the message says.
      await (await config())
        .collection<{ _id: string }>("shards")
        .updateOne({ _id: "shard0001" }, { $unset: { draining: "" } });
    });
  });

  describe("collections", () => {
    it("U1, M3: empty ones get their ranges first, so that every chunk is placed at creation", async () => {
      await using op = new TestOperation();
      const want = declared("chat.messages", perDatacenter({ userid: 1 }));
      await applyBalancer(op, connection, { enabled: false });
      const state = await applyCollection(op, connection, want);
      expect(diffCollection(want, state)).toEqual([]);
      expect((await readPlacement(op, connection, "chat.messages")).misplaced).toEqual([]);
      await applyBalancer(op, connection, { enabled: true });
    });

    it("converge after being killed at any step", async () => {
      const client = await cluster.connect();
      const want = (name: string) =>
        declared(`killed.${name}`, unique({ n: 1 }, { split: { at: [50] }, indexes: [{ key: { text: 1 } }] }));
      let steps = 0;
      for (let at = 1; ; at += 1) {
        const name = `c${at}`;
        await client
          .db("killed")
          .collection(name)
          .insertMany(Array.from({ length: 100 }, (_, n) => ({ n })));
        await using killed = new KilledOperation(at);
        const finished = await applyCollection(killed, connection, want(name)).then(
          () => true,
          (error: Error) => {
            expect(error.message).toMatch(/killed/);
            return false;
          },
        );
        if (finished) break;
        steps = at;
        await using op = new TestOperation();
        expect(diffCollection(want(name), await applyCollection(op, connection, want(name)))).toEqual([]);
        expect((await readPlacement(op, connection, `killed.${name}`)).misplaced).toEqual([]);
        expect(await client.db("killed").collection(name).countDocuments()).toBe(100);
      }
      expect(steps).toBeGreaterThan(3);
    }, 180_000);

    it("ranges of one collection change without touching those of another in the same zones", async () => {
      await using op = new TestOperation();
      await applyCollection(op, connection, declared("two.a", sharded({ n: 1 }, { split: { at: [10] } })));
      await applyCollection(op, connection, declared("two.b", sharded({ n: 1 }, { split: { at: [10] } })));
      const [before] = await observeCollections(op, connection, ["two.b"]);
      const moved = declared("two.a", sharded({ n: 1 }, { split: { at: [20] } }));
      expect(diffCollection(moved, await applyCollection(op, connection, moved))).toEqual([]);
      const none = declared("two.a", sharded({ n: 1 }));
      expect((await applyCollection(op, connection, none)).ranges).toEqual([]);
      expect((await observeCollections(op, connection, ["two.b"]))[0]).toEqual(before);
    });

    it("a shard key is refined in place, and any other change of it is refused and left alone", async () => {
      await using op = new TestOperation();
      await applyCollection(op, connection, declared("keys.a", sharded({ n: 1 })));
      const client = await cluster.connect();
      await client
        .db("keys")
        .collection("a")
        .insertMany([
          { n: 1, m: 1 },
          { n: 1, m: 2 },
        ]);
      const refined = declared("keys.a", sharded({ n: 1, m: 1 }));
      expect(
        diffCollection(refined, await applyCollection(op, connection, refined)).map(({ action }) => action),
      ).toEqual([
        // The index of the old key stays: nobody declared it, and dropping it is not ours to do.
        "seen",
      ]);
      await expect(applyCollection(op, connection, declared("keys.a", sharded({ other: 1 })))).rejects.toMatchObject({
        message: expect.stringContaining("is sharded on { n: 1, m: 1 }, not on { other: 1 }"),
        next: expect.stringContaining("reshardCollection"),
      });
      await expect(applyCollection(op, connection, declared("keys.a", { key: [] }))).rejects.toThrow(/keys\.a/);
      expect((await observeCollections(op, connection, ["keys.a"]))[0]?.key).toEqual(refined.key);
    });

    it("indexes are made and dropped only as managed", async () => {
      await using op = new TestOperation();
      const first = declared(
        "ix.a",
        sharded({ n: 1 }, { indexes: [{ key: { x: 1 } }, { key: { y: 1 }, unique: false }] }),
      );
      await applyCollection(op, connection, first);
      const client = await cluster.connect();
      const names = async () => (await client.db("ix").collection("a").indexes()).map(({ name }) => name).sort();
      await client.db("ix").collection("a").createIndex({ by_hand: 1 });
      const second = declared("ix.a", sharded({ n: 1 }, { indexes: [{ key: { y: 1 }, sparse: true }] }));
      // Made before by this declaration, so it may be made anew with other options.
      await applyCollection(op, connection, second, { previous: first });
      expect(await names()).toEqual(["_id_", "by_hand_1", "n_1", "y_1"]);
      // Nobody says that this one was ours.
      const third = declared("ix.a", sharded({ n: 1 }, { indexes: [{ key: { by_hand: 1 }, sparse: true }] }));
      await expect(applyCollection(op, connection, third, { previous: second })).rejects.toMatchObject({
        message: expect.stringContaining("by_hand_1"),
      });
      expect(await names()).toContain("by_hand_1");
    });

    it("a unique index that one shard cannot build fails every time, and does not count as there", async () => {
      await using op = new TestOperation();
      const plain = declared("ix.half", sharded({ n: 1 }, { split: { at: [50] } }));
      await applyCollection(op, connection, plain);
      const client = await cluster.connect();
      const documents = client.db("ix").collection("half");
      // The last two lie on the second shard; the first one is asked for the list of indexes.
      await documents.insertMany([
        { n: 1, m: 1 },
        { n: 60, m: 1 },
        { n: 60, m: 1 },
      ]);
      const want = declared(
        "ix.half",
        sharded({ n: 1 }, { split: { at: [50] }, indexes: [{ key: { n: 1, m: 1 }, unique: true }] }),
      );
      const attempt = () => applyCollection(op, connection, want, { previous: plain });
      await expect(attempt()).rejects.toThrow(/11000/);
      expect((await documents.indexes()).map(({ name }) => name)).toContain("n_1_m_1");
      const missing = [expect.objectContaining({ action: "create", path: 'indexes[{"n":1,"m":1}]' })];
      // So many that they are read from the catalog, and few.
      const many = Array.from({ length: 30 }, (_, n) => `ix.absent${n}`);
      for (const namespaces of [["ix.half"], ["ix.half", ...many]]) {
        const [seen] = await observeCollections(op, connection, namespaces);
        expect(diffCollection(want, seen)).toEqual(missing);
      }
      await expect(attempt()).rejects.toThrow(/11000/);
      await documents.deleteOne({ n: 60, m: 1 });
      expect(diffCollection(want, await attempt())).toEqual([]);
      const [seen] = await observeCollections(op, connection, ["ix.half", ...many]);
      expect(diffCollection(want, seen)).toEqual([]);
      await expect(documents.insertOne({ n: 60, m: 1 })).rejects.toMatchObject({ code: 11000 });
    });

    it("someone else's index on the same key stays", async () => {
      await using op = new TestOperation();
      const ours = (filter: Record<string, unknown>) =>
        declared("ix.shared", sharded({ n: 1 }, { indexes: [{ key: { x: 1 }, partialFilterExpression: filter }] }));
      const client = await cluster.connect();
      const documents = client.db("ix").collection("shared");
      await applyCollection(op, connection, declared("ix.shared", sharded({ n: 1 })));
      await documents.createIndex({ x: 1 }, { name: "theirs", partialFilterExpression: { theirs: true } });
      const first = ours({ ours: true });
      const names = async () => (await documents.indexes()).map(({ name }) => name).sort();
      expect(diffCollection(first, await applyCollection(op, connection, first)).map(({ action }) => action)).toEqual([
        "seen",
      ]);
      const second = ours({ ours: false });
      await applyCollection(op, connection, second, { previous: first });
      expect(await names()).toEqual(["_id_", "n_1", "theirs", "x_1"]);
      await applyCollection(op, connection, declared("ix.shared", sharded({ n: 1 })), { previous: second });
      expect(await names()).toEqual(["_id_", "n_1", "theirs"]);
    });

    it("an index stays until it is known that its successor can be built", async () => {
      await using op = new TestOperation();
      const want = (unique: boolean) =>
        declared("ix.successor", sharded({ n: 1 }, { indexes: [{ key: { n: 1, x: 1 }, unique }] }));
      await applyCollection(op, connection, want(false));
      const documents = (await cluster.connect()).db("ix").collection("successor");
      const index = async () => (await documents.indexes()).find(({ name }) => name === "n_1_x_1");
      const attempt = () => applyCollection(op, connection, want(true), { previous: want(false) });
      await documents.insertMany([
        { _id: 1 as never, n: 1, x: 7 },
        { _id: 2 as never, n: 1, x: 7 },
      ]);
      op.news.length = 0;
      await expect(attempt()).rejects.toThrow(/n: 1, x: 7(.|\n)*_id 1 and 2/);
      expect(op.news.join()).not.toMatch(/dropping/);
      expect(await index()).toMatchObject({ name: "n_1_x_1" });
      // Elements of lists are not compared beforehand: only the build finds these.
      await documents.updateOne({ _id: 1 as never }, { $set: { x: [1, 2] } });
      await documents.updateOne({ _id: 2 as never }, { $set: { x: [2, 3] } });
      await expect(attempt()).rejects.toThrow(/11000/);
      expect(op.news.join()).toMatch(/making the old index again/);
      expect(await index()).not.toMatchObject({ unique: true });
      await documents.deleteOne({ _id: 2 as never });
      await attempt();
      expect(await index()).toMatchObject({ unique: true });
    });

    it("the provider tells of what would surprise, and refuses to move all documents of a shard", async () => {
      await using base = new TestOperation();
      const warnings: string[] = [];
      const op = { ...base, signal: base.signal, warn: (text: string) => void warnings.push(text) };
      const inRanges = declared("warn.a", sharded({ n: 1 }, { split: { at: [50] } }));
      await applyCollection(op, connection, inRanges);
      const inputs = { ...declared("warn.a", sharded({ n: 1 })), connection, waitForBalance: true };
      expect(await shardedCollection.preflight?.(op, inputs)).toEqual([]);
      expect(warnings).toHaveLength(2);
      expect(warnings[0]).toMatch(/the range of the zone alfa from .* is not declared: it is removed/);
      const [one] = await observeShards(op, connection);
      if (!one) throw new Error("the cluster has no shard");
      const moved = { ...one, zones: ["bravo"], hosts: ["127.0.0.1:1"], connection };
      expect(await shard.preflight?.(op, moved)).toMatchObject([
        {
          message: expect.stringContaining("all its zoned documents would move"),
          fix: expect.stringContaining("list the shards with their names and homes"),
        },
      ]);
      expect(await shard.preflight?.(op, { ...moved, zones: ["alfa", "bravo"] })).toEqual([]);
    });

    it("every kind of index and key comes back as it was declared", async () => {
      await using op = new TestOperation();
      const want = declared(
        "kinds.a",
        sharded(
          { userid: "hashed" },
          {
            chunkSizeMiB: 32,
            indexes: [
              { key: { a: 1, b: -1 }, hidden: true },
              { key: { text: "text", title: "text" } },
              { key: { place: "2dsphere" } },
              { key: { "attributes.$**": 1 } },
              { key: { name: 1 }, collation: { locale: "en", strength: 2 } },
              { key: { sent: 1 }, expireAfterSeconds: 60 },
              { key: { open: 1 }, partialFilterExpression: { open: true } },
            ],
          },
        ),
      );
      expect(diffCollection(want, await applyCollection(op, connection, want))).toEqual([]);
      op.news.length = 0;
      await applyCollection(op, connection, want, { previous: want });
      expect(op.news).toEqual([]);
    });

    it("a collection without a shard key is made, and is seen when it is asked for", async () => {
      await using op = new TestOperation();
      const want = declared("plain.names", { key: [], indexes: [{ key: { email: 1 }, unique: true }] });
      expect(diffCollection(want, await applyCollection(op, connection, want))).toEqual([]);
      expect(await observeCollections(op, connection, ["plain.absent"])).toEqual([]);
    });
  });

  it("a database keeps its primary shard, and one that lives elsewhere is not moved behind anyone's back", async () => {
    await using op = new TestOperation();
    await applyDatabase(op, connection, { name: "there", primaryShard: "shard0001" });
    expect(await observeDatabases(op, connection)).toContainEqual({ name: "there", primaryShard: "shard0001" });
    await expect(applyDatabase(op, connection, { name: "there", primaryShard: "shard0000" })).rejects.toMatchObject({
      next: expect.stringContaining("movePrimary"),
    });
  });

  it("the balancer's settings are set, kept and reset", async () => {
    await using op = new TestOperation();
    const want = { enabled: false, activeWindow: { start: "23:00", stop: "05:00" }, chunkSizeMiB: 64 };
    expect(await applyBalancer(op, connection, want)).toEqual(want);
    op.news.length = 0;
    await applyBalancer(op, connection, want);
    expect(op.news).toEqual([]);
    await resetBalancer(op, connection);
    expect(await observeBalancer(op, connection)).toEqual({ enabled: true, activeWindow: null });
  });

  it("default concerns are set and reset", async () => {
    await using op = new TestOperation();
    const want = { readConcern: "majority", writeConcern: { w: 1, wtimeoutMillis: 500 } } as const;
    expect(await applyDefaults(op, connection, want)).toEqual(want);
    await resetDefaults(op, connection);
    expect(await observeDefaults(op, connection)).toMatchObject({ writeConcern: { w: "majority", wtimeoutMillis: 0 } });
  });

  it("users get roles and passwords, which are written only when they do not hold, and never shown", async () => {
    await using op = new TestOperation();
    const user = { name: "app", database: "admin", roles: [{ role: "readWrite", database: "chat" }] };
    await applyUser(op, connection, user, "the-first-password");
    const logIn = async (password: string) => {
      const client = await cluster.connect(cluster.router.uriOf({ username: "app", password }));
      await client.db("chat").collection("messages").findOne();
    };
    await logIn("the-first-password");
    op.news.length = 0;
    await applyUser(op, connection, user, "the-first-password");
    expect(op.news).toEqual([]);
    await applyUser(op, connection, { ...user, roles: [{ role: "read", database: "chat" }] }, "the-second-password");
    await logIn("the-second-password");
    await expect(logIn("the-first-password")).rejects.toMatchObject({ code: 18 });
    expect(op.news.join()).not.toMatch(/password-|the-(first|second)/);
    expect((await observeUsers(op, connection)).find(({ name }) => name === "app")?.roles).toEqual([
      { role: "read", database: "chat" },
    ]);
    await removeUser(op, connection, user);
    await removeUser(op, connection, user);
    expect((await observeUsers(op, connection)).map(({ name }) => name)).toEqual([ADMIN.username]);
  });
});
