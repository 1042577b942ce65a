import { describe, expect, test } from "vitest";
import type { ClusterDeclaration } from "../../../infra/model/declaration.ts";
import { defineCluster, perDatacenter, sharded, unique } from "../../../infra/model/define-cluster.ts";
import { remarks } from "../../../infra/plan/remarks.ts";
import { type SurvivabilityRow, survivability } from "../../../infra/plan/survivability.ts";
import { scenarioText, survivabilityReasons, survivabilityTable } from "../../../infra/plan/survivability-table.ts";
import { reference } from "../../../stacks/reference.ts";

const row = (rows: readonly SurvivabilityRow[], title: string): SurvivabilityRow => {
  const found = rows.find(({ scenario }) => scenarioText(scenario) === title);
  if (!found) throw new Error(`no row ${title} among ${rows.map(({ scenario }) => scenarioText(scenario)).join("; ")}`);
  return found;
};
const zones = (one: SurvivabilityRow) =>
  Object.fromEntries(one.zones.map(({ zone, write, read }) => [zone, `${write} ${read}`]));
const sets = (one: SurvivabilityRow) =>
  Object.fromEntries(one.replicaSets.map(({ name, elects, acknowledges }) => [name, [elects, acknowledges]]));

describe("the reference deployment, as measured on a real cluster", () => {
  const rows = survivability(reference);

  test("alfa lost: bravo's data is written, alfa's is read, metadata cannot change but is read", () => {
    const lost = row(rows, "alfa lost");
    expect(zones(lost)).toEqual({ alfa: "no yes", bravo: "yes yes" });
    expect(lost.metadata).toMatchObject({ write: false, read: true });
    expect(lost.routers).toEqual(["mongos-bravo"]);
    expect(lost.replicaSets.find(({ name }) => name === "shard0001")?.primaryIn).toEqual(["bravo"]);
  });

  test("bravo lost: alfa's data is written, metadata can change", () => {
    const lost = row(rows, "bravo lost");
    expect(zones(lost)).toEqual({ alfa: "yes yes", bravo: "no yes" });
    expect(lost.metadata).toMatchObject({ write: true, read: true });
  });

  test("cut off from each other: each side writes its own, only alfa's changes metadata", () => {
    expect(zones(row(rows, "alfa | bravo cut, from alfa"))).toEqual({ alfa: "yes yes", bravo: "no yes" });
    expect(zones(row(rows, "alfa | bravo cut, from bravo"))).toEqual({ alfa: "no yes", bravo: "yes yes" });
    expect(row(rows, "alfa | bravo cut, from alfa").metadata.write).toBe(true);
    expect(row(rows, "alfa | bravo cut, from bravo").metadata.write).toBe(false);
  });

  test("half of the users can be registered whatever is lost", () => {
    for (const one of rows) {
      expect(one.collections.map(({ namespace, write, read }) => [namespace, write, read])).toEqual([
        ["chat.messages", "partly", "yes"],
        ["chat.users", "partly", "yes"],
      ]);
    }
  });

  test("as a table and its reasons", () => {
    expect(survivabilityTable(rows).split("\n").slice(0, 4)).toEqual([
      "when                          zone alfa  zone bravo  chat.messages  chat.users  metadata  routers",
      "----------------------------  ---------  ----------  -------------  ----------  --------  ------------",
      "alfa lost                     read       write       partly         partly      read      mongos-bravo",
      "bravo lost                    write      read        partly         partly      write     mongos-alfa",
    ]);
    expect(survivabilityReasons(rows)).toContain(
      "alfa lost: config servers: 1 vote of 3 left, 2 needed to elect a primary; can be read with nearest",
    );
  });

  test("it has nothing to remark", () => {
    expect(remarks(reference)).toEqual([]);
  });
});

const members = (...list: string[]) =>
  list.map((text) => {
    const [datacenter = "", kind] = text.split(":");
    return {
      datacenter,
      ...(kind === "arbiter" ? { arbiterOnly: true } : {}),
      ...(kind === "0" ? { priority: 0 } : {}),
      ...(kind === "late" ? { secondaryDelaySecs: 600 } : {}),
      ...(kind === "up" ? { priority: 1 } : {}),
    };
  });
const witness = { name: "w", witness: true };

