import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { applyReplicaSet } from "../../../infra/cluster/apply/replica-set.ts";
import { observeReplicaSet } from "../../../infra/cluster/observe/replica-set.ts";
import type { ReplicaSetState } from "../../../infra/model/state.ts";
import { diffReplicaSet } from "../../../infra/plan/diff.ts";
import { replicaSet } from "../../../infra/provider/resources/replica-set.ts";
import type { Mongod } from "../../support/mongod.ts";
import { TestOperation } from "../reference-cluster.ts";
import { type Members, memberState, startMembers } from "./members.ts";

function at(list: readonly Mongod[], index: number): Mongod {
  const member = list[index];
  if (!member) throw new Error(`there is no member ${index}`);
  return member;
}

describe("a replica set over two datacenters (M1)", () => {
  let members: Members;
  let desired: ReplicaSetState;
  const home = () => members.list.slice(0, 2).map((member) => member.address);
  const request = (state: ReplicaSetState) => ({ desired: state, credential: members.credential, homeHosts: home() });
  const address = () => ({
    name: "shard0000",
    role: "shard" as const,
    hosts: members.list.map((member) => member.address),
    credential: members.credential,
  });

  beforeAll(async () => {
    members = await startMembers(3, "shard0000");
    const [first, second, third] = [at(members.list, 0), at(members.list, 1), at(members.list, 2)];
    desired = {
      name: "shard0000",
      role: "shard",
      members: [
        memberState(first, { priority: 2, tags: { datacenter: "alfa" } }),
        memberState(second, { tags: { datacenter: "alfa" } }),
        memberState(third, { priority: 0, tags: { datacenter: "bravo" } }),
      ],
      settings: { chainingAllowed: true },
    };
  });

  afterAll(() => members?.[Symbol.asyncDispose]());

  it("is undefined before it is initiated", async () => {
    await using op = new TestOperation();
    expect(await observeReplicaSet(op, address())).toBeUndefined();
  });

  it("is initiated with its primary at home and every member healthy, well before an ordinary election", async () => {
    await using op = new TestOperation();
    const begin = performance.now();
    const state = await applyReplicaSet(op, request(desired));
    const millis = performance.now() - begin;
    expect(diffReplicaSet(desired, state)).toEqual([]);
    const hellos = await Promise.all(members.list.map((member) => member.admin({ hello: 1 })));
    expect(hellos.map((hello) => [hello.isWritablePrimary, hello.secondary])).toEqual([
      [true, false],
      [false, true],
      [false, true],
    ]);
    // Without being asked to stand, a member waits for the election timeout of ten seconds.
    expect(millis).toBeLessThan(9_000);
  });

  it("changes nothing when applied again", async () => {
    await using op = new TestOperation();
    const before = (await at(members.list, 0).admin({ replSetGetConfig: 1 })).config;
    await applyReplicaSet(op, request(desired));
    const after = (await at(members.list, 0).admin({ replSetGetConfig: 1 })).config;
    expect(after).toEqual(before);
    expect(op.news).toEqual([]);
  });

  it("repairs priority, tags and settings that a hand has changed", async () => {
    await using op = new TestOperation();
    const { config } = await at(members.list, 0).admin({ replSetGetConfig: 1 });
    config.members[1].priority = 0;
    config.members[2].tags = { datacenter: "charlie" };
    config.settings.chainingAllowed = false;
    config.version += 1;
    await at(members.list, 0).admin({ replSetReconfig: config });
    const drifted = await observeReplicaSet(op, address());
    expect(
      diffReplicaSet(desired, drifted)
        .map(({ path }) => path)
        .sort(),
    ).toEqual(
      [
        `members[${at(members.list, 1).address}].priority`,
        `members[${at(members.list, 2).address}].tags.datacenter`,
        "settings.chainingAllowed",
      ].sort(),
    );
    expect(diffReplicaSet(desired, await applyReplicaSet(op, request(desired)))).toEqual([]);
  });

  it("moves a primary that sits elsewhere home again", async () => {
    await using op = new TestOperation();
    await at(members.list, 1).admin({ replSetStepUp: 1 });
    await at(members.list, 1).inState("primary");
    await applyReplicaSet(op, request(desired));
    expect((await at(members.list, 0).admin({ hello: 1 })).isWritablePrimary).toBe(true);
  });

  it("adds a member, and exchanges a voter, one voting change per reconfig", async () => {
    await using op = new TestOperation();
    const [fresh] = await members.add(1, "shard0000");
    if (!fresh) throw new Error("no member was started");
    const exchanged = {
      ...desired,
      members: [...desired.members.slice(0, 2), memberState(fresh, { priority: 0, tags: { datacenter: "bravo" } })],
    };
    const state = await applyReplicaSet(op, request(exchanged));
    expect(diffReplicaSet(exchanged, state)).toEqual([]);
    expect(op.news.filter((line) => line.includes("reconfig")).length).toBeGreaterThan(1);
    await fresh.inState("secondary");
    desired = exchanged;
  });

  it("does not wait for a member in maintenance without end", async () => {
    await using op = new TestOperation();
    const second = at(members.list, 1);
    await second.admin({ replSetMaintenance: true });
    try {
      await expect(applyReplicaSet(op, { ...request(desired), stallMillis: 4_000 })).rejects.toMatchObject({
        message: expect.stringMatching(/is RECOVERING, \d+ s behind and has come no closer to the primary for \d+ s/),
        where: second.address,
        next: expect.stringContaining("replSetMaintenance: false"),
      });
    } finally {
      await second.admin({ replSetMaintenance: false });
    }
    await second.inState("secondary");
  });

  it("leaves a set of another name, and members of another set, alone", async () => {
    await using op = new TestOperation();
    await expect(applyReplicaSet(op, request({ ...desired, name: "shard0009" }))).rejects.toMatchObject({
      message: expect.stringContaining("belongs to the replica set shard0000, not to shard0009"),
      next: expect.stringContaining("empty data folder"),
    });
    await using others = await startMembers(1, "shard0000");
    const stranger = at(others.list, 0);
    await stranger.admin({ replSetInitiate: { _id: "shard0000", members: [{ _id: 0, host: stranger.address }] } });
    await stranger.inState("primary");
    await using foreign = new TestOperation();
    // The stranger has a key of its own, so it is asked with it, and the set's members are not.
    await expect(
      applyReplicaSet(foreign, {
        desired: { ...desired, name: "shard0001", members: [memberState(stranger)] },
        credential: others.credential,
        homeHosts: [stranger.address],
      }),
    ).rejects.toMatchObject({ where: stranger.address });
  });

  it("names the member that does not answer", async () => {
    await using op = new TestOperation();
    const missing = memberState(at(members.list, 0), { host: "127.0.0.1:23999", priority: 0 });
    await using fresh = await startMembers(1, "fresh");
    const first = memberState(at(fresh.list, 0));
    await expect(
      applyReplicaSet(op, {
        desired: { name: "fresh", role: "shard", members: [first, missing], settings: {} },
        credential: fresh.credential,
        homeHosts: [first.host],
      }),
    ).rejects.toMatchObject({ message: expect.stringContaining("127.0.0.1:23999"), next: expect.any(String) });
  });
});

