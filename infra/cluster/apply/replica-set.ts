import type { Document, MongoClient } from "mongodb";
import type { Credential } from "../../model/connection.ts";
import { normaliseHost } from "../../model/host.ts";
import { AlfabravoError, formatProblems } from "../../model/problem.ts";
import type { HostPort, MemberState, ReplicaSetState } from "../../model/state.ts";
import { type ConfigMember, planReconfig, type ReconfigStep } from "../../plan/reconfig.ts";
import type { Operation } from "../context.ts";
import { asAlfabravoError, Code, codeOf, describeError, hasCode } from "../errors.ts";
import { admin } from "../metadata.ts";
import {
  NoConfigError,
  type ReplicaSetAddress,
  readReplicaSetConfig,
  replicaSetFromConfig,
} from "../observe/replica-set.ts";
import { waitFor } from "../wait.ts";

/** How long an election, a reconfig or the return of a member may take, in milliseconds. */
const SETTLE_MILLIS = 60_000;
/** An election of a set that was just initiated is over in a few of these, in milliseconds. */
const POLL_MILLIS = 15;
/** News about a member that copies its data comes at most this often, in milliseconds. */
const NEWS_MILLIS = 5_000;
/** A primary without work writes into its oplog every 10 s, so a member that has caught up is never further behind, in milliseconds. */
const IDLE_LAG_MILLIS = 20_000;

export interface ReplicaSetRequest {
  readonly desired: ReplicaSetState;
  readonly credential: Credential;
  /** The members among which the primary belongs. */
  readonly homeHosts: readonly string[];
  readonly tlsCaFile?: string | undefined;
  /** The hosts of its members when it was last applied: where its data is, also when all of them are exchanged now. */
  readonly knownHosts?: readonly string[] | undefined;
  /** Milliseconds in which a member that recovers has to come closer to the primary; a minute by default. */
  readonly stallMillis?: number | undefined;
}

/**
 * Makes a replica set what is desired: initiates it when none of its members, those known from before among them,
 * belongs to one, else carries out the planned reconfigs one by one. Then waits for a writable primary at home and for
 * every member to be healthy.
 *
 * @returns the configuration as read back
 * @throws AlfabravoError when a member belongs to another set, when there is no legal way, when the set does not settle,
 *   or when only new members answer for a set that was there before: nothing is initiated then
 */
export async function applyReplicaSet(op: Operation, request: ReplicaSetRequest): Promise<ReplicaSetState> {
  const set = new ReplicaSetControl(op, request);
  try {
    const config = await set.presentConfig();
    if (config) await set.reconfigure(config);
    else await set.initiate();
    await set.primaryAtHome();
    await set.allHealthy();
    const settled = await readReplicaSetConfig(op, set.address);
    if (!settled) throw new AlfabravoError(`the replica set ${set.address.name} has lost its configuration`);
    return replicaSetFromConfig(settled);
  } catch (error) {
    throw asAlfabravoError(error, `apply the replica set ${set.address.name}`, set.address.hosts.join(","));
  }
}

class ReplicaSetControl {
  readonly address: ReplicaSetAddress;
  readonly #op: Operation;
  readonly #desired: ReplicaSetState;
  readonly #home: ReadonlySet<HostPort>;
  readonly #knownHosts: readonly HostPort[];
  readonly #stallMillis: number;

  constructor(op: Operation, request: ReplicaSetRequest) {
    const { desired, credential, homeHosts, tlsCaFile, knownHosts = [], stallMillis = SETTLE_MILLIS } = request;
    this.#op = op;
    this.#knownHosts = knownHosts.map(normaliseHost);
    this.#stallMillis = stallMillis;
    this.#desired = desired;
    this.#home = new Set(homeHosts.map(normaliseHost));
    this.address = {
      name: desired.name,
      role: desired.role,
      hosts: desired.members.map(({ host }) => normaliseHost(host)),
      credential,
      tlsCaFile,
    };
  }