describe("electing and acknowledging are two majorities", () => {
  const cluster = (...list: string[]): ClusterDeclaration => ({
    name: "x",
    datacenters: ["a", "b", witness],
    shards: [
      { name: "one", home: "a", members: members(...list) },
      { name: "two", home: "b" },
    ],
  });

  test("2 + 2 + arbiter: a primary is elected, majority writes stall", () => {
    const spec = defineCluster(cluster("a", "a", "b:up", "b:up", "w:arbiter"));
    const lost = row(survivability(spec), "a lost");
    expect(sets(lost).one).toEqual([true, false]);
    const outlook = lost.replicaSets.find(({ name }) => name === "one");
    expect(outlook).toMatchObject({ writable: false, readable: true });
    expect(outlook?.reason).toBe(
      "a primary is elected (3 of 5 votes), but only 2 members with data can acknowledge where 3 must",
    );
    expect(remarks(spec).map(({ path, message }) => [path, message])).toContainEqual([
      "shards[0].members",
      expect.stringContaining("when a is lost, one has a primary that cannot acknowledge majority writes"),
    ]);
  });

  test("1 + 1 + arbiter: two must acknowledge and one is left", () => {
    // Three voters, majority two, two with data: both must acknowledge.
    expect(sets(row(survivability(defineCluster(cluster("a", "b:up", "w:arbiter"))), "b lost")).one).toEqual([
      true,
      false,
    ]);
  });

  test("1 + two arbiters: the one with data is all that can acknowledge, and is enough", () => {
    const rows = survivability(defineCluster(cluster("a", "b:arbiter", "w:arbiter")));
    expect(sets(row(rows, "b lost")).one).toEqual([true, true]);
    expect(sets(row(rows, "a lost")).one).toEqual([false, false]);
  });

  test("2 + 2 + 1 with data: survives any one", () => {
    const rows = survivability(defineCluster(cluster("a", "a", "b:up", "b:up", "w:0")));
    for (const name of ["a", "b", "w"]) expect(sets(row(rows, `${name} lost`)).one).toEqual([true, true]);
  });

  test("votes enough but only members with priority 0: no primary", () => {
    const lost = row(survivability(defineCluster(cluster("a", "a", "b:0", "b:0", "w:0"))), "a lost");
    expect(sets(lost).one).toEqual([false, false]);
    expect(lost.replicaSets.find(({ name }) => name === "one")?.reason).toContain("priority 0");
  });

  test("a delayed member acknowledges late, and that is said", () => {
    const lost = row(survivability(defineCluster(cluster("a", "a:late", "b"))), "b lost");
    expect(lost.replicaSets.find(({ name }) => name === "one")?.reason).toContain("after the delay");
  });

  test("an arbiter alone cannot be read", () => {
    const lost = row(survivability(defineCluster(cluster("a", "a", "w:arbiter"))), "a lost");
    expect(lost.replicaSets.find(({ name }) => name === "one")).toMatchObject({ readable: false, elects: false });
    expect(zones(lost).a).toBe("no no");
  });
});

describe("more datacenters", () => {
  test("three: config servers survive any loss; three cuts with two sides each", () => {
    const rows = survivability(defineCluster({ name: "x", datacenters: ["a", "b", "c"] }));
    expect(rows.map(({ scenario }) => scenarioText(scenario))).toEqual([
      "a lost",
      "b lost",
      "c lost",
      "a | b+c cut, from a",
      "a | b+c cut, from b+c",
      "a+b | c cut, from a+b",
      "a+b | c cut, from c",
      "a+c | b cut, from a+c",
      "a+c | b cut, from b",
    ]);
    for (const name of ["a", "b", "c"]) expect(row(rows, `${name} lost`).metadata.write).toBe(true);
    expect(row(rows, "a+b | c cut, from c").metadata.write).toBe(false);
  });

  test("six: each cut off alone", () => {
    const rows = survivability(defineCluster({ name: "x", datacenters: ["a", "b", "c", "d", "e", "f"] }));
    expect(rows).toHaveLength(6 + 12);
  });

  test("one: everything goes with it", () => {
    const spec = defineCluster({ name: "x", datacenters: ["a"] });
    const [lost, ...others] = survivability(spec);
    expect(others).toEqual([]);
    expect(zones(lost as SurvivabilityRow)).toEqual({ a: "no no" });
    expect(remarks(spec)).toMatchObject([{ path: "datacenters" }]);
  });
});

describe("collections", () => {
  const spec = defineCluster({
    name: "x",
    datacenters: ["a", "b"],
    databases: { d: { primaryShard: "shard0000" }, e: {} },
    collections: {
      "d.zoned": perDatacenter({ u: 1 }),
      "d.home": sharded({ u: 1 }, { ranges: [{ zone: "a", min: { u: 1 }, max: { u: 2 } }] }),
      "d.anywhere": unique({ u: 1 }),
      "d.proxy": sharded([], { indexes: [{ key: { email: 1 }, unique: true }] }),
      "e.proxy": sharded([]),
    },
  });
  test.each([
    ["a lost", ["partly", "no", "partly", "no", "partly"]],
    ["b lost", ["partly", "yes", "partly", "yes", "partly"]],
  ])("%s", (title, writes) => {
    expect(row(survivability(spec), title).collections.map(({ write }) => write)).toEqual(writes);
  });
  test("one without zones is remarked", () => {
    expect(remarks(spec).map(({ path }) => path)).toEqual(['collections["d.anywhere"]']);
  });
});

test("remarks: a datacenter without mongos, a home that needs the other datacenter, bounds of a strange type", () => {
  const spec = defineCluster({
    name: "x",
    datacenters: ["a", "b"],
    routers: [{ name: "r", datacenter: "a" }],
    shards: [
      { name: "one", home: "a", members: members("a", "b", "b") },
      { name: "two", home: "b" },
    ],
    collections: {
      "d.c": sharded({ at: 1 }, { split: { at: [5, new Date(0), new Date(1)], zones: ["a", "b", "a", "b"] } }),
    },
  });
  expect(remarks(spec).map(({ path, message }) => `${path}: ${message}`)).toEqual([
    "routers: b has no mongos",
    expect.stringMatching(/^shards\[0\].members: when b is lost, one cannot be written although its home is a/),
    expect.stringMatching(/ranges: the bound \{ at: 5 \} has a number in at where the other bounds have a date/),
  ]);
});
