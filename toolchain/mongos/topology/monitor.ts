/** Watches one replica set: who is in it, who is primary, how far each member is. */

import { setTimeout as delay } from "node:timers/promises";
import { compareValues } from "../bson/compare.ts";
import type { Doc, Value } from "../bson/document.ts";
import { maxTimeExpired, type OperationContext, type ReadPreference } from "../context.ts";
import { CommandError, errorCode } from "../errors.ts";
import { log } from "../log.ts";
import { type ConnectionOptions, NetworkError, ServerConnection } from "../wire/connection.ts";
import { ConnectionPool } from "../wire/pool.ts";
import { type Candidate, eligible } from "./read-preference.ts";

/** How long an operation waits for a fitting member, milliseconds (mongos: 15 s). */
export const serverSelectionMs = 15_000;
/** A member answers an awaited hello at a change of state, or after this time, milliseconds. */
const awaitMs = 2_000;
/** A member that says nothing for so long beyond that is taken for lost (a cut network), milliseconds. */
const silenceMs = 4_000;
/** Pause between attempts to reach a member that is down, milliseconds. */
const retryPauseMs = 500;

class Member {
  readonly host: string;
  readonly pool: ConnectionPool;
  kind: Candidate["kind"] = "unknown";
  tags: Readonly<Record<string, string>> = {};
  rttMs = 0;
  lastWriteMs: number | undefined;
  lastUpdateMs: number | undefined;
  electionId: Value | undefined;
  setVersion = 0;
  lastError: string | undefined;
  connection: ServerConnection | undefined;
  stopped = false;
  wake: (() => void) | undefined;
  /** The monitor's connection was closed on purpose, to ask anew at once. */
  poked = false;

  constructor(host: string, options: ConnectionOptions) {
    this.host = host;
    this.pool = new ConnectionPool(host, options);
  }
}

export class ReplicaSetMonitor {
  readonly setName: string;
  readonly #options: ConnectionOptions;
  readonly #members = new Map<string, Member>();
  readonly #listeners = new Set<() => void>();

  constructor(setName: string, seeds: readonly string[], options: ConnectionOptions) {
    this.setName = setName;
    this.#options = options;
    for (const host of seeds) this.#add(host);
  }

  get hosts(): readonly string[] {
    return [...this.#members.keys()];
  }

  get candidates(): readonly Candidate[] {
    return [...this.#members.values()];
  }

  get hasPrimary(): boolean {
    return this.candidates.some((m) => m.kind === "primary");
  }

  #add(host: string): void {
    if (this.#members.has(host)) return;
    const member = new Member(host, this.#options);
    this.#members.set(host, member);
    void this.#watch(member);
  }

  #remove(host: string): void {
    const member = this.#members.get(host);
    if (member === undefined) return;
    this.#members.delete(host);
    member.stopped = true;
    member.wake?.();
    member.connection?.close();
    member.pool.clear();
  }

  async #watch(member: Member): Promise<void> {
    while (!member.stopped) {
      try {
        const connection = await ServerConnection.open(member.host, this.#options);
        member.connection = connection;
        if (connection.hello !== undefined) this.#apply(member, connection.hello, undefined);
        await this.#follow(member, connection);
      } catch (error) {
        this.#lost(member, error);
      }
      if (member.stopped) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      member.wake = resolve;
      await Promise.race([promise, delay(retryPauseMs, undefined, { ref: false })]);
      member.wake = undefined;
    }
  }

  /** Asks again and again over one connection; ends with NetworkError. */
  async #follow(member: Member, connection: ServerConnection): Promise<never> {
    for (let round = 0; ; round++) {
      const version = connection.hello?.find("topologyVersion");
      const awaiting = version !== undefined && round % 5 !== 0;
      const begun = performance.now();
      const timer = setTimeout(() => connection.close(), awaitMs + silenceMs);
      timer.unref();
      try {
        const hello = await connection.command("admin", {
          hello: 1,
          ...(awaiting ? { topologyVersion: version, maxAwaitTimeMS: awaitMs } : {}),
        });
        connection.hello = hello;
        this.#apply(member, hello, awaiting ? undefined : performance.now() - begun);
        if (version === undefined) await delay(awaitMs, undefined, { ref: false });
      } finally {
        clearTimeout(timer);
      }
    }
  }

  #apply(member: Member, hello: Doc, rttMs: number | undefined): void {
    const before = member.kind;
    if (hello.string("setName") !== this.setName) {
      member.kind = "other";
      member.lastError = `belongs to replica set ${hello.string("setName") ?? "(none)"}, not ${this.setName}`;
      this.#changed();
      return;
    }
    member.lastError = undefined;
    if (rttMs !== undefined) member.rttMs = member.rttMs === 0 ? rttMs : member.rttMs * 0.8 + rttMs * 0.2;
    const tags: Record<string, string> = {};
    for (const element of hello.doc("tags")?.elements() ?? []) tags[element.name] = element.text();
    member.tags = tags;
    const lastWrite = hello.doc("lastWrite")?.find("lastWriteDate");
    member.lastWriteMs = lastWrite === undefined ? undefined : Number(lastWrite.bigint());
    member.lastUpdateMs = Date.now();
    member.electionId = hello.find("electionId")?.detached();
    member.setVersion = hello.number("setVersion") ?? 0;
    if (hello.bool("isWritablePrimary") === true) {
      member.kind = "primary";
      for (const other of this.#members.values()) {
        if (other === member || other.kind !== "primary") continue;
        // Two claim to be primary: the one elected earlier has not noticed yet.
        const earlier =
          member.electionId !== undefined &&
          other.electionId !== undefined &&
          compareValues(member.electionId, other.electionId) < 0;
        (earlier ? member : other).kind = "unknown";
      }
    } else if (hello.bool("secondary") === true && hello.bool("hidden") !== true) member.kind = "secondary";
    else member.kind = "other";
    const listed = [...(hello.array("hosts") ?? []), ...(hello.array("passives") ?? [])].map((host) => host.text());
    for (const host of listed) this.#add(host);
    if (member.kind === "primary" && listed.length > 0)
      for (const host of this.hosts) if (!listed.includes(host)) this.#remove(host);
    if (before !== member.kind)
      log("I", "NETWORK", "Replica set member changed", {
        replicaSet: this.setName,
        host: member.host,
        from: before,
        to: member.kind,
      });
    this.#changed();
  }

