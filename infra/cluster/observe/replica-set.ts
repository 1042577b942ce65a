import type { Document } from "mongodb";
import type { Credential } from "../../model/connection.ts";
import { normaliseHost } from "../../model/host.ts";
import { AlfabravoError } from "../../model/problem.ts";
import type { MemberState, ReplicaSetSettings, ReplicaSetState } from "../../model/state.ts";
import type { Operation } from "../context.ts";
import { Code, describeError, hasCode } from "../errors.ts";
import { admin, READ_MILLIS } from "../metadata.ts";

export interface ReplicaSetAddress {
  readonly name: string;
  readonly role: "config" | "shard";
  /** Any members; all are asked, and the newest configuration is believed. */
  readonly hosts: readonly string[];
  readonly credential: Credential;
  readonly tlsCaFile?: string | undefined;
}

/**
 * A replica set's configuration.
 *
 * @returns undefined when every member answers that it belongs to no replica set yet
 * @throws AlfabravoError when a configuration cannot be had, or is that of a set with another name
 */
export async function observeReplicaSet(
  op: Operation,
  address: ReplicaSetAddress,
): Promise<ReplicaSetState | undefined> {
  const config = await readReplicaSetConfig(op, address);
  return config && replicaSetFromConfig(config);
}

/** No member shows a configuration, and at least one could not be asked. */
export class NoConfigError extends AlfabravoError {}

/** What one member answered. */
type Answer =
  | { readonly kind: "config"; readonly host: string; readonly config: Document; readonly primary: boolean }
  | { readonly kind: "none"; readonly host: string }
  | { readonly kind: "error"; readonly host: string; readonly error: unknown };

/**
 * The configuration document as the server keeps it. See `observeReplicaSet`.
 *
 * @param options.everyMember wait for the answer of every member, so that one that belongs elsewhere is found for certain
 */
export async function readReplicaSetConfig(
  op: Operation,
  address: ReplicaSetAddress,
  options: { readonly everyMember: boolean } = { everyMember: false },
): Promise<Document | undefined> {
  const asked = address.hosts.map((host) => askMember(op, address, host));
  const answers = await (options.everyMember ? Promise.all(asked) : firstPrimaryOrAll(asked));
  const configs = answers.filter((answer) => answer.kind === "config").sort((a, b) => newness(b) - newness(a));
  const [newest] = configs;
  for (const { host, config } of configs) {
    const other =
      config._id !== address.name
        ? `the replica set ${config._id}, not to ${address.name}`
        : newest && identityOf(config) !== identityOf(newest.config)
          ? `another replica set ${address.name} than ${newest.host} (their replicaSetId differs)`
          : undefined;
    if (other === undefined) continue;
    throw new AlfabravoError(`${host} belongs to ${other}; it is left alone`, {
      where: host,
      next: `name the right set and its own members, or give ${address.name} a member with an empty data folder at another host`,
    });
  }
  if (newest) return newest.config;
  const failed = answers.filter((answer) => answer.kind === "error");
  if (failed.length === 0) return undefined;
  // What lies beneath an error for people: the host is named here already.
  const causes = failed.map(({ host, error }) => ({
    host,
    cause: error instanceof AlfabravoError && error.cause !== undefined ? error.cause : error,
  }));
  throw new NoConfigError(
    `no member of the replica set ${address.name} shows its configuration: ${causes
      .map(({ host, cause }) => `${host}: ${describeError(cause)}`)
      .join("; ")}`,
    {
      where: address.name,
      next: causes.some(({ cause }) => hasCode(cause, Code.AuthenticationFailed))
        ? "check that the keyfile or password is the one that its members were started with"
        : "start its members, or correct their hosts, then run again",
    },
  );
}

/** Given once, at initiation. */
function identityOf(config: Document): string {
  return String(config.settings?.replicaSetId ?? "");
}

/** A primary's word counts most; else the higher term, then the higher version. */
function newness({ config, primary }: { config: Document; primary: boolean }): number {
  return (primary ? 2 ** 48 : 0) + Number(config.term ?? 0) * 2 ** 24 + Number(config.version);
}

/** Members that do not answer cost their whole timeout: with the primary's answer at hand nobody waits for them. */
function firstPrimaryOrAll(asked: readonly Promise<Answer>[]): Promise<Answer[]> {
  return new Promise((resolve) => {
    const answers: Answer[] = [];
    let open = asked.length;
    if (open === 0) resolve(answers);
    for (const promise of asked) {
      promise.then((answer) => {
        answers.push(answer);
        open -= 1;
        if (open === 0 || (answer.kind === "config" && answer.primary)) resolve([...answers]);
      });
    }
  });
}

async function askMember(op: Operation, address: ReplicaSetAddress, host: string): Promise<Answer> {
  try {
    const client = await op.connections.member(host, address.credential, address.tlsCaFile);
    const [hello, { config }] = await Promise.all([
      admin(client, { hello: 1 }),
      admin(client, { replSetGetConfig: 1, maxTimeMS: READ_MILLIS }),
    ]);
    return { kind: "config", host, config: config as Document, primary: hello.isWritablePrimary === true };
  } catch (error) {
    return hasCode(error, Code.NotYetInitialized) ? { kind: "none", host } : { kind: "error", host, error };
  }
}

/** A configuration document in the project's terms. */
export function replicaSetFromConfig(config: Document): ReplicaSetState {
  const settings = (config.settings ?? {}) as Document;
  const number = (field: string) => (settings[field] === undefined ? {} : { [field]: Number(settings[field]) });
  return {
    name: String(config._id),
    role: config.configsvr === true ? "config" : "shard",
    members: (config.members as Document[]).map(memberFromConfig),
    settings: {
      ...number("electionTimeoutMillis"),
      ...number("heartbeatTimeoutSecs"),
      ...number("catchUpTimeoutMillis"),
      ...(settings.chainingAllowed === undefined ? {} : { chainingAllowed: settings.chainingAllowed === true }),
    } satisfies ReplicaSetSettings,
  };
}

function memberFromConfig(member: Document): MemberState {
  return {
    host: normaliseHost(String(member.host)),
    priority: Number(member.priority ?? 1),
    votes: Number(member.votes ?? 1) === 0 ? 0 : 1,
    hidden: member.hidden === true,
    arbiterOnly: member.arbiterOnly === true,
    secondaryDelaySecs: Number(member.secondaryDelaySecs ?? member.slaveDelay ?? 0),
    tags: Object.fromEntries(
      Object.entries((member.tags ?? {}) as Document).map(([name, value]) => [name, String(value)]),
    ),
  };
}
