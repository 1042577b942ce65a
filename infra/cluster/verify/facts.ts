import type { Connection, Credential } from "../../model/connection.ts";
import type { ClusterSpec, CollectionSpec, MemberSpec, RouterSpec } from "../../model/spec.ts";
import type { Operation } from "../context.ts";
import { clusterAddress } from "../drift.ts";
import { describeError } from "../errors.ts";
import { admin, READ_MILLIS } from "../metadata.ts";
import { type Observation, observeCluster } from "../observe/cluster.ts";

export interface VerifyRequest {
  readonly spec: ClusterSpec;
  /** Any routers; those of the declaration that have a host are asked each by itself, with the same credential. */
  readonly connection: Connection;
  /** To ask members directly. Without it, what only they can tell is unknown. */
  readonly memberCredential?: Credential | undefined;
}

/** A member's own word. */
export interface MemberFact {
  readonly member: MemberSpec;
  readonly replicaSet: string;
  readonly state: "primary" | "secondary" | "arbiter" | "starting" | "unreachable";
  readonly problem?: string;
}

/** A router's own word. */
export interface RouterFact {
  readonly router: RouterSpec;
  readonly connection: Connection;
  /** Undefined when it answers. */
  readonly problem?: string;
}

/** What several checks look at, read once and all at the same time. */
export interface Facts extends VerifyRequest {
  readonly observation: Observation;
  /** Undefined without a credential for members. */
  readonly members: readonly MemberFact[] | undefined;
  readonly routers: readonly RouterFact[];
  readonly sharded: readonly CollectionSpec[];
}

export async function gatherFacts(op: Operation, request: VerifyRequest): Promise<Facts> {
  const { spec, connection, memberCredential } = request;
  const [observation, members, routers] = await Promise.all([
    observeCluster(op, { ...clusterAddress(spec), connection, memberCredential }),
    memberCredential === undefined ? undefined : askMembers(op, spec, memberCredential, connection.tlsCaFile),
    askRouters(op, spec, connection),
  ]);
  return { ...request, observation, members, routers, sharded: spec.collections.filter(({ key }) => key.length > 0) };
}

function askMembers(op: Operation, spec: ClusterSpec, credential: Credential, tlsCaFile: string | undefined) {
  const sets = [spec.configServers, ...spec.shards.map((shard) => shard.replicaSet)];
  return Promise.all(
    sets.flatMap((set) =>
      set.members.map(async (member): Promise<MemberFact> => {
        const fact = { member, replicaSet: set.name };
        if (member.host === undefined) return { ...fact, state: "unreachable", problem: "it has no host yet" };
        try {
          const client = await op.connections.member(member.host, credential, tlsCaFile);
          const hello = await admin(client, { hello: 1 });
          if (hello.isWritablePrimary === true) return { ...fact, state: "primary" };
          if (hello.secondary === true) return { ...fact, state: "secondary" };
          return { ...fact, state: hello.arbiterOnly === true ? "arbiter" : "starting" };
        } catch (error) {
          return { ...fact, state: "unreachable", problem: describeError(error) };
        }
      }),
    ),
  );
}

function askRouters(op: Operation, spec: ClusterSpec, connection: Connection): Promise<RouterFact[]> {
  return Promise.all(
    spec.routers.map(async (router): Promise<RouterFact> => {
      const own = router.host === undefined ? connection : { ...connection, hosts: [router.host] };
      try {
        const client = await op.connections.reader(own);
        const hello = await admin(client, { hello: 1, maxTimeMS: READ_MILLIS });
        if (hello.msg === "isdbgrid") return { router, connection: own };
        return { router, connection: own, problem: "it is not a router" };
      } catch (error) {
        return { router, connection: own, problem: describeError(error) };
      }
    }),
  );
}

/** A host for people, with the datacenter that it is in. */
export function memberText({ member }: MemberFact): string {
  return `${member.host ?? member.name} (${member.datacenter})`;
}
