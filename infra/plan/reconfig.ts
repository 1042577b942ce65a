/**
 * From the members that a replica set has to those that it should have, in steps that are each a legal reconfig.
 *
 * The server allows one voting member to be added, removed or changed per reconfig, at most seven voters, and no config
 * in which the node that carries out the reconfig cannot be primary. A set also keeps an electable member and a
 * majority of voters with data at every step, so that it takes writes all the way.
 */
import { normaliseHost } from "../model/host.ts";
import type { Problem } from "../model/problem.ts";
import { isElectable, MAX_MEMBERS, MAX_VOTERS, memberProblems } from "../model/replica-set-rules.ts";
import type { HostPort, MemberState, ReplicaSetSettings, ReplicaSetState } from "../model/state.ts";
import { canonicalMember } from "./canonical.ts";

/** A member as `replSetGetConfig` shows it. */
export interface ConfigMember extends MemberState {
  readonly _id: number;
}

/** The part of a replica set config that the planner needs. */
export interface ObservedConfig {
  readonly version: number;
  readonly members: readonly ConfigMember[];
  readonly settings?: ReplicaSetSettings | undefined;
}

/** One `replSetReconfig`. Put `members` and `settings` into the config that is in force, and leave the rest of it alone. */
export interface ReconfigStep {
  /** The config's new version. */
  readonly version: number;
  readonly members: readonly ConfigMember[];
  /** Settings to set; those that are not named keep their value. */
  readonly settings: ReplicaSetSettings;
  /** What the step does, for people. */
  readonly why: string;
  /** Before the step: these members must be SECONDARY (or PRIMARY) and have caught up, or their vote would weaken the set. */
  readonly waitForSecondary: readonly HostPort[];
  /** Before the step: the primary must be one of these, else it steps down first; no other can carry out the step. */
  readonly primaryAmong: readonly HostPort[];
}

export interface ReconfigPlan {
  readonly steps: readonly ReconfigStep[];
  /** Why there is no plan; then `steps` is empty. */
  readonly problems: readonly Problem[];
}

const MAX_MEMBER_ID = 255;

/**
 * Plans the reconfigs that lead from `observed` to `desired`. No difference: no step.
 * @param options.down Hosts known to be unreachable: they are not waited for, and are the first to lose their vote.
 * @param options.defaultWriteConcernSet Whether a cluster-wide default write concern is set: an arbiter is refused without.
 */
export function planReconfig(options: {
  readonly observed: ObservedConfig;
  readonly desired: ReplicaSetState;
  readonly defaultWriteConcernSet: boolean;
  readonly down?: readonly HostPort[] | undefined;
}): ReconfigPlan {
  const { observed, desired } = options;
  const goal = desired.members.map(canonicalMember);
  const start = observed.members.map((member): ConfigMember => ({ ...canonicalMember(member), _id: member._id }));
  const problems = goalProblems(goal, start, options);
  if (problems.length > 0) return { steps: [], problems };
  return new Planner(start, goal, options).plan();
}

function goalProblems(
  goal: readonly MemberState[],
  start: readonly ConfigMember[],
  { desired, defaultWriteConcernSet }: { desired: ReplicaSetState; defaultWriteConcernSet: boolean },
): Problem[] {
  const path = `replica set ${desired.name}`;
  const problems = goal.flatMap((member) => memberProblems(member, `${path}.members[${member.host}]`));
  const add = (message: string, rule: string, fix: string, where = path) =>
    problems.push({ path: where, message, rule, fix });
  for (const [index, member] of goal.entries()) {
    if (goal.findIndex((other) => other.host === member.host) !== index) {
      add(`the host ${member.host} appears twice`, "members are known by their host", "remove one of them");
    }
  }
  if (!goal.some(isElectable)) {
    add(
      "no member can become primary",
      "a set without an electable member takes no writes",
      "give a member priority 1",
    );
  }
  if (goal.filter((member) => member.votes === 1).length > MAX_VOTERS) {
    add("too many voters", `at most ${MAX_VOTERS} members vote`, "set votes: 0 and priority: 0 for the others");
  }
  if (goal.length > MAX_MEMBERS) {
    add(`${goal.length} members`, `a replica set has at most ${MAX_MEMBERS}`, "remove some");
  }
  if (!start.some(isElectable)) {
    add(
      "no present member can be primary, so none can carry out a reconfig",
      "a reconfig is carried out by the primary",
      "repair the set by hand with a forced reconfig, then apply again",
    );
  }
  const byHost = new Map(start.map((member) => [member.host, member]));
  for (const member of goal) {
    const now = byHost.get(member.host);
    if (now && now.arbiterOnly !== member.arbiterOnly) {
      add(
        `${member.host} cannot turn ${member.arbiterOnly ? "into" : "from"} an arbiter`,
        "the server keeps arbiterOnly for the life of a member, and an arbiter's data folder is of no use to a member with data",
        "remove the member, apply, then add one with an empty data folder under another port",
        `${path}.members[${member.host}].arbiterOnly`,
      );
    }
    if (!now && member.arbiterOnly && !defaultWriteConcernSet) {
      add(
        `the arbiter ${member.host} would be refused`,
        "a set with an arbiter may have w: 1 as its own default, so the server wants the cluster's default write concern set first",
        "set a default write concern, for example majority",
        `${path}.members[${member.host}]`,
      );
    }
  }
  return problems;
}

