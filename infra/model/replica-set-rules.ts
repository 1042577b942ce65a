/** What the server and a cluster over several datacenters demand of a replica set. */
import type { Problem } from "./problem.ts";
import type { MemberSpec, ReplicaSetSpec } from "./spec.ts";

/** The server's limits. */
export const MAX_MEMBERS = 50;
export const MAX_VOTERS = 7;
export const MAX_PRIORITY = 1000;
const MAX_DELAY_SECONDS = 366 * 24 * 3600;

/** The part of a member that the rules look at: declared and observed members both have it. */
export type MemberRuleInput = Pick<
  MemberSpec,
  "priority" | "votes" | "hidden" | "arbiterOnly" | "secondaryDelaySecs" | "tags"
>;

/** Whether a member can become primary. */
export function isElectable(member: Pick<MemberSpec, "priority" | "arbiterOnly">): boolean {
  return member.priority > 0 && !member.arbiterOnly;
}

/** Contradictions within one member, each with the field that it lies in. */
export function memberProblems(member: MemberRuleInput, path: string): Problem[] {
  const problems: Problem[] = [];
  const add = (field: string, message: string, rule: string, fix: string) =>
    problems.push({ path: `${path}.${field}`, message, rule, fix });
  const { priority, votes, hidden, arbiterOnly, secondaryDelaySecs, tags } = member;
  if (!(priority >= 0 && priority <= MAX_PRIORITY)) {
    add("priority", `${priority} is out of range`, `a priority is 0 to ${MAX_PRIORITY}`, "use 0, or 1 and up");
  } else if (arbiterOnly && priority > 0) {
    // The server turns the default 1 into 0 by itself, so declaring 1 would show up as drift for ever.
    add("priority", `an arbiter cannot have priority ${priority}`, "an arbiter has priority 0", "leave priority out");
  } else if (priority > 0 && votes === 0 && !arbiterOnly) {
    add(
      "priority",
      `priority ${priority} without a vote`,
      "a member without a vote has priority 0",
      "set priority: 0, or votes: 1",
    );
  } else if (priority > 0 && hidden) {
    add(
      "priority",
      `priority ${priority} on a hidden member`,
      "a hidden member has priority 0",
      "set priority: 0, or hidden: false",
    );
  } else if (priority > 0 && secondaryDelaySecs > 0) {
    add(
      "priority",
      `priority ${priority} on a delayed member`,
      "a delayed member has priority 0",
      "set priority: 0, or no delay",
    );
  }
  if (arbiterOnly && votes === 0) {
    add(
      "votes",
      "an arbiter without a vote",
      "an arbiter does nothing but vote",
      "set votes: 1, or remove the arbiter",
    );
  }
  if (arbiterOnly && Object.keys(tags).length > 0) {
    add(
      "tags",
      "an arbiter with tags",
      "the server refuses tags on arbiters",
      "remove the tags; its datacenter is known without",
    );
  }
  if (arbiterOnly && hidden) {
    add("hidden", "a hidden arbiter", "an arbiter serves no reads that could be hidden", "remove hidden");
  }
  if (arbiterOnly && secondaryDelaySecs > 0) {
    add(
      "secondaryDelaySecs",
      "a delayed arbiter",
      "an arbiter holds no data that could be delayed",
      "remove the delay",
    );
  }
  if (secondaryDelaySecs > MAX_DELAY_SECONDS) {
    add(
      "secondaryDelaySecs",
      `${secondaryDelaySecs} is out of range`,
      "a delay is at most a year",
      "use fewer seconds",
    );
  }
  return problems;
}

/** What is wrong with the members of one set taken together. `path` is that of the set. */
export function replicaSetProblems(set: ReplicaSetSpec, path: string): Problem[] {
  const members = `${path}.members`;
  const problems = set.members.flatMap((member, index) => memberProblems(member, `${members}[${index}]`));
  const add = (where: string, message: string, rule: string, fix: string) =>
    problems.push({ path: where, message, rule, fix });
  const voters = set.members.filter((member) => member.votes === 1);
  if (set.members.length === 0) {
    add(members, "no member", "a replica set has at least one member", "list the members, or leave the list out");
    return problems;
  }
  if (set.members.length > MAX_MEMBERS) {
    add(members, `${set.members.length} members`, `a replica set has at most ${MAX_MEMBERS}`, "remove some");
  }
  if (voters.length > MAX_VOTERS) {
    add(
      members,
      `${voters.length} voting members`,
      `at most ${MAX_VOTERS} members vote`,
      "set votes: 0 and priority: 0 for the others",
    );
  } else if (voters.length % 2 === 0) {
    add(
      members,
      `${voters.length} voting members`,
      "with an even number of votes a cut through the middle leaves neither side a majority",
      voters.length === 0 ? "give members a vote" : "add a voting member, or set votes: 0 and priority: 0 for one",
    );
  }
  const electable = set.members.filter(isElectable);
  if (electable.length === 0) {
    add(
      members,
      "no member can become primary",
      "a set without an electable member takes no writes",
      "give a member priority 1 and a vote",
    );
  } else if (!electable.some((member) => member.datacenter === set.home)) {
    add(
      members,
      `no member in ${set.home} can become primary`,
      `the primary of ${set.name} belongs in its home datacenter`,
      `give a member in ${set.home} priority 1 and a vote`,
    );
  } else {
    const highest = (home: boolean) =>
      Math.max(
        0,
        ...electable.filter((member) => (member.datacenter === set.home) === home).map(({ priority }) => priority),
      );
    if (highest(false) > highest(true)) {
      add(
        members,
        `the highest priority, ${highest(false)}, is not in the home datacenter ${set.home}`,
        "the member with the highest priority becomes primary, and the primary belongs at home",
        `give a member in ${set.home} a priority above ${highest(false)}`,
      );
    }
  }
  if (set.role === "config") {
    for (const [index, member] of set.members.entries()) {
      if (member.arbiterOnly) {
        add(
          `${members}[${index}].arbiterOnly`,
          "an arbiter among the config servers",
          "the server refuses arbiters and delayed members in the config server set",
          "make it an ordinary member",
        );
      }
      if (member.secondaryDelaySecs > 0) {
        add(
          `${members}[${index}].secondaryDelaySecs`,
          "a delayed config server",
          "the server refuses arbiters and delayed members in the config server set",
          "remove the delay",
        );
      }
    }
  }
  return problems;
}
