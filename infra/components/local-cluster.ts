import path from "node:path";
import * as pulumi from "@pulumi/pulumi";
import type { Connection, Credential } from "../model/connection.ts";
import { withHosts } from "../model/host.ts";
import type { ClusterSpec, MemberSpec, ReplicaSetSpec, RouterSpec } from "../model/spec.ts";
import { Constraints } from "./constraints.ts";
import { Keyfile, LocalProcess, ReplicaSet, User } from "./resources.ts";

export interface LocalClusterArgs {
  /**
   * The cluster as `defineCluster` gives it.
   * @example defineCluster({ name: "chat", datacenters: ["alfa", "bravo"] })
   */
  readonly spec: ClusterSpec;
  /**
   * Absolute path of the folder with the data of every process. It survives `pulumi destroy`.
   * @example "/home/me/project/.alfabravo/data/local"
   */
  readonly dataDir: string;
  /**
   * Absolute path of the folder with `mongod` and `mongos`, 5.0 or newer.
   * @example "/usr/bin"
   */
  readonly binDir: string;
  /**
   * Fixed ports by the name of the process.
   * @default a free port each, chosen once and remembered in the data folder
   * @example { "mongos-alfa": 27017 }
   */
  readonly ports?: Readonly<Record<string, number>> | undefined;
  /**
   * Cache of each mongod in GB.
   * @default 0.25, the least that the server takes
   */
  readonly wiredTigerCacheSizeGB?: number | undefined;
  /**
   * Size of each mongod's oplog in MB.
   * @default 128
   */
  readonly oplogSizeMB?: number | undefined;
  /**
   * Server parameters of each mongod that holds data, beside or in place of the defaults. The delay is that between a
   * chunk's departure and the deletion of its old copy; until then it cannot come back, and 15 minutes, the server's
   * default, are long where a cluster is tried out.
   * @default { orphanCleanupDelaySecs: 10 }
   * @example { logLevel: 1 }
   */
  readonly setParameters?: Readonly<Record<string, string | number | boolean>> | undefined;
  /**
   * Whether `pulumi destroy` removes the data as well. It takes effect once an `up` has recorded it.
   * @default false
   */
  readonly purge?: boolean | undefined;
}

const SHARD_PARAMETERS = { orphanCleanupDelaySecs: 10 } as const;

/** One process as people see it in a table. */
export interface TopologyRow {
  readonly name: string;
  readonly datacenter: string;
  /** The replica set's name, or `mongos`. */
  readonly replicaSet: string;
  readonly host: string;
}

/**
 * A whole sharded cluster as processes on this machine, on loopback, with a keyfile and passwords.
 *
 * Each step waits only for what it needs, so the cluster is up in little more than the time its servers take to start.
 * The data outlives the stack: the next `up` goes on with it, on the same ports.
 */
export class LocalCluster extends pulumi.ComponentResource {
  /** Connection string of each datacenter's routers, with the application's user. Secret. */
  readonly uris: pulumi.Output<Record<string, string>>;
  /** The same without user and password. */
  readonly endpoints: pulumi.Output<Record<string, string>>;
  /** The declaration with the place of every process filled in. */
  readonly spec: pulumi.Output<ClusterSpec>;
  readonly topology: pulumi.Output<TopologyRow[]>;
  /** The routers, with the user who may do everything. Secret. */
  readonly connection: pulumi.Output<Connection>;
  /** Path of the keyfile. */
  readonly keyfilePath: string;

  readonly #args: LocalClusterArgs;
  readonly #keyfile: Keyfile;
  readonly #memberCredential: pulumi.Output<Credential>;
  readonly #processes = new Map<string, LocalProcess>();

