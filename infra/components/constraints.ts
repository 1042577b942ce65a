import * as pulumi from "@pulumi/pulumi";
import type { Connection } from "../model/connection.ts";
import { formatProblems } from "../model/problem.ts";
import type { ClusterSpec } from "../model/spec.ts";
import { remarks } from "../plan/remarks.ts";
import { Balancer, ClusterDefaults, Database, Shard, ShardedCollection, User } from "./resources.ts";

export interface ConstraintsArgs {
  /**
   * The cluster as `defineCluster` gives it.
   * @example defineCluster({ name: "chat", datacenters: ["alfa", "bravo"] })
   */
  readonly spec: ClusterSpec;
  /** The cluster's routers, with a user who may administer it. */
  readonly connection: pulumi.Input<Connection>;
  /**
   * Members of each shard's replica set as `host:port`, by the shard's name. Made from a `ReplicaSet`'s outputs they say
   * at once when the shard can be added.
   * @example { shard0000: replicaSet.members.apply((members) => members.map((member) => member.host)) }
   */
  readonly shardHosts: Readonly<Record<string, pulumi.Input<readonly string[]>>>;
  /**
   * What the whole cluster goes with: when it is destroyed, nothing inside the cluster is undone first.
   * @default none: destroying drains shards and removes users
   * @example keyfile
   */
  readonly deletedWith?: pulumi.Resource | undefined;
}

/**
 * Everything that is declared inside a running sharded cluster, whoever runs its servers: shards with their zones,
 * databases, sharded collections with their zone ranges and indexes, the balancer, defaults and the users of applications.
 *
 * All of it goes through the routers, so the same component serves local processes, containers and Atlas.
 */
export class Constraints extends pulumi.ComponentResource {
  /** By name. */
  readonly users: Readonly<Record<string, User>>;
  readonly shards: readonly Shard[];
  readonly collections: readonly ShardedCollection[];

  readonly #args: ConstraintsArgs;
  readonly #child: pulumi.CustomResourceOptions;

  constructor(name: string, args: ConstraintsArgs, options?: pulumi.ComponentResourceOptions) {
    super("alfabravo:index:Constraints", name, {}, options);
    this.#args = args;
    for (const remark of remarks(args.spec)) void pulumi.log.warn(formatProblems([remark]).trim(), this);
    this.#child = { parent: this, ...(args.deletedWith ? { deletedWith: args.deletedWith } : {}) };

    this.users = this.#users();
    this.#defaults();
    this.#balancer();
    this.shards = this.#shards();
    const databases = this.#databases();
    this.collections = this.#collections(databases);

    this.registerOutputs({});
  }

  #users(): Record<string, User> {
    const { connection, spec } = this.#args;
    return Object.fromEntries(
      spec.users
        .filter((user) => user.purpose !== "admin")
        .map(({ purpose: _, ...user }) => [user.name, new User(user.name, { ...user, connection }, this.#child)]),
    );
  }

  #defaults(): ClusterDefaults {
    const { connection, spec } = this.#args;
    return new ClusterDefaults("defaults", { ...present(spec.defaults), connection }, this.#child);
  }

  #balancer(): Balancer {
    const { connection, spec } = this.#args;
    return new Balancer("balancer", { ...present(spec.balancer), connection }, this.#child);
  }

  #shards(): Shard[] {
    const { connection, shardHosts, spec } = this.#args;
    return spec.shards.map(({ name, zones, replicaSet }) => {
      const hosts = shardHosts[name];
      if (hosts === undefined) throw new Error(`shardHosts names no hosts for the shard ${name}`);
      return new Shard(
        name,
        { name, replicaSet: replicaSet.name, zones: [...zones].sort(), hosts, connection },
        this.#child,
      );
    });
  }

  #databases(): Database[] {
    const { connection, spec } = this.#args;
    return spec.databases
      .filter((database) => database.primaryShard !== undefined)
      .map((database) => new Database(database.name, { ...database, connection }, this.#after(this.shards)));
  }

  #collections(databases: readonly Database[]): ShardedCollection[] {
    const { connection, spec } = this.#args;
    // The ranges name zones, which exist only once a shard carries them.
    const options = this.#after([...this.shards, ...databases]);
    return spec.collections.map(
      ({ datacenterField: _, ...collection }) =>
        new ShardedCollection(collection.namespace, { ...present(collection), connection }, options),
    );
  }

  #after(dependsOn: readonly pulumi.Resource[]): pulumi.CustomResourceOptions {
    return { ...this.#child, dependsOn: [...dependsOn] };
  }
}

/** Without the fields that are undefined: absent and not managed are the same to the provider. */
function present<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, item]) => item !== undefined)) as T;
}