  #member(host: HostPort): Promise<MongoClient> {
    return this.#op.connections.member(host, this.address.credential, this.address.tlsCaFile);
  }

  /** Electable members at home, the one that the set prefers first. */
  #candidates(members: readonly MemberState[] = this.#desired.members): HostPort[] {
    const electable = members.filter((member) => member.priority > 0 && !member.arbiterOnly);
    const home = electable.filter(({ host }) => this.#home.has(normaliseHost(host)));
    return (home.length > 0 ? home : electable)
      .toSorted((a, b) => b.priority - a.priority)
      .map(({ host }) => normaliseHost(host));
  }

  /**
   * The configuration in force, from the members that are desired and those that were there before: when all hosts are
   * exchanged, only the old ones know it.
   *
   * @returns undefined when all of them answer that they belong to no replica set
   * @throws AlfabravoError when none shows one and one of them does not answer: it may hold the data
   */
  async presentConfig(): Promise<Document | undefined> {
    const hosts = [...new Set([...this.address.hosts, ...this.#knownHosts])];
    try {
      return await readReplicaSetConfig(this.#op, { ...this.address, hosts }, { everyMember: true });
    } catch (error) {
      const silent = this.#knownHosts.filter((host) => !this.address.hosts.includes(host));
      if (!(error instanceof NoConfigError) || silent.length === 0) throw error;
      throw new AlfabravoError(
        `${error.message}. Its members so far are ${this.#knownHosts.join(", ")}; no new, empty set of that name is initiated beside their data`,
        {
          where: silent.join(","),
          next: `start the members so far again (${silent.join(", ")}), then run again: the new ones join them, copy the data, and the old ones leave last`,
          cause: error,
        },
      );
    }
  }

  async initiate(): Promise<void> {
    const { name, role, members, settings } = this.#desired;
    const [first] = this.#candidates();
    if (first === undefined) {
      throw new AlfabravoError(`the replica set ${name} has no member that can become primary`, {
        where: name,
        next: "give a member in its home datacenter a priority above 0",
      });
    }
    this.#op.progress(`${name}: initiating with ${members.length} members`);
    const config = {
      _id: name,
      version: 1,
      ...(role === "config" ? { configsvr: true } : {}),
      members: members.map((member, index) => memberDocument({ ...member, _id: index })),
      settings: definedOnly(settings),
    };
    try {
      await admin(await this.#member(first), { replSetInitiate: config });
    } catch (error) {
      // Someone else, or an earlier attempt that was killed, came first: what counts is what stands there now.
      if (!hasCode(error, Code.AlreadyInitialized)) throw initiationError(error, name, first);
    }
    await this.primaryAtHome();
    await this.#startReplication(first);
  }

  /**
   * A new secondary that finds no sync source looks again only a second later. Telling it the primary once saves that
   * second. It must have finished its initial sync: told earlier, it starts that anew.
   */
  async #startReplication(primary: HostPort): Promise<void> {
    await Promise.all(
      this.#desired.members.map(async (member) => {
        const host = normaliseHost(member.host);
        if (host === primary || member.arbiterOnly) return;
        const client = await this.#member(host);
        await waitFor(
          `${host} to finish its first copy`,
          async () => {
            const hello = await admin(client, { hello: 1 });
            return hello.secondary === true || hello.isWritablePrimary === true
              ? { done: true, value: undefined }
              : { done: false, seen: hello };
          },
          { ...this.#waiting(describeHello), intervalMillis: POLL_MILLIS },
        );
        // Only a hint: refused when the member already follows someone, or has become primary.
        await admin(client, { replSetSyncFrom: primary }).catch((error: unknown) => {
          if (codeOf(error) === undefined) throw error;
        });
      }),
    );
  }

  #waiting<Seen>(describe: (seen: Seen) => string) {
    return { deadlineMillis: SETTLE_MILLIS, intervalMillis: 50, signal: this.#op.signal, describe };
  }

  async #hellos(hosts: readonly HostPort[] = this.address.hosts): Promise<Map<HostPort, Document | string>> {
    const answers = await Promise.all(
      hosts.map(async (host): Promise<[HostPort, Document | string]> => {
        try {
          return [host, await admin(await this.#member(host), { hello: 1 })];
        } catch (error) {
          return [host, error instanceof AlfabravoError ? error.message : describeError(error)];
        }
      }),
    );
    return new Map(answers);
  }

  /**
   * Waits for a writable primary among the best candidates, asking one to stand for election: without being asked, a
   * set that was just initiated waits for the election timeout of ten seconds.
   *
   * @returns the primary
   */
  async primaryAtHome(among: readonly HostPort[] = this.#candidates()): Promise<HostPort> {
    const priority = new Map(this.#desired.members.map((member) => [normaliseHost(member.host), member.priority]));
    return waitFor(
      `a writable primary of ${this.address.name} at ${among.join(" or ")}`,
      async () => {
        const [preferred, ...others] = among;
        // The best candidate alone tells in the ordinary case; the others are asked when it is not the primary.
        const first = preferred === undefined ? new Map() : await this.#hellos([preferred]);
        const hello = preferred === undefined ? undefined : first.get(preferred);
        if (preferred !== undefined && isPrimary(hello)) return { done: true, value: preferred };
        const rest = await this.#hellos(others);
        const reachable = [...first, ...rest].filter(([, answer]) => typeof answer !== "string");
        const best = reachable[0]?.[0];
        const primary = reachable.find(([, answer]) => isPrimary(answer))?.[0];
        if (primary !== undefined && best !== undefined && (priority.get(primary) ?? 0) >= (priority.get(best) ?? 0)) {
          return { done: true, value: primary };
        }
        let refusal = "";
        if (best !== undefined) {
          refusal = await admin(await this.#member(best), { replSetStepUp: 1 }).then(
            () => "",
            (error: unknown) => {
              // It may lag, or the others may not know the configuration yet; network errors are not to be hidden.
              if (codeOf(error) === undefined) throw error;
              return describeError(error);
            },
          );
        }
        const states = [...first, ...rest].map(([host, answer]) => `${host} ${describeAnswer(answer)}`).join(", ");
        return { done: false, seen: refusal === "" ? states : `${states}; ${best} does not stand: ${refusal}` };
      },
      {
        ...this.#waiting((seen: string) => seen),
        intervalMillis: POLL_MILLIS,
        next: "start the members of the home datacenter and look at their logs, then run again",
      },
    );
  }

  /**
   * Waits until every member answers as primary, secondary or arbiter. One that copies its data, or catches up, is waited
   * for as long as it does.
   *
   * @throws AlfabravoError when one does not answer in time, or recovers and comes no closer
   */
  async allHealthy(hosts: readonly HostPort[] = this.address.hosts): Promise<void> {
    await Promise.all(
      hosts.map(async (host) => {
        const recovery = new Recovery();
        let news = performance.now();
        for (;;) {
          const working = await waitFor(
            `${host} of ${this.address.name} to be healthy`,
            async () => {
              const hello = await admin(await this.#member(host), { hello: 1 });
              if (isPrimary(hello) || hello.secondary === true || hello.arbiterOnly === true) {
                return { done: true, value: false };
              }
              return performance.now() - news > NEWS_MILLIS && hello.setName === this.address.name
                ? { done: true, value: true }
                : { done: false, seen: hello };
            },
            {
              ...this.#waiting(describeHello),
              next: `start ${host}, or look at its log; then run again`,
            },
          );
          if (!working) return;
          news = performance.now();
          const status = await admin(await this.#member(host), { replSetGetStatus: 1 });
          const seen = recovery.look(status);
          if (recovery.stalledMillis > this.#stallMillis) {
            throw new AlfabravoError(
              `${host} of ${this.address.name} is ${seen} and has come no closer to the primary for ${Math.round(recovery.stalledMillis / 1000)} s`,
              {
                where: host,
                next: `look at its log; when it is too stale to catch up, stop it, empty its data folder and start it again: it copies the data anew. When a hand has put it into maintenance, end that with replSetMaintenance: false. Then run again`,
              },
            );
          }
          this.#op.progress(`${this.address.name}: ${host} ${seen}`);
        }
      }),
    );
  }

  /** Carries out the plan step by step; each is read back before the next. */
  async reconfigure(config: Document): Promise<void> {
    // A set without a primary can take no configuration at all.
    const present = replicaSetFromConfig(config);
    const electable = this.#candidates(present.members);
    const answers = await this.#hellos([...new Set([...this.address.hosts, ...present.members.map((m) => m.host)])]);
    const down = [...answers].filter(([, answer]) => typeof answer === "string").map(([host]) => host);
    const plan = planReconfig({
      observed: {
        version: Number(config.version),
        members: (config.members as Document[]).map((member, index): ConfigMember => {
          const state = present.members[index];
          if (!state) throw new Error("The members of one document have changed their number: a fault of this code.");
          return { ...state, _id: Number(member._id) };
        }),
        settings: present.settings,
      },
      desired: this.#desired,
      defaultWriteConcernSet:
        this.#desired.members.some((m) => m.arbiterOnly) && (await this.#defaultWriteConcernSet()),
      down,
    });
    if (plan.problems.length > 0) {
      throw new AlfabravoError(
        `the replica set ${this.address.name} cannot become what is declared:\n${formatProblems(plan.problems)}`,
        { where: this.address.name, next: "correct the declaration as the list says, then run again" },
      );
    }
    for (const [index, step] of plan.steps.entries()) {
      this.#op.signal.throwIfAborted();
      this.#op.progress(`${this.address.name}: reconfig ${index + 1} of ${plan.steps.length}: ${step.why}`);
      await this.#carryOut(step, electable, new Set(down));
    }
  }

  async #carryOut(step: ReconfigStep, electable: readonly HostPort[], down: ReadonlySet<HostPort>): Promise<void> {
    const primary = await this.#primaryFor(step, electable);
    const client = await this.#member(primary);
    const { config } = await admin(client, { replSetGetConfig: 1 });
    const before = new Map((config.members as Document[]).map((member) => [Number(member._id), member]));
    // A vote for a member that has not copied its data yet would weaken the majority, also when an earlier run was killed in between.
    const promoted = step.members.filter(
      (member) => member.votes === 1 && !member.arbiterOnly && Number(before.get(member._id)?.votes ?? 1) === 0,
    );
    await this.allHealthy(
      [...new Set([...step.waitForSecondary, ...promoted.map(({ host }) => normaliseHost(host))])].filter(
        (host) => !down.has(host),
      ),
    );
    const next = {
      ...config,
      version: Number(config.version) + 1,
      members: step.members.map((member) => ({ ...before.get(member._id), ...memberDocument(member) })),
      settings: { ...config.settings, ...definedOnly(step.settings) },
    };
    await waitFor(
      `${primary} to accept the configuration of ${this.address.name}`,
      async () => {
        await admin(client, { replSetReconfig: next, maxTimeMS: SETTLE_MILLIS / 2 });
        return { done: true, value: undefined };
      },
      {
        ...this.#waiting(() => "no answer"),
        // The one before it has not reached a majority yet, or another change is under way.
        fatal: (error) => !hasCode(error, Code.ConfigurationInProgress, Code.CurrentConfigNotCommittedYet),
      },
    );
    const back = await admin(client, { replSetGetConfig: 1 });
    if (Number(back.config.version) < next.version) {
      throw new AlfabravoError(`${primary} shows version ${back.config.version} after accepting ${next.version}`, {
        where: primary,
        next: "another program changes the same replica set: stop it, then run again",
      });
    }
  }

  /** The primary, when it may carry out the step; else one that may, after an election. */
  async #primaryFor(step: ReconfigStep, electable: readonly HostPort[]): Promise<HostPort> {
    const hellos = await this.#hellos([...new Set([...electable, ...step.primaryAmong.map(normaliseHost)])]);
    const primary = [...hellos].find(([, answer]) => isPrimary(answer))?.[0];
    if (primary !== undefined && step.primaryAmong.map(normaliseHost).includes(primary)) return primary;
    return this.primaryAtHome(step.primaryAmong.map(normaliseHost));
  }

  async #defaultWriteConcernSet(): Promise<boolean> {
    const primary = await this.primaryAtHome();
    const answer = await admin(await this.#member(primary), { getDefaultRWConcern: 1 });
    return answer.defaultWriteConcernSource === "global";
  }
}

/** Whether a member that is neither primary nor secondary gets anywhere, by its own `replSetGetStatus`. */
class Recovery {
  #optime = 0;
  #leastLag = Number.POSITIVE_INFINITY;
  #progress = performance.now();

  get stalledMillis(): number {
    return performance.now() - this.#progress;
  }

  /** @returns what the member does, for people */
  look(status: Document): string {
    const members = (status.members ?? []) as Document[];
    const self = members.find((member) => member.self === true);
    const state = String(self?.stateStr ?? "not yet sure of its state");
    const optime = millisOf(self?.optimeDate);
    const lag = Math.max(0, ...members.map((member) => millisOf(member.optimeDate))) - optime;
    // The server bounds and repeats these by itself, and ends when it gives up.
    const copies = state === "STARTUP2";
    // A member that is not to take part still follows: without a distance to make up, what it applies is no progress.
    const catchesUp = optime > this.#optime && (lag > IDLE_LAG_MILLIS || lag < this.#leastLag);
    if (copies || state === "ROLLBACK" || catchesUp) this.#progress = performance.now();
    this.#optime = optime;
    this.#leastLag = Math.min(this.#leastLag, lag);
    return copies ? "copies its data" : `${state}, ${Math.round(lag / 1000)} s behind`;
  }
}

function millisOf(date: unknown): number {
  return date instanceof Date ? date.getTime() : 0;
}

function isPrimary(answer: Document | string | undefined): boolean {
  return typeof answer === "object" && answer.isWritablePrimary === true;
}

function describeAnswer(answer: Document | string): string {
  return typeof answer === "string" ? `does not answer (${answer})` : `is ${describeHello(answer)}`;
}

function describeHello(hello: Document): string {
  if (hello.isWritablePrimary === true) return "primary";
  if (hello.secondary === true) return "secondary";
  if (hello.arbiterOnly === true) return "arbiter";
  return hello.setName === undefined ? "not in a replica set yet" : "starting up or copying data";
}

function memberDocument(member: ConfigMember): Document {
  const { _id, host, priority, votes, hidden, arbiterOnly, secondaryDelaySecs, tags } = member;
  return { _id, host, priority, votes, hidden, arbiterOnly, secondaryDelaySecs, tags };
}

function definedOnly(settings: ReplicaSetState["settings"]): Document {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}

function initiationError(error: unknown, name: string, host: HostPort): Error {
  return asAlfabravoError(error, `initiate the replica set ${name}`, host, (cause) =>
    hasCode(cause, Code.NodeNotFound)
      ? "start every member that the message names, with the same keyfile, then run again"
      : "look at what the message names; members must be empty and started with this replica set's name",
  );
}
