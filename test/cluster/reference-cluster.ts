import { Connections } from "../../infra/cluster/connections.ts";
import type { Operation } from "../../infra/cluster/context.ts";
import type { Connection, Credential } from "../../infra/model/connection.ts";
import { type ClusterDeclaration, defineCluster, perDatacenter, unique } from "../../infra/model/index.ts";
import type { ClusterSpec } from "../../infra/model/spec.ts";
import { ADMIN, type ShardedCluster, startShardedCluster } from "../support/sharded-cluster.ts";

/** An operation whose news can be read afterwards. Closes its connections. */
export class TestOperation implements Operation, AsyncDisposable {
  readonly connections = new Connections();
  readonly news: string[] = [];
  readonly #abort = new AbortController();

  readonly progress = (text: string): void => {
    this.news.push(text);
  };

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  abort(): void {
    this.#abort.abort();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.connections.close();
  }
}

/** A started cluster in two datacenters, and the declaration that it is meant to follow. */
export interface ReferenceCluster extends AsyncDisposable {
  readonly cluster: ShardedCluster;
  readonly spec: ClusterSpec;
  /** Through alfa's router, as the admin. */
  readonly connection: Connection;
  /** Through each router, in the order of the declaration. */
  readonly connections: readonly Connection[];
  readonly memberCredential: Credential;
}

const ALFA = { tags: { datacenter: "alfa" } };
const BRAVO = { tags: { datacenter: "bravo" } };

export const REFERENCE_COLLECTIONS: NonNullable<ClusterDeclaration["collections"]> = {
  "chat.messages": perDatacenter({ userid: 1 }),
  "chat.users": unique({ userid: 1 }, { split: { at: [1_000_000_000] } }),
};

/**
 * Two datacenters, config servers 2 + 1, shards 2 + 1 with the third member elsewhere, a router each. Members are real
 * and in place; shards are added with their zones; collections are left to the test.
 *
 * @param options.members members per shard: 3 as in the reference deployment, or 1 where a test needs no more
 */
export async function startReferenceCluster(
  options: {
    readonly members?: 1 | 3;
    readonly collections?: ClusterDeclaration["collections"];
    readonly users?: ClusterDeclaration["users"];
    /** Seconds until what a migration has left behind is deleted. */
    readonly orphanCleanupDelaySecs?: number;
  } = {},
): Promise<ReferenceCluster> {
  const small = options.members === 1;
  const away = { priority: 0 };
  const cluster = await startShardedCluster({
    configServers: small ? [ALFA] : [ALFA, { ...ALFA, priority: 1 }, { ...BRAVO, priority: 1 }],
    shards: [
      {
        name: "shard0000",
        zones: ["alfa"],
        members: small
          ? [ALFA]
          : [
              { ...ALFA, priority: 2 },
              { ...ALFA, priority: 1 },
              { ...BRAVO, ...away },
            ],
      },
      {
        name: "shard0001",
        zones: ["bravo"],
        members: small
          ? [BRAVO]
          : [
              { ...BRAVO, priority: 2 },
              { ...BRAVO, priority: 1 },
              { ...ALFA, ...away },
            ],
      },
    ],
    routers: small ? 1 : 2,
    // A chunk comes back to a shard only when its old copy there is gone; the server's default makes that 15 minutes.
    setParameters: { orphanCleanupDelaySecs: options.orphanCleanupDelaySecs ?? 1 },
  });
  try {
    const spec = declare(cluster, small, options);
    const credential: Credential = {
      kind: "scram",
      username: ADMIN.username,
      password: ADMIN.password,
      authSource: "admin",
    };
    const connections = cluster.routers.map((router) => ({ hosts: [router.address], credential }));
    const [connection] = connections;
    if (!connection) throw new Error("the cluster has no router");
    return {
      cluster,
      spec,
      connection,
      connections,
      memberCredential: { kind: "keyfile", keyfile: cluster.key },
      [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
    };
  } catch (error) {
    await cluster[Symbol.asyncDispose]();
    throw error;
  }
}

function declare(
  cluster: ShardedCluster,
  small: boolean,
  options: Pick<ClusterDeclaration, "collections" | "users">,
): ClusterSpec {
  const set = (members: ShardedCluster["configServers"]) =>
    members.map(({ options, address }) => ({
      datacenter: options.tags.datacenter ?? "",
      host: address,
      priority: options.priority,
      tags: options.tags,
    }));
  return defineCluster({
    name: "reference",
    datacenters: ["alfa", "bravo"],
    configServers: { name: "config", members: set(cluster.configServers) },
    shards: cluster.shards.map(({ name, members }, index) => ({
      name,
      home: index === 0 ? "alfa" : "bravo",
      members: set(members),
    })),
    routers: (small ? ["alfa"] : ["alfa", "bravo"]).map((datacenter, index) => {
      const router = cluster.routers[index];
      if (!router) throw new Error(`no router was started for ${datacenter}`);
      return { name: `mongos-${datacenter}`, datacenter, host: router.address };
    }),
    collections: options.collections ?? REFERENCE_COLLECTIONS,
    users: { admin: ADMIN.username, application: false, ...options.users },
  });
}
