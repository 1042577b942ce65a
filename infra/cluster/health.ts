import type { Credential } from "../model/connection.ts";
import type { ClusterSpec } from "../model/spec.ts";
import type { Operation } from "./context.ts";
import { describeError } from "./errors.ts";

/** One process of the cluster, as it answers right now. */
export interface ProcessHealth {
  readonly name: string;
  readonly datacenter: string;
  readonly host: string;
  /** `primary`, `secondary`, `arbiter`, `mongos`, another state's name, or `unreachable`. */
  readonly role: string;
  /** It does what it was declared for. */
  readonly serves: boolean;
  readonly version?: string | undefined;
  /** Its process id on its own machine. */
  readonly pid?: number | undefined;
  /** Why it does not serve. */
  readonly problem?: string | undefined;
}

interface Expected {
  readonly name: string;
  readonly datacenter: string;
  readonly host: string | undefined;
  /** The replica set, or undefined for a router. */
  readonly set: string | undefined;
}

/** Asks every declared process what it is, all at once. Never throws for a process that does not answer. */
export async function observeHealth(
  op: Operation,
  { spec, memberCredential }: { readonly spec: ClusterSpec; readonly memberCredential: Credential },
): Promise<ProcessHealth[]> {
  const sets = [spec.configServers, ...spec.shards.map(({ replicaSet }) => replicaSet)];
  const expected: Expected[] = [
    ...sets.flatMap(({ name: set, members }) =>
      members.map(({ name, datacenter, host }) => ({ name, datacenter, host, set })),
    ),
    ...spec.routers.map(({ name, datacenter, host }) => ({ name, datacenter, host, set: undefined })),
  ];
  return Promise.all(expected.map((process) => ask(op, process, memberCredential)));
}

async function ask(op: Operation, expected: Expected, credential: Credential): Promise<ProcessHealth> {
  const { name, datacenter, host, set } = expected;
  if (host === undefined) {
    return { name, datacenter, host: "-", role: "unreachable", serves: false, problem: "it has no place yet" };
  }
  try {
    const admin = (await op.connections.member(host, credential)).db("admin");
    const [hello, { version }, { pid }] = await Promise.all([
      admin.command({ hello: 1 }),
      admin.command({ buildInfo: 1 }),
      admin.command({ serverStatus: 1, metrics: 0, wiredTiger: 0, repl: 0, sharding: 0 }),
    ]);
    const role = roleOf(hello);
    const problem = set === undefined ? routerProblem(hello) : memberProblem(hello, set, role);
    return {
      name,
      datacenter,
      host,
      role,
      serves: problem === undefined,
      version: String(version),
      pid: Number(pid),
      problem,
    };
  } catch (error) {
    return { name, datacenter, host, role: "unreachable", serves: false, problem: describeError(error) };
  }
}

function roleOf(hello: Record<string, unknown>): string {
  if (hello.msg === "isdbgrid") return "mongos";
  if (hello.isWritablePrimary) return "primary";
  if (hello.secondary) return "secondary";
  return hello.arbiterOnly ? "arbiter" : "neither primary nor secondary";
}

function routerProblem(hello: Record<string, unknown>): string | undefined {
  return hello.msg === "isdbgrid" ? undefined : "another kind of server answers at this address";
}

function memberProblem(hello: Record<string, unknown>, set: string, role: string): string | undefined {
  if (hello.setName !== set) return `it is a member of ${String(hello.setName ?? "no replica set")}, not of ${set}`;
  return ["primary", "secondary", "arbiter"].includes(role) ? undefined : "it is recovering, starting or removed";
}
