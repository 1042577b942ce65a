import { describe, expect, test } from "vitest";
import { defineCluster } from "../../../infra/model/define-cluster.ts";
import { withHosts } from "../../../infra/model/host.ts";
import { keyParts } from "../../../infra/model/key.ts";
import type { Change } from "../../../infra/plan/change.ts";
import { changeText } from "../../../infra/plan/change-text.ts";
import { desiredSnapshot } from "../../../infra/plan/desired.ts";
import { diffCollection, plain } from "../../../infra/plan/diff.ts";
import { topologyTable } from "../../../infra/plan/topology-table.ts";
import { reference } from "../../../stacks/reference.ts";

const change = (fields: Partial<Change>): Change => ({
  resource: { kind: "ReplicaSet", name: "shard0000" },
  action: "update",
  path: "",
  ...fields,
});

describe("a change as one line", () => {
  test.each<[Change, string]>([
    [
      change({ path: "members[127.0.0.1:1].priority", desired: 0, observed: 1 }),
      "~ replica set shard0000 members[127.0.0.1:1].priority: 1, should be 0",
    ],
    [
      change({ path: "members[a:1].tags.disk", desired: null, observed: "ssd" }),
      "~ replica set shard0000 members[a:1].tags.disk: ssd, should be not set",
    ],
    [change({ action: "create", resource: { kind: "Shard", name: "s" }, desired: {} }), "+ shard s: missing"],
    [
      change({ action: "delete", resource: { kind: "Shard", name: "s" }, path: "zones[x]", observed: "x" }),
      "- shard s zones[x]: there, should not be",
    ],
    [
      change({ action: "seen", resource: { kind: "User", name: "admin.eve" }, observed: {} }),
      "? user admin.eve: there, not declared (left alone)",
    ],
    [
      change({
        resource: { kind: "Balancer", name: "balancer" },
        path: "activeWindow",
        desired: null,
        observed: { start: "01:00", stop: "02:00" },
      }),
      '~ balancer activeWindow: {"start":"01:00","stop":"02:00"}, should be not set',
    ],
    [
      change({
        resource: { kind: "ShardedCollection", name: "a.b" },
        path: "key",
        desired: plain(keyParts({ a: 1, b: "hashed" })),
        observed: [],
      }),
      '~ collection a.b key: none, should be { a: 1, b: "hashed" }',
    ],
  ])("%o", (one, text) => {
    expect(changeText(one)).toBe(text);
  });

  test("a range is shown as in mongosh", () => {
    const state = { namespace: "a.b", key: keyParts({ x: 1 }), unique: false, indexes: [], balancing: true };
    const range = { zone: "z", min: '{"x":1}', max: '{"x":{"$maxKey":1}}' };
    expect(diffCollection({ ...state, ranges: [range] }, { ...state, ranges: [] }).map(changeText)).toEqual([
      "+ collection a.b ranges[{ x: 1 }]: missing (to { x: MaxKey }, zone z)",
    ]);
    expect(
      diffCollection({ ...state, ranges: [range] }, { ...state, ranges: [{ ...range, max: '{"x":5}' }] }).map(
        changeText,
      ),
    ).toEqual(["~ collection a.b ranges[{ x: 1 }].max: { x: 5 }, should be { x: MaxKey }"]);
  });
});

describe("the topology table", () => {
  const hosts = Object.fromEntries(
    [
      ...[reference.configServers, ...reference.shards.map((shard) => shard.replicaSet)].flatMap((set) => set.members),
      ...reference.routers,
    ].map(({ name }, index) => [name, `127.0.0.1:${27_100 + index}`]),
  );

  test("shows ports on loopback, states when known", () => {
    const table = topologyTable(withHosts(reference, hosts), { states: { "shard0000-alfa-0": "PRIMARY" } });
    expect(table.split("\n")).toEqual([
      "                        zones  alfa                    bravo",
      "----------------------  -----  ----------------------  --------------",
      "configReplSet (config)         :27100, :27101          :27102",
      "shard0000               alfa   :27103 PRIMARY, :27104  :27105 p0",
      "shard0001               bravo  :27108 p0               :27106, :27107",
      "mongos                         :27109                  :27110",
    ]);
  });

  test("shows labels, names without a place, hosts elsewhere, and what is special about a member", () => {
    const spec = defineCluster({
      name: "x",
      datacenters: [{ name: "a", label: "Frankfurt" }, "b"],
      shards: [
        {
          name: "one",
          home: "a",
          members: [
            { datacenter: "a", host: "db1.example.net:27017" },
            { datacenter: "a", votes: 0, hidden: true },
            { datacenter: "b" },
            { datacenter: "b", arbiterOnly: true },
          ],
        },
        { name: "two", home: "b" },
      ],
    });
    const table = topologyTable(spec);
    expect(table).toContain("Frankfurt");
    expect(table).toContain("db1.example.net:27017, one-a-1 p0 hidden no vote");
    expect(table).toContain("one-b-0 p0, one-b-1 arbiter");
  });
});

describe("the desired state", () => {
  test("needs a host for each member, and says whose is missing", () => {
    expect(() => desiredSnapshot(reference)).toThrow(/member config-alfa-0 has no host yet/);
  });
});
