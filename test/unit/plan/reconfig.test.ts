import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { memberProblems } from "../../../infra/model/replica-set-rules.ts";
import type { MemberState, ReplicaSetState } from "../../../infra/model/state.ts";
import { canonicalMember } from "../../../infra/plan/canonical.ts";
import { type ConfigMember, planReconfig, type ReconfigStep } from "../../../infra/plan/reconfig.ts";
import { replicaSet } from "../../support/arbitraries.ts";

// Hundreds of random cases: a second on an idle machine, far more on a busy one.
vi.setConfig({ testTimeout: 60_000 });

const isElectable = (member: MemberState) => member.priority > 0;
const majority = (members: readonly MemberState[]) =>
  Math.floor(members.filter((one) => one.votes === 1).length / 2) + 1;

/** The server's rules for one reconfig, said independently of the planner. */
function illegal(before: readonly ConfigMember[], step: ReconfigStep, used: Set<number>): string | undefined {
  const after = step.members;
  const voters = (members: readonly ConfigMember[]) =>
    new Set(members.filter((one) => one.votes === 1).map((one) => one._id));
  const [was, is] = [voters(before), voters(after)];
  const changed = was.symmetricDifference(is).size;
  if (changed > 1) return `${changed} voters change at once`;
  if (is.size > 7) return `${is.size} voters`;
  if (is.size === 0) return "no voter";
  if (after.length > 50) return `${after.length} members`;
  if (new Set(after.map((one) => one._id)).size !== after.length) return "two members with one _id";
  if (new Set(after.map((one) => one.host)).size !== after.length) return "two members with one host";
  for (const member of after) {
    const wrong = memberProblems(member, member.host)[0];
    if (wrong) return `${wrong.path}: ${wrong.message}`;
    const old = before.find((one) => one._id === member._id);
    if (old && old.host !== member.host) return `_id ${member._id} moves from ${old.host} to ${member.host}`;
    if (old && old.arbiterOnly !== member.arbiterOnly) return `${member.host} changes arbiterOnly`;
    if (!old && used.has(member._id)) return `_id ${member._id} is used again`;
    const twin = before.find((one) => one.host === member.host);
    if (twin && twin._id !== member._id) return `${member.host} gets a new _id`;
  }
  if (!after.some(isElectable)) return "no electable member";
  // Whoever is primary before the step must be able to stay so: the step names those who can.
  const able = after.filter(
    (one) => isElectable(one) && before.some((old) => old.host === one.host && isElectable(old)),
  );
  if (able.length === 0) return "no member can be primary before and after";
  if (JSON.stringify(step.primaryAmong.toSorted()) !== JSON.stringify(able.map((one) => one.host).toSorted())) {
    return `primaryAmong says ${step.primaryAmong}`;
  }
  return undefined;
}

function walk(
  observed: ReplicaSetState,
  desired: ReplicaSetState,
): { members: readonly ConfigMember[]; steps: readonly ReconfigStep[] } {
  let members: readonly ConfigMember[] = observed.members.map((member, index) => ({
    ...canonicalMember(member),
    _id: index * 3,
  }));
  const plan = planReconfig({
    observed: { version: 10, members, settings: observed.settings },
    desired,
    defaultWriteConcernSet: true,
  });
  const used = new Set(members.map((one) => one._id));
  expect(plan.problems).toEqual([]);
  const fresh = new Set<string>();
  for (const [index, step] of plan.steps.entries()) {
    expect(step.version).toBe(11 + index);
    const wrong = illegal(members, step, used);
    if (wrong) throw new Error(`step ${index}, ${step.why}: ${wrong}`);
    for (const member of step.members) {
      const old = members.find((one) => one.host === member.host);
      if (!old && !member.arbiterOnly) {
        fresh.add(member.host);
        expect(member.votes, `${member.host} joins without a vote`).toBe(0);
      }
      if (old?.votes === 0 && member.votes === 1 && fresh.has(member.host))
        expect(step.waitForSecondary).toContain(member.host);
      used.add(member._id);
    }
    members = step.members;
  }
  return { members, steps: plan.steps };
}