  constructor(name: string, args: LocalClusterArgs, options?: pulumi.ComponentResourceOptions) {
    super("alfabravo:index:LocalCluster", name, {}, options);
    const { spec } = args;
    this.#args = args;
    this.keyfilePath = path.join(args.dataDir, "keyfile");
    this.#keyfile = new Keyfile("keyfile", { path: this.keyfilePath, purge: args.purge }, { parent: this });
    this.#memberCredential = this.#keyfile.content.apply((keyfile): Credential => ({ kind: "keyfile", keyfile }));

    const configProcesses = spec.configServers.members.map((member) => this.#mongod(spec.configServers, member, []));
    for (const { replicaSet } of spec.shards) {
      for (const member of replicaSet.members) this.#mongod(replicaSet, member, configProcesses);
    }
    for (const router of spec.routers) this.#mongos(router);
    const configServers = this.#replicaSet(spec.configServers);
    const admin = this.#admin(configServers);
    this.connection = this.#routers(admin);

    const constraints = new Constraints(
      name,
      {
        spec,
        connection: this.#routersAsMember(),
        shardHosts: Object.fromEntries(
          spec.shards.map((shard) => [shard.name, hostsOf(this.#replicaSet(shard.replicaSet))]),
        ),
        deletedWith: this.#keyfile,
      },
      { parent: this },
    );

    this.endpoints = this.#endpoints();
    this.uris = this.#uris(constraints.users, admin);
    this.spec = this.#hosts().apply((hosts) => withHosts(spec, hosts));
    this.topology = this.spec.apply(topologyOf);
    this.registerOutputs({});
  }

  /**
   * @param before the config servers, for a member of a shard: when it stops, it asks them once more, and waits 15 s for
   * an answer when they are gone already. Starting after them costs nothing where cores are few: they become a replica
   * set meanwhile.
   */
  #mongod(set: ReplicaSetSpec, member: MemberSpec, before: readonly LocalProcess[]): LocalProcess {
    const { wiredTigerCacheSizeGB, oplogSizeMB } = this.#args;
    const settings = { replicaSet: set.name, wiredTigerCacheSizeGB, oplogSizeMB };
    if (set.role === "config") return this.#process(member.name, { program: "mongod", role: "configsvr", ...settings });
    const setParameters = { ...SHARD_PARAMETERS, ...this.#args.setParameters };
    return this.#process(member.name, { program: "mongod", role: "shardsvr", ...settings, setParameters }, before);
  }

  /** It is told where the config servers are, and waits by itself until they are a replica set. */
  #mongos(router: RouterSpec): void {
    const { name, members } = this.#args.spec.configServers;
    const configdb = pulumi
      .all(members.map((member) => this.#host(member.name)))
      .apply((hosts) => `${name}/${hosts.join(",")}`);
    this.#process(router.name, { program: "mongos", role: "router", configdb });
  }

  #process(
    name: string,
    own: Pick<
      ConstructorParameters<typeof LocalProcess>[1],
      "program" | "role" | "replicaSet" | "configdb" | "wiredTigerCacheSizeGB" | "oplogSizeMB" | "setParameters"
    >,
    dependsOn: readonly LocalProcess[] = [],
  ): LocalProcess {
    const { binDir, dataDir, ports, purge, spec } = this.#args;
    const keyfile = this.#keyfile.path;
    const process = new LocalProcess(
      name,
      { ...own, cluster: spec.name, name, binDir, dataDir, port: ports?.[name], keyfile, purge },
      { parent: this, dependsOn: [...dependsOn] },
    );
    this.#processes.set(name, process);
    return process;
  }

  #replicaSet(set: ReplicaSetSpec): ReplicaSet {
    const members = set.members.map((member) => ({
      host: this.#host(member.name),
      priority: member.priority,
      votes: member.votes,
      hidden: member.hidden,
      arbiterOnly: member.arbiterOnly,
      secondaryDelaySecs: member.secondaryDelaySecs,
      tags: member.tags,
    }));
    const home = set.members.filter((member) => member.datacenter === set.home && member.priority > 0);
    return new ReplicaSet(
      set.name,
      {
        name: set.name,
        role: set.role,
        members,
        settings: set.settings,
        homeHosts: home.map((member) => this.#host(member.name)),
        credential: this.#memberCredential,
      },
      { parent: this, deletedWith: this.#keyfile },
    );
  }

  /** The first user, made by the config servers themselves: nobody can log in to a router yet. */
  #admin(configServers: ReplicaSet): User {
    const admin = this.#args.spec.users.find((user) => user.purpose === "admin");
    if (!admin) throw new Error(`the cluster ${this.#args.spec.name} declares no user with the purpose "admin"`);
    const { purpose: _, ...user } = admin;
    const connection = pulumi
      .all([hostsOf(configServers), this.#memberCredential])
      .apply(
        ([hosts, credential]): Connection => ({ hosts, replicaSet: this.#args.spec.configServers.name, credential }),
      );
    return new User(admin.name, { ...user, connection }, { parent: this, deletedWith: this.#keyfile });
  }

  #routers(admin: User): pulumi.Output<Connection> {
    const hosts = this.#args.spec.routers.map((router) => this.#host(router.name));
    return pulumi.secret(
      pulumi.all([pulumi.all(hosts), admin.name, admin.password, admin.database]).apply(
        ([list, username, password, authSource]): Connection => ({
          hosts: list,
          credential: { kind: "scram", username, password, authSource },
        }),
      ),
    );
  }

  /**
   * The routers, logged in as the members do. What is declared inside the cluster then waits for no user, and still holds
   * when somebody has changed the administrator's password.
   */
  #routersAsMember(): pulumi.Output<Connection> {
    const hosts = this.#args.spec.routers.map((router) => this.#host(router.name));
    return pulumi
      .all([pulumi.all(hosts), this.#memberCredential])
      .apply(([list, credential]): Connection => ({ hosts: list, credential }));
  }

  #endpoints(): pulumi.Output<Record<string, string>> {
    return this.#perDatacenter((hosts) => `mongodb://${hosts.join(",")}/`);
  }

  #uris(users: Readonly<Record<string, User>>, admin: User): pulumi.Output<Record<string, string>> {
    const application = this.#args.spec.users.find((user) => user.purpose === "application");
    const user = (application && users[application.name]) ?? admin;
    const login = pulumi.all([user.name, user.password, user.database]);
    return pulumi.secret(
      login.apply(([name, password, database]) =>
        this.#perDatacenter((hosts) => {
          const credentials = `${encodeURIComponent(name)}:${encodeURIComponent(password)}`;
          return `mongodb://${credentials}@${hosts.join(",")}/?authSource=${encodeURIComponent(database)}`;
        }),
      ),
    );
  }

  #perDatacenter(make: (hosts: readonly string[]) => string): pulumi.Output<Record<string, string>> {
    const { routers } = this.#args.spec;
    const names = [...new Set(routers.map((router) => router.datacenter))];
    return this.#hosts().apply((hosts) =>
      Object.fromEntries(
        names.map((datacenter) => [
          datacenter,
          make(routers.filter((router) => router.datacenter === datacenter).map((router) => hosts[router.name] ?? "")),
        ]),
      ),
    );
  }

  #hosts(): pulumi.Output<Record<string, string>> {
    return pulumi.all(Object.fromEntries([...this.#processes].map(([name, process]) => [name, process.host])));
  }

  #host(name: string): pulumi.Output<string> {
    const process = this.#processes.get(name);
    if (!process) throw new Error(`there is no process ${name} in the cluster ${this.#args.spec.name}`);
    return process.host;
  }
}

function hostsOf(set: ReplicaSet): pulumi.Output<string[]> {
  return set.members.apply((members) => members.map((member) => member.host));
}

function topologyOf(spec: ClusterSpec): TopologyRow[] {
  const sets = [spec.configServers, ...spec.shards.map((shard) => shard.replicaSet)];
  return [
    ...sets.flatMap((set) =>
      set.members.map(({ name, datacenter, host }) => ({ name, datacenter, replicaSet: set.name, host: host ?? "" })),
    ),
    ...spec.routers.map(({ name, datacenter, host }) => ({ name, datacenter, replicaSet: "mongos", host: host ?? "" })),
  ];
}