  #lost(member: Member, error: unknown): void {
    member.connection?.close();
    member.connection = undefined;
    const message = error instanceof Error ? error.message : String(error);
    if (member.lastError === undefined && !member.stopped)
      log("W", "NETWORK", "Replica set member is unreachable", {
        replicaSet: this.setName,
        host: member.host,
        message,
      });
    member.lastError = message;
    member.kind = "unknown";
    member.rttMs = 0;
    // What hangs on a lost member fails now; a member that was only asked anew keeps its requests.
    member.pool.clear(!member.poked);
    member.poked = false;
    this.#changed();
  }

  #changed(): void {
    for (const listener of [...this.#listeners]) listener();
  }

  /** Call after a request failed because the connection broke. */
  onNetworkError(host: string): void {
    const member = this.#members.get(host);
    if (member === undefined) return;
    member.kind = "unknown";
    member.pool.clear();
    // The monitor's own connection is made anew: it tells at once whether the member lives.
    this.#poke(member);
    this.#changed();
  }

  /** Call after a member said that it is not primary (any more), or is shutting down. */
  onNotPrimary(host: string): void {
    const member = this.#members.get(host);
    if (member === undefined || member.kind !== "primary") return;
    member.kind = "unknown";
    this.#poke(member);
    this.#changed();
  }

  /** Lets the monitor ask this member now. */
  #poke(member: Member): void {
    if (member.connection !== undefined && !member.connection.closed) {
      member.poked = true;
      member.connection.close();
    }
    member.wake?.();
  }

  pool(host: string): ConnectionPool {
    const member = this.#members.get(host);
    if (member === undefined) throw new NetworkError(host, `is no member of ${this.setName} any more`, true);
    return member.pool;
  }

  /**
   * Chooses a member. Waits up to 15 s or the operation's deadline: FailedToSatisfyReadPreference (133) or
   * MaxTimeMSExpired (50).
   */
  async select(ctx: OperationContext, preference: ReadPreference, limitMs = serverSelectionMs): Promise<string> {
    const choose = (): string | undefined => {
      const fitting = eligible(this.candidates, preference);
      return fitting[fitting.length > 1 ? Math.floor(Math.random() * fitting.length) : 0]?.host;
    };
    const now = choose();
    if (now !== undefined) return now;
    ctx.deadline.check();
    for (const member of this.#members.values()) member.wake?.();
    // Decided now: a timer may fire a moment before its time, when the deadline is not yet over.
    const endsByDeadline = ctx.deadline.left() <= limitMs;
    const left = endsByDeadline ? ctx.deadline.left() : limitMs;
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const listener = (): void => {
      const host = choose();
      if (host !== undefined) resolve(host);
    };
    const timer = setTimeout(() => {
      if (endsByDeadline) reject(maxTimeExpired());
      else
        reject(
          new CommandError(
            errorCode.FailedToSatisfyReadPreference,
            `Could not find host matching read preference { mode: "${preference.mode}"${
              preference.tags.length > 0 ? `, tags: ${JSON.stringify(preference.tags)}` : ""
            } } for set ${this.setName}`,
          ),
        );
    }, left);
    this.#listeners.add(listener);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#listeners.delete(listener);
    }
  }

  /** Resolves when any member has answered. */
  async anyMember(): Promise<void> {
    const alive = (): boolean => this.candidates.some((m) => m.kind === "primary" || m.kind === "secondary");
    if (alive()) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const listener = (): void => {
      if (alive()) resolve();
    };
    this.#listeners.add(listener);
    try {
      await promise;
    } finally {
      this.#listeners.delete(listener);
    }
  }

  close(): void {
    for (const host of this.hosts) this.#remove(host);
  }
}