/** Same host, other arbiterOnly: refused by a rule of its own. */
const turnsArbiter = (a: ReplicaSetState, b: ReplicaSetState) =>
  a.members.some((one) => b.members.some((other) => other.host === one.host && other.arbiterOnly !== one.arbiterOnly));

describe("from any set to any other", () => {
  test("each step is legal and the last one is the goal", () => {
    let exchanges = 0;
    fc.assert(
      fc.property(replicaSet("s"), replicaSet("s"), (observed, desired) => {
        fc.pre(!turnsArbiter(observed, desired));
        const { members, steps } = walk(observed, desired);
        const byHost = (list: readonly MemberState[]) =>
          list.map(canonicalMember).toSorted((a, b) => (a.host < b.host ? -1 : 1));
        expect(byHost(members)).toEqual(byHost(desired.members));
        if (steps.length > 3) exchanges += 1;
        // Nothing left to do from there.
        expect(
          planReconfig({
            observed: { version: 1, members, settings: { ...observed.settings, ...desired.settings } },
            desired,
            defaultWriteConcernSet: true,
          }).steps,
        ).toEqual([]);
      }),
      { numRuns: 400 },
    );
    expect(exchanges, "long plans among them").toBeGreaterThan(50);
  });

  test("a set that keeps its voters keeps a majority of them at each step", () => {
    fc.assert(
      fc.property(replicaSet("s"), replicaSet("s"), (observed, desired) => {
        fc.pre(!turnsArbiter(observed, desired));
        let before: readonly MemberState[] = observed.members;
        for (const step of walk(observed, desired).steps) {
          // Those who voted before and still do are enough for a majority of the new config, or all but the one that joins.
          const stay = step.members.filter(
            (one) => one.votes === 1 && before.some((old) => old.host === one.host && old.votes === 1),
          );
          expect(stay.length).toBeGreaterThanOrEqual(
            Math.min(majority(step.members), step.members.filter((one) => one.votes === 1).length - 1),
          );
          before = step.members;
        }
      }),
      { numRuns: 150 },
    );
  });
});

const member = (host: string, fields: Partial<MemberState> = {}): MemberState => ({
  host: `${host}:27017`,
  priority: 1,
  votes: 1,
  hidden: false,
  arbiterOnly: false,
  secondaryDelaySecs: 0,
  tags: {},
  ...fields,
});
const setOf = (...members: MemberState[]): ReplicaSetState => ({ name: "s", role: "shard", members, settings: {} });
const config = (...members: MemberState[]) => ({ version: 5, members: members.map((one, _id) => ({ ...one, _id })) });
const plan = (
  observed: ReturnType<typeof config>,
  desired: ReplicaSetState,
  more: { down?: string[]; defaultWriteConcernSet?: boolean } = {},
) => planReconfig({ observed, desired, defaultWriteConcernSet: true, ...more });

