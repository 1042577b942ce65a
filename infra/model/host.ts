/**
 * Host names with ports. The server keeps members by the text `host:port`; a host without a port, or in another case,
 * never matches what it keeps, and a member that does not match is taken for a new one.
 */
import { AlfabravoError } from "./problem.ts";
import type { ClusterSpec, MemberSpec, ReplicaSetSpec } from "./spec.ts";
import type { HostPort } from "./state.ts";

const MAX_PORT = 65_535;

/** What is wrong with a host as text, or undefined when it is fine. */
export function hostProblem(text: string): { message: string; fix: string } | undefined {
  const parsed = split(text);
  if (typeof parsed === "string") return { message: parsed, fix: "write host:port, for example 127.0.0.1:27017" };
  return undefined;
}

function split(text: string): { host: string; port: number } | string {
  const trimmed = text.trim();
  if (trimmed === "") return "the host is empty";
  if (trimmed.startsWith("/") || /^[a-z+]+:\/\//i.test(trimmed)) return `"${text}" is not a host with a port`;
  const bracketed = /^\[([^\]]*)\](?::(.*))?$/.exec(trimmed);
  const colons = trimmed.split(":").length - 1;
  if (!bracketed && colons > 1) return `"${text}" is an IPv6 address without brackets, so its port cannot be told`;
  const [host, port] = bracketed ? [bracketed[1] ?? "", bracketed[2]] : trimmed.split(":");
  if (!host) return `"${text}" names no host`;
  if (port === undefined || port === "") return `"${text}" has no port`;
  if (!/^\d{1,5}$/.test(port) || Number(port) < 1 || Number(port) > MAX_PORT) {
    return `"${port}" is not a port (1 to ${MAX_PORT})`;
  }
  if (bracketed ? !/^[0-9a-f:.]+(%[\w.-]+)?$/i.test(host) || !host.includes(":") : !/^[\w.-]+$/.test(host)) {
    return `"${host}" is not a host name or address`;
  }
  return { host: bracketed ? `[${host}]` : host, port: Number(port) };
}

/**
 * A host in the one form in which hosts are compared: lower case, without spaces, without a trailing dot, always with its port.
 * @throws AlfabravoError when there is no port or the text is no host.
 */
export function normaliseHost(text: string): HostPort {
  const parsed = split(text);
  if (typeof parsed === "string") {
    throw new AlfabravoError(parsed, { where: text, next: "write host:port, for example 127.0.0.1:27017" });
  }
  return `${parsed.host.toLowerCase().replace(/\.$/, "")}:${parsed.port}`;
}

/** Whether two texts name the same server. */
export function sameHost(a: string, b: string): boolean {
  return normaliseHost(a) === normaliseHost(b);
}

/** Every process of the cluster that needs a place: members of all replica sets, then routers. */
export function processNames(spec: ClusterSpec): string[] {
  return [
    ...[spec.configServers, ...spec.shards.map((shard) => shard.replicaSet)].flatMap((set) =>
      set.members.map((member) => member.name),
    ),
    ...spec.routers.map((router) => router.name),
  ];
}

/**
 * The same cluster with a host for each process that is named; the others keep theirs.
 * @throws AlfabravoError for a name that the cluster does not have, or a host without a port.
 */
export function withHosts(spec: ClusterSpec, hosts: Readonly<Record<string, string>>): ClusterSpec {
  const known = new Set(processNames(spec));
  for (const name of Object.keys(hosts)) {
    if (!known.has(name)) {
      throw new AlfabravoError(`cluster ${spec.name} has no process ${name}`, {
        where: name,
        next: `use one of ${[...known].join(", ")}`,
      });
    }
  }
  const place = <T extends { readonly name: string; readonly host: HostPort | undefined }>(process: T): T => {
    const host = hosts[process.name];
    return host === undefined ? process : { ...process, host: normaliseHost(host) };
  };
  const placeSet = (set: ReplicaSetSpec): ReplicaSetSpec => ({
    ...set,
    members: set.members.map((member: MemberSpec) => place(member)),
  });
  return {
    ...spec,
    configServers: placeSet(spec.configServers),
    shards: spec.shards.map((shard) => ({ ...shard, replicaSet: placeSet(shard.replicaSet) })),
    routers: spec.routers.map(place),
  };
}