const voters = (members: readonly MemberState[]) => members.filter((member) => member.votes === 1);
const hosts = (members: readonly MemberState[]) => members.map((member) => member.host);
const FIELDS = ["priority", "votes", "hidden", "arbiterOnly", "secondaryDelaySecs"] as const;

function sameMember(a: MemberState, b: MemberState): boolean {
  return FIELDS.every((field) => a[field] === b[field]) && JSON.stringify(a.tags) === JSON.stringify(b.tags);
}

class Planner {
  #members: readonly ConfigMember[];
  readonly #goal: readonly MemberState[];
  readonly #goalByHost: ReadonlyMap<HostPort, MemberState>;
  readonly #down: ReadonlySet<HostPort>;
  readonly #settings: ReplicaSetSettings;
  readonly #usedIds: Set<number>;
  /** Members that have joined but not yet been waited for. */
  readonly #joined = new Set<HostPort>();
  readonly #steps: ReconfigStep[] = [];
  #version: number;

  constructor(
    start: readonly ConfigMember[],
    goal: readonly MemberState[],
    { observed, desired, down = [] }: Parameters<typeof planReconfig>[0],
  ) {
    this.#members = start;
    this.#goal = goal;
    this.#goalByHost = new Map(goal.map((member) => [member.host, member]));
    this.#down = new Set(down.map(normaliseHost));
    this.#usedIds = new Set(start.map((member) => member._id));
    this.#version = observed.version;
    this.#settings = Object.fromEntries(
      Object.entries(desired.settings).filter(
        ([name, value]) => value !== undefined && observed.settings?.[name as keyof ReplicaSetSettings] !== value,
      ),
    );
  }

  plan(): ReconfigPlan {
    const full = this.#join();
    if (full) return { steps: [], problems: [full] };
    this.#raise();
    const stuck = this.#moveVotes();
    if (stuck) return { steps: [], problems: [stuck] };
    this.#finish();
    return { steps: this.#steps, problems: [] };
  }

  #step(members: readonly ConfigMember[], why: string, settings: ReplicaSetSettings = {}): void {
    const promoted = members.filter((member) => {
      const before = this.#members.find((other) => other.host === member.host);
      return this.#joined.has(member.host) && before && before.votes === 0 && member.votes === 1;
    });
    this.#version += 1;
    this.#steps.push({
      version: this.#version,
      members,
      settings,
      why,
      waitForSecondary: hosts(promoted),
      // The primary before the step can only be one that is electable before it, and must be so after it.
      primaryAmong: hosts(members.filter((member) => isElectable(member) && this.#electableNow(member.host))),
    });
    this.#members = members;
  }

  #electableNow(host: HostPort): boolean {
    return this.#members.some((member) => member.host === host && isElectable(member));
  }

  /** Never one that is or was in use: the server tells members apart by it, and a member that comes back must not be taken for another. */
  #nextId(): number {
    let id = Math.max(-1, ...this.#usedIds) + 1;
    if (id > MAX_MEMBER_ID)
      id = Array.from({ length: MAX_MEMBER_ID + 1 }, (_, n) => n).find((n) => !this.#usedIds.has(n)) ?? id;
    this.#usedIds.add(id);
    return id;
  }

  /** New members with data come in without a vote, all at once: while they copy the data they weaken no majority. */
  #join(): Problem | undefined {
    const missing = this.#goal.filter(
      (member) => !member.arbiterOnly && !this.#members.some((other) => other.host === member.host),
    );
    if (missing.length === 0) return undefined;
    // Room for the new ones: members without a vote that go anyway go now.
    const keep =
      this.#members.length + missing.length > MAX_MEMBERS
        ? this.#members.filter((member) => member.votes === 1 || this.#goalByHost.has(member.host))
        : this.#members;
    if (keep.length + missing.length > MAX_MEMBERS) {
      return {
        path: "members",
        message: `${missing.length} new members beside ${keep.length} would be more than ${MAX_MEMBERS}`,
        rule: "new members copy the data before old ones go",
        fix: "apply in two stages, with fewer new members in the first",
      };
    }
    const added = missing.map((member): ConfigMember => ({ ...member, _id: this.#nextId(), votes: 0, priority: 0 }));
    for (const { host } of added) this.#joined.add(host);
    this.#step([...keep, ...added], `add ${hosts(added).join(", ")} without a vote, to copy the data first`);
    return undefined;
  }

  /** Before anyone loses it, those that keep their vote get their priority, so that a primary is there to hand over to. */
  #raise(): void {
    const raised = this.#members.filter((member) => {
      const goal = this.#goalByHost.get(member.host);
      return goal && member.votes === 1 && goal.votes === 1 && !isElectable(member) && isElectable(goal);
    });
    if (raised.length === 0) return;
    this.#step(
      this.#members.map((member) => (raised.includes(member) ? this.#asGoal(member) : member)),
      `make ${hosts(raised).join(", ")} electable`,
    );
  }

  #asGoal(member: ConfigMember): ConfigMember {
    const goal = this.#goalByHost.get(member.host);
    return goal ? { ...goal, _id: member._id } : member;
  }

  /** One vote at a time, giving before taking; with all seven seats taken, taking before giving. */
  #moveVotes(): Problem | undefined {
    for (;;) {
      const give = this.#nextVoter();
      const take = this.#nextToLose();
      if (!give && !take) return undefined;
      if (give && voters(this.#members).length < MAX_VOTERS) {
        give();
      } else if (take) {
        take();
      } else if (!this.#lend()) {
        return {
          path: "members",
          message: "the last electable member cannot be exchanged: all seven votes are taken, the others by arbiters",
          rule: "a set keeps an electable member at every step, and an arbiter cannot do without its vote",
          fix: "apply in two stages: first without one of the arbiters, then with all",
        };
      }
    }
  }

  /**
   * All seats are taken, and the only member that is to lose its vote is the last one that can be primary. One that
   * stays lends its vote until the new one has come in.
   */
  #lend(): boolean {
    const lender = this.#members.find((member) => member.votes === 1 && !member.arbiterOnly && !isElectable(member));
    if (!lender) return false;
    this.#step(
      this.#members.map((member) => (member === lender ? { ...member, votes: 0, priority: 0 } : member)),
      `take the vote of ${lender.host} for the time of the exchange`,
    );
    return true;
  }

  /** Electable members first: they are what a set needs most; arbiters last. */
  #nextVoter(): (() => void) | undefined {
    const promotable = this.#members
      .filter((member) => member.votes === 0 && this.#goalByHost.get(member.host)?.votes === 1)
      .sort((a, b) => Number(this.#down.has(a.host)) - Number(this.#down.has(b.host)) || this.#rank(b) - this.#rank(a));
    const [member] = promotable;
    if (member) {
      return () =>
        this.#step(
          this.#members.map((other) => (other === member ? this.#asGoal(other) : other)),
          `give ${member.host} its vote`,
        );
    }
    const arbiter = this.#goal.find(
      (goal) => goal.arbiterOnly && !this.#members.some((other) => other.host === goal.host),
    );
    if (!arbiter) return undefined;
    return () => this.#step([...this.#members, { ...arbiter, _id: this.#nextId() }], `add the arbiter ${arbiter.host}`);
  }

  #rank(member: MemberState): number {
    return this.#goalByHost.get(member.host)?.priority ?? 0;
  }

  /** Those that are down first, then arbiters, then those that cannot be primary; never the last electable one. */
  #nextToLose(): (() => void) | undefined {
    const electable = this.#members.filter(isElectable);
    const losing = this.#members
      .filter((member) => member.votes === 1 && this.#goalByHost.get(member.host)?.votes !== 1)
      .filter((member) => !(isElectable(member) && electable.length === 1));
    const order = (member: ConfigMember) => [
      this.#down.has(member.host) ? 0 : 1,
      member.arbiterOnly ? 0 : 1,
      isElectable(member) ? 1 : 0,
    ];
    const [member] = losing.sort((a, b) => {
      const [x, y] = [order(a), order(b)];
      return x.map((value, i) => value - (y[i] ?? 0)).find((difference) => difference !== 0) ?? 0;
    });
    if (!member) return undefined;
    const goal = this.#goalByHost.get(member.host);
    return goal
      ? () =>
          this.#step(
            this.#members.map((other) => (other === member ? this.#asGoal(other) : other)),
            `take the vote of ${member.host}`,
          )
      : () =>
          this.#step(
            this.#members.filter((other) => other !== member),
            `remove ${member.host}`,
          );
  }

  /** All that touches no vote, in one step. */
  #finish(): void {
    const gone = this.#members.filter((member) => !this.#goalByHost.has(member.host));
    const changed = this.#members.filter((member) => {
      const goal = this.#goalByHost.get(member.host);
      return goal && !sameMember(member, goal);
    });
    const settings = Object.keys(this.#settings);
    if (gone.length + changed.length + settings.length === 0) return;
    this.#step(
      this.#members.filter((member) => !gone.includes(member)).map((member) => this.#asGoal(member)),
      [
        gone.length > 0 && `remove ${hosts(gone).join(", ")}`,
        changed.length > 0 && `set priority, tags and the like of ${hosts(changed).join(", ")}`,
        settings.length > 0 && `set ${settings.join(", ")}`,
      ]
        .filter(Boolean)
        .join("; "),
      this.#settings,
    );
  }
}