describe("named cases", () => {
  test("priority and tags alone take one step", () => {
    const { steps } = plan(
      config(member("a"), member("b")),
      setOf(member("a", { priority: 2, tags: { dc: "x" } }), member("b")),
    );
    expect(steps).toHaveLength(1);
    expect(steps[0]?.members[0]).toMatchObject({ _id: 0, priority: 2, tags: { dc: "x" } });
  });

  test("votes, priority and hidden of a member move together", () => {
    const { steps } = plan(
      config(member("a"), member("b")),
      setOf(member("a"), member("b", { votes: 0, priority: 0, hidden: true })),
    );
    expect(steps.map((step) => step.members[1])).toEqual([
      expect.objectContaining({ votes: 0, priority: 0, hidden: true }),
    ]);
  });

  test("the primary hands over before it loses its priority", () => {
    const { steps } = plan(
      config(member("a"), member("b", { priority: 0 })),
      setOf(member("a", { priority: 0 }), member("b")),
    );
    expect(steps.map((step) => [step.members.map((one) => one.priority), step.primaryAmong])).toEqual([
      [[1, 1], ["a:27017"]],
      [[0, 1], ["b:27017"]],
    ]);
  });

  test("all seven voters are exchanged without an eighth", () => {
    const old = ["a", "b", "c", "d", "e", "f", "g"].map((name) => member(name));
    const fresh = ["h", "i", "j", "k", "l", "m", "n"].map((name) => member(name));
    const { steps } = plan(config(...old), setOf(...fresh));
    expect(Math.max(...steps.map((step) => step.members.filter((one) => one.votes === 1).length))).toBe(7);
    expect(steps.at(-1)?.members.map((one) => one.host)).toEqual(fresh.map((one) => one.host));
  });

  const rest = (fields: Partial<MemberState>) => ["b", "c", "d", "e", "f", "g"].map((name) => member(name, fields));

  test("the last electable of seven voters is exchanged while another lends its vote", () => {
    const stay = rest({ priority: 0 });
    const { steps } = plan(config(member("a"), ...stay), setOf(member("h"), ...stay));
    expect(steps.map((step) => step.why)).toEqual([
      "add h:27017 without a vote, to copy the data first",
      "take the vote of b:27017 for the time of the exchange",
      "give h:27017 its vote",
      "remove a:27017",
      "give b:27017 its vote",
    ]);
    for (const step of steps) expect(step.members.some(isElectable), step.why).toBe(true);
  });

  test("but not among arbiters, which cannot lend theirs", () => {
    const stay = rest({ priority: 0, arbiterOnly: true });
    const { steps, problems } = plan(config(member("a"), ...stay), setOf(member("h"), ...stay));
    expect(steps).toEqual([]);
    expect(problems).toMatchObject([{ fix: expect.stringContaining("two stages") }]);
  });

  test("the member that is down loses its vote first", () => {
    const { steps } = plan(config(member("a"), member("b"), member("c")), setOf(member("a")), { down: ["c:27017"] });
    expect(steps[0]?.why).toBe("remove c:27017");
  });

  test("a host without its port, or in capitals, is not taken for another member", () => {
    const observed = config(member("a"), { ...member("b"), host: "B:27017" });
    expect(plan(observed, setOf(member("a"), member("b"))).steps).toEqual([]);
  });

  test("an arbiter waits for the default write concern", () => {
    const desired = setOf(member("a"), member("b"), member("c", { arbiterOnly: true, priority: 0 }));
    const refused = plan(config(member("a"), member("b")), desired, { defaultWriteConcernSet: false });
    expect(refused.steps).toEqual([]);
    expect(refused.problems).toMatchObject([
      { path: "replica set s.members[c:27017]", message: expect.stringContaining("arbiter") },
    ]);
    expect(plan(config(member("a"), member("b")), desired).steps).toHaveLength(1);
  });

  test.each([
    ["no electable member", setOf(member("a", { priority: 0 })), /no member can become primary/],
    ["eight voters", setOf(..."abcdefgh".split("").map((name) => member(name))), /too many voters/],
    [
      "a member turned arbiter",
      setOf(member("b"), member("a", { arbiterOnly: true, priority: 0 })),
      /cannot turn into an arbiter/,
    ],
    ["priority without a vote", setOf(member("a"), member("b", { votes: 0 })), /without a vote/],
    ["a host twice", setOf(member("a"), member("A")), /appears twice/],
  ])("%s is refused before the first step", (_, desired, message) => {
    const { steps, problems } = plan(config(member("a"), member("b")), desired);
    expect(steps).toEqual([]);
    expect(problems.map((problem) => problem.message).join("\n")).toMatch(message);
  });

  test("a set in which nobody can be primary is beyond a reconfig", () => {
    const { problems } = plan(config(member("a", { priority: 0 })), setOf(member("a")));
    expect(problems).toMatchObject([{ fix: expect.stringContaining("forced reconfig") }]);
  });
});