describe("a replica set whose hosts are all exchanged at once", () => {
  let members: Members;
  const state = (list: readonly Mongod[]): ReplicaSetState => ({
    name: "moving",
    role: "shard",
    members: list.map((member, index) => memberState(member, { priority: 2 - index })),
    settings: {},
  });
  const request = (list: readonly Mongod[], known?: readonly Mongod[]) => ({
    desired: state(list),
    credential: members.credential,
    homeHosts: list.map(({ address }) => address),
    knownHosts: known?.map(({ address }) => address),
  });
  const identity = async (member: Mongod) =>
    String((await member.admin({ replSetGetConfig: 1 })).config.settings.replicaSetId);

  beforeAll(async () => {
    members = await startMembers(2, "moving");
    await using op = new TestOperation();
    await applyReplicaSet(op, request(members.list.slice()));
    const client = await op.connections.member(at(members.list, 0).address, members.credential);
    await client
      .db("kept")
      .collection<{ _id: number }>("it")
      .insertOne({ _id: 1 }, { writeConcern: { w: 2 } });
  });

  afterAll(() => members?.[Symbol.asyncDispose]());

  it("moves its data to the new ones and lets the old ones go last", async () => {
    const old = members.list.slice();
    const fresh = await members.add(2, "moving");
    const before = await identity(at(old, 0));
    await using op = new TestOperation();
    const seen = await applyReplicaSet(op, request(fresh, old));
    expect(diffReplicaSet(state(fresh), seen)).toEqual([]);
    expect(await identity(at(fresh, 0))).toBe(before);
    const client = await op.connections.member(at(fresh, 0).address, members.credential);
    expect(await client.db("kept").collection("it").find().toArray()).toEqual([{ _id: 1 }]);
  });

  it("is not started anew, empty, when none of the old ones answers", async () => {
    const old = members.list.slice(2);
    await Promise.all(old.map((member) => member.kill()));
    const fresh = await members.add(1, "moving");
    await using op = new TestOperation();
    const declared = (list: readonly Mongod[]) => ({ ...state(list), ...request(list), reachable: true });
    const operation = { connections: op.connections, progress: () => {}, warn: () => {}, signal: op.signal };
    // By the resource: what it recorded last is where the data is.
    await expect(replicaSet.converge(operation, declared(fresh), declared(old))).rejects.toMatchObject({
      message: expect.stringContaining("no new, empty set of that name is initiated beside their data"),
      where: old.map(({ address }) => address).join(","),
      next: expect.stringContaining("start the members so far again"),
    });
    await expect(at(fresh, 0).admin({ replSetGetStatus: 1 })).rejects.toMatchObject({ code: 94 });
  });
});
