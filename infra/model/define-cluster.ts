import { readCollection } from "./collection-rules.ts";
import type {
  ClusterDeclaration,
  CollectionDeclaration,
  MemberDeclaration,
  PerDatacenterDeclaration,
} from "./declaration.ts";
import { hostProblem, normaliseHost } from "./host.ts";
import { type KeyInput, keyParts } from "./key.ts";
import { configLayout, shardLayout, shardName } from "./layout.ts";
import { databaseNameProblem, identifierProblem, namespaceProblem, splitNamespace } from "./name-rules.ts";
import { InvalidDeclarationError, type Problem } from "./problem.ts";
import { replicaSetProblems } from "./replica-set-rules.ts";
import { formatPath, nearest, type ReadDeclaration, readDeclaration } from "./schema.ts";
import type {
  ClusterSpec,
  CollectionSpec,
  DatabaseSpec,
  DatacenterSpec,
  MemberSpec,
  ReplicaSetSpec,
  RouterSpec,
  ShardSpec,
  UserSpec,
} from "./spec.ts";
import type { KeyPart } from "./state.ts";

/**
 * Declares a cluster. Fills in the defaults and checks everything at once.
 *
 * The defaults give, for each datacenter, a shard with two electable members at home and one with priority 0 in the
 * next datacenter, the zone of its home, a mongos, and three config servers over the first datacenters.
 *
 * @throws InvalidDeclarationError with every mistake: its path, the rule and the way out.
 * @example
 * defineCluster({
 *   name: "chat",
 *   datacenters: ["alfa", "bravo"],
 *   collections: { "chat.messages": perDatacenter({ userid: 1 }), "chat.users": unique({ userid: 1 }) },
 * })
 */
export function defineCluster(declaration: ClusterDeclaration): ClusterSpec {
  const { spec, problems } = checkDeclaration(declaration);
  if (problems.length > 0 || !spec) throw new InvalidDeclarationError(problems);
  return spec;
}

/**
 * A collection with zone ranges per datacenter: the shard key is the datacenter field and then `rest` (M3, M10).
 * @param rest The rest of the shard key.
 * @param options Anything else of the collection, and `field` and `values` of its ranges.
 * @example perDatacenter({ userid: 1 })
 * @example perDatacenter({ userid: 1 }, { field: "region", values: { eu: "alfa", us: "bravo" } })
 */
export function perDatacenter(
  rest: KeyInput,
  options: PerDatacenterDeclaration & Omit<CollectionDeclaration, "key" | "perDatacenter" | "ranges" | "split"> = {},
): CollectionDeclaration {
  const { field = "datacenter", values, ...others } = options;
  const head: KeyPart = { field, kind: 1 };
  return { ...others, key: [head, ...asParts(rest)], perDatacenter: { field, values } };
}

/**
 * A collection whose shard key is unique (U1); of a compound key, the combination.
 * @example unique({ userid: 1 }, { split: { at: [1_000_000_000] } })
 */
export function unique(
  key: KeyInput,
  options: Omit<CollectionDeclaration, "key" | "unique"> = {},
): CollectionDeclaration {
  return { ...options, key, unique: true };
}

/**
 * A sharded collection.
 * @example sharded({ userid: "hashed" })
 */
export function sharded(key: KeyInput, options: Omit<CollectionDeclaration, "key"> = {}): CollectionDeclaration {
  return { ...options, key };
}

/** Helpers must not throw on a bad key: `defineCluster` reports it with its path, together with all else. */
function asParts(key: KeyInput): readonly KeyPart[] {
  if (Array.isArray(key)) return key as readonly KeyPart[];
  try {
    return keyParts(key);
  } catch {
    return Object.entries(key).map(([field, kind]) => ({ field, kind }) as KeyPart);
  }
}

/** The same as `defineCluster` without an error: the problems, and the spec as far as it could be made. */
export function checkDeclaration(declaration: ClusterDeclaration): {
  spec: ClusterSpec | undefined;
  problems: Problem[];
} {
  const { read, problems } = readDeclaration(declaration);
  if (!read) return { spec: undefined, problems };
  const builder = new Builder(read, problems);
  return { spec: builder.build(), problems: builder.problems };
}

type ReadMember = NonNullable<NonNullable<ReadDeclaration["configServers"]>["members"]>[number];

class Builder {
  readonly #read: ReadDeclaration;
  readonly problems: Problem[];
  /** What names are taken by, and where: processes, replica sets and hosts are each unique in the cluster. */
  readonly #taken = {
    process: new Map<string, string>(),
    "replica set": new Map<string, string>(),
    host: new Map<string, string>(),
  };

  constructor(read: ReadDeclaration, problems: readonly Problem[]) {
    this.#read = read;
    this.problems = [...problems];
  }

  #add(path: string, message: string, rule: string, fix: string): void {
    this.problems.push({ path, message, rule, fix });
  }

  #name(name: string, path: string): void {
    const wrong = identifierProblem(name);
    if (wrong) this.problems.push({ path, ...wrong });
  }

  #take(kind: "process" | "replica set" | "host", value: string, path: string): boolean {
    const map = this.#taken[kind];
    const other = map.get(value);
    if (other === undefined) {
      map.set(value, path);
      return true;
    }
    this.#add(
      path,
      `the ${kind} ${value} is used by ${other} as well`,
      kind === "host"
        ? "two servers cannot listen at one address"
        : `names of ${kind === "process" ? "processes" : "replica sets"} are identities, unique in the cluster`,
      kind === "host" ? "give one of them another port" : "rename one of them",
    );
    return false;
  }

  #reference(kind: string, name: string, known: readonly string[], path: string): boolean {
    if (known.includes(name)) return true;
    const meant = nearest(name, known);
    this.#add(
      path,
      `there is no ${kind} ${name}`,
      `a ${kind} is declared before it is referred to`,
      meant ? `did you mean ${meant}?` : `use one of ${known.join(", ") || "those you declare"}`,
    );
    return false;
  }

  build(): ClusterSpec {
    this.#name(this.#read.name, "name");
    const datacenters = this.#datacenters();
    const shards = this.#shards(datacenters);
    const configServers = this.#configServers(datacenters);
    const routers = this.#routers(datacenters);
    const collections = this.#collections(datacenters, shards);
    const databases = this.#databases(collections, shards);
    const spec: ClusterSpec = {
      name: this.#read.name,
      datacenters,
      configServers,
      shards,
      routers,
      databases,
      collections,
      balancer: this.#balancer(),
      defaults: this.#defaults(shards),
      users: this.#users(databases),
    };
    return spec;
  }

  #datacenters(): DatacenterSpec[] {
    const datacenters: DatacenterSpec[] = [];
    const seen = new Map<string, string>();
    for (const [index, datacenter] of this.#read.datacenters.entries()) {
      if (!datacenter) continue;
      const path = `datacenters[${index}]`;
      const { name, label = name, witness = false } = datacenter;
      this.#name(name, path);
      const other = seen.get(name);
      if (other)
        this.#add(
          path,
          `the datacenter ${name} is ${other} as well`,
          "names of datacenters are unique",
          "rename or remove one of them",
        );
      else {
        seen.set(name, path);
        datacenters.push({ name, label, witness });
      }
    }
    const told = this.problems.some((problem) => problem.path.startsWith("datacenters"));
    if (datacenters.length === 0 && !told) {
      this.#add(
        "datacenters",
        "no datacenter",
        "a cluster lives somewhere",
        'name at least one, for example ["alfa", "bravo"]',
      );
    } else if (datacenters.length > 0 && datacenters.every((datacenter) => datacenter.witness)) {
      this.#add(
        "datacenters",
        "every datacenter is a witness",
        "a witness is home to no shard, so nothing would hold data",
        "remove witness: true from those that hold data",
      );
    }
    return datacenters;
  }

  #shards(datacenters: readonly DatacenterSpec[]): ShardSpec[] {
    const homes = datacenters.filter((datacenter) => !datacenter.witness).map(({ name }) => name);
    const read = this.#read;
    if (read.shards && read.shardsPerDatacenter !== undefined) {
      this.#add(
        "shardsPerDatacenter",
        "shards and shardsPerDatacenter together",
        "the shards are either listed or counted",
        "keep one of them",
      );
    }
    const counted = Array.from({ length: read.shardsPerDatacenter ?? 1 }, () => homes)
      .flat()
      .map((home, index) => ({ name: shardName(index), home }));
    const listed: NonNullable<ReadDeclaration["shards"]> = read.shards ?? counted;
    const shards: ShardSpec[] = [];
    for (const [index, shard] of listed.entries()) {
      if (!shard) continue;
      const path = `shards[${index}]`;
      this.#name(shard.name, `${path}.name`);
      const reserved = ["config", "admin", "local"].includes(shard.name);
      if (reserved) {
        this.#add(
          `${path}.name`,
          `a shard cannot be called ${shard.name}`,
          "the name belongs to the server",
          "rename it",
        );
      }
      const named = this.#take("replica set", shard.name, `${path}.name`) && !reserved;
      const known = this.#reference(
        "datacenter",
        shard.home,
        datacenters.map(({ name }) => name),
        `${path}.home`,
      );
      if (known && !homes.includes(shard.home)) {
        this.#add(
          `${path}.home`,
          `${shard.home} is a witness`,
          "a witness is home to no shard",
          "choose another home, or remove witness: true",
        );
      }
      for (const [position, zone] of (shard.zones ?? []).entries()) {
        if (zone !== undefined) this.#name(zone, `${path}.zones[${position}]`);
      }
      const members = shard.members ?? (known ? shardLayout(shard.home, datacenters) : undefined);
      const replicaSet: ReplicaSetSpec = {
        name: shard.name,
        role: "shard",
        home: shard.home,
        members: this.#members(
          members ?? [],
          { set: shard.name, home: shard.home, role: "shard", named },
          datacenters,
          path,
        ),
        settings: shard.settings ?? {},
      };
      // With an unknown home, that is the mistake, and what follows from it would only be noise.
      if (known && members) this.problems.push(...this.#setProblems(replicaSet, members, path));
      shards.push({
        name: shard.name,
        home: shard.home,
        zones: [...new Set((shard.zones ?? [shard.home]).filter((zone) => zone !== undefined))].sort(),
        replicaSet,
      });
    }
    if (read.shards) {
      if (listed.length === 0)
        this.#add("shards", "no shard", "a sharded cluster has at least one shard", "list one, or leave the list out");
      for (const [index, datacenter] of read.datacenters.entries()) {
        if (!datacenter || datacenter.witness || shards.some((shard) => shard.home === datacenter.name)) continue;
        if (listed.length === 0) continue;
        this.#add(
          `datacenters[${index}]`,
          `${datacenter.name} is home to no shard, so it has no electable member of its own`,
          "each datacenter writes its own data (M4); one that only votes is a witness",
          `add a shard with home: "${datacenter.name}", or set witness: true`,
        );
      }
    }
    return shards;
  }

  /** The rules speak of positions in the list that they see; a list with holes has others. */
  #setProblems(set: ReplicaSetSpec, members: readonly (ReadMember | undefined)[], path: string): Problem[] {
    const positions = members.flatMap((member, index) => (member ? [index] : []));
    const problems = replicaSetProblems(set, path);
    if (positions.length < members.length) {
      // Counts of voters and homes cannot be judged while a member is unreadable.
      return problems
        .filter((problem) => problem.path !== `${path}.members`)
        .map((problem) => ({
          ...problem,
          path: problem.path.replace(/members\[(\d+)\]/, (_, index) => `members[${positions[Number(index)] ?? index}]`),
        }));
    }
    return problems;
  }

  #members(
    members: readonly (MemberDeclaration | ReadMember | undefined)[],
    { set, home, role, named }: { set: string; home: string; role: "shard" | "config"; named: boolean },
    datacenters: readonly DatacenterSpec[],
    setPath: string,
  ): MemberSpec[] {
    const counts = new Map<string, number>();
    return members.flatMap((member, index) => {
      if (!member) return [];
      const path = `${setPath}.members[${index}]`;
      const { datacenter, arbiterOnly = false, hidden = false, secondaryDelaySecs = 0, votes = 1 } = member;
      this.#reference(
        "datacenter",
        datacenter,
        datacenters.map(({ name }) => name),
        `${path}.datacenter`,
      );
      const count = counts.get(datacenter) ?? 0;
      counts.set(datacenter, count + 1);
      const prefix = role === "config" ? "config" : set;
      const name = member.name ?? `${prefix}-${datacenter}-${count}`;
      if (member.name !== undefined) this.#name(name, `${path}.name`);
      // Names made from that of a set that is not unique would only repeat that mistake.
      if (member.name !== undefined) this.#take("process", name, `${path}.name`);
      else if (named) this.#take("process", name, path);
      const atHome = datacenter === home;
      const usual = role === "config" ? (atHome ? 2 : 1) : atHome ? 1 : 0;
      const never = arbiterOnly || hidden || secondaryDelaySecs > 0 || votes === 0;
      const tags = member.tags ?? {};
      if (tags.datacenter !== undefined && tags.datacenter !== datacenter) {
        this.#add(
          `${path}.tags.datacenter`,
          `the tag says ${tags.datacenter}, the member is in ${datacenter}`,
          "the tag datacenter names the member's datacenter (M1)",
          "leave the tag out; it is set by itself",
        );
      }
      return [
        {
          name,
          datacenter,
          host: this.#host(member.host, `${path}.host`),
          priority: member.priority ?? (never ? 0 : usual),
          votes,
          hidden,
          arbiterOnly,
          secondaryDelaySecs,
          // The server refuses tags on arbiters.
          tags: arbiterOnly ? tags : { ...tags, datacenter },
        },
      ];
    });
  }

  #host(host: string | undefined, path: string): string | undefined {
    if (host === undefined) return undefined;
    const wrong = hostProblem(host);
    if (wrong) {
      this.#add(
        path,
        wrong.message,
        "members are known by host and port; without the port nothing matches what the server keeps",
        wrong.fix,
      );
      return undefined;
    }
    const normal = normaliseHost(host);
    this.#take("host", normal, path);
    return normal;
  }

  #configServers(datacenters: readonly DatacenterSpec[]): ReplicaSetSpec {
    const declared = this.#read.configServers ?? {};
    const path = "configServers";
    const name = declared.name ?? "configReplSet";
    this.#name(name, `${path}.name`);
    const named = this.#take("replica set", name, `${path}.name`);
    const members = declared.members ?? configLayout(datacenters);
    const witness = (datacenter: string) => datacenters.find((one) => one.name === datacenter)?.witness ?? false;
    const places = members.flatMap((member) => (member ? [member.datacenter] : []));
    const home = declared.home ?? places.find((place) => !witness(place)) ?? places[0] ?? "";
    const known =
      declared.home === undefined ||
      this.#reference(
        "datacenter",
        home,
        datacenters.map((one) => one.name),
        `${path}.home`,
      );
    const set: ReplicaSetSpec = {
      name,
      role: "config",
      home,
      members: this.#members(members, { set: name, home, role: "config", named }, datacenters, path),
      settings: declared.settings ?? {},
    };
    if (known && datacenters.length > 0) this.problems.push(...this.#setProblems(set, members, path));
    return set;
  }

  #routers(datacenters: readonly DatacenterSpec[]): RouterSpec[] {
    const read = this.#read;
    if (read.routers && read.routersPerDatacenter !== undefined) {
      this.#add(
        "routersPerDatacenter",
        "routers and routersPerDatacenter together",
        "the routers are either listed or counted",
        "keep one of them",
      );
    }
    const each = read.routersPerDatacenter ?? 1;
    const counted: NonNullable<ReadDeclaration["routers"]> = datacenters
      .filter((datacenter) => !datacenter.witness)
      .flatMap(({ name }) =>
        Array.from({ length: each }, (_, index) => ({
          name: index === 0 ? `mongos-${name}` : `mongos-${name}-${index}`,
          datacenter: name,
        })),
      );
    const listed = read.routers ?? counted;
    return listed.flatMap((router, index) => {
      if (!router) return [];
      const path = `routers[${index}]`;
      if (read.routers) this.#name(router.name, `${path}.name`);
      this.#take("process", router.name, `${path}.name`);
      this.#reference(
        "datacenter",
        router.datacenter,
        datacenters.map(({ name }) => name),
        `${path}.datacenter`,
      );
      return [{ name: router.name, datacenter: router.datacenter, host: this.#host(router.host, `${path}.host`) }];
    });
  }

  #collections(datacenters: readonly DatacenterSpec[], shards: readonly ShardSpec[]): CollectionSpec[] {
    const zones = new Set(shards.flatMap((shard) => shard.zones));
    // A shard that could not be read may have carried any zone: then a zone's absence proves nothing.
    const complete = !this.#read.shards?.some((shard) => shard === undefined);
    const homes = datacenters.filter((datacenter) => !datacenter.witness).map(({ name }) => name);
    const everything = { has: () => true } as unknown as ReadonlySet<string>;
    return Object.entries(this.#read.collections ?? {}).map(([namespace, collection]) => {
      const path = formatPath(["collections", namespace]);
      const wrong = namespaceProblem(namespace);
      if (wrong) this.problems.push({ path, ...wrong });
      const { spec, problems } = readCollection(
        namespace,
        collection,
        { zones: complete ? zones : everything, homes },
        path,
      );
      this.problems.push(...problems);
      return spec;
    });
  }

  #databases(collections: readonly CollectionSpec[], shards: readonly ShardSpec[]): DatabaseSpec[] {
    const declared = this.#read.databases ?? {};
    for (const [name, database] of Object.entries(declared)) {
      const path = formatPath(["databases", name]);
      const wrong = databaseNameProblem(name);
      if (wrong) this.problems.push({ path, ...wrong });
      if (database.primaryShard !== undefined) {
        this.#reference(
          "shard",
          database.primaryShard,
          shards.map((shard) => shard.name),
          `${path}.primaryShard`,
        );
      }
    }
    const names = new Set([
      ...Object.keys(declared),
      ...collections
        .filter(({ namespace }) => !namespaceProblem(namespace))
        .map(({ namespace }) => splitNamespace(namespace).database),
    ]);
    const byCase = new Map<string, string>();
    for (const name of names) {
      const other = byCase.get(name.toLowerCase());
      if (other !== undefined) {
        this.#add(
          formatPath(["databases", name]),
          `the databases ${other} and ${name} differ only in case`,
          "the server refuses that",
          "use one spelling",
        );
      }
      byCase.set(name.toLowerCase(), name);
    }
    return [...names].map((name) => ({ name, primaryShard: declared[name]?.primaryShard }));
  }

  #balancer(): ClusterSpec["balancer"] {
    const { enabled = true, activeWindow = null, chunkSizeMiB } = this.#read.balancer ?? {};
    if (activeWindow) {
      const path = "balancer.activeWindow";
      for (const side of ["start", "stop"] as const) {
        if (!/^([01]\d|2[0-3]):[0-5]\d$/.test(activeWindow[side])) {
          this.#add(
            `${path}.${side}`,
            `"${activeWindow[side]}" is not a time of day`,
            "times are HH:MM, from 00:00 to 23:59",
            'write for example "23:00"',
          );
        }
      }
      if (activeWindow.start === activeWindow.stop) {
        this.#add(
          path,
          "the window begins and ends at the same time",
          "the server refuses such a window",
          "choose another end, or null for no window",
        );
      }
    }
    return { enabled, activeWindow, chunkSizeMiB };
  }

  #defaults(shards: readonly ShardSpec[]): ClusterSpec["defaults"] {
    const { readConcern, writeConcern } = this.#read.defaults ?? {};
    if (writeConcern?.w === 0) {
      this.#add(
        "defaults.writeConcern.w",
        "a default of w: 0",
        "the server refuses unacknowledged writes as the default",
        'use "majority" or 1 and up',
      );
    }
    if (writeConcern === null) {
      const arbiters = shards.flatMap((shard, index) =>
        shard.replicaSet.members.some((member) => member.arbiterOnly) ? [`shards[${index}]`] : [],
      );
      if (arbiters.length > 0) {
        this.#add(
          "defaults.writeConcern",
          `not managed, while ${arbiters.join(", ")} has an arbiter`,
          "with an arbiter the server's own default may be w: 1, and it refuses such a shard until a default write concern is set",
          'set { w: "majority" }, or remove the arbiter',
        );
      }
    }
    return {
      readConcern,
      writeConcern:
        writeConcern === null
          ? undefined
          : { w: writeConcern?.w ?? "majority", wtimeoutMillis: writeConcern?.wtimeoutMillis ?? 0 },
    };
  }

  #users(databases: readonly DatabaseSpec[]): UserSpec[] {
    const { admin = "admin", application = {}, monitoring = null, others = [] } = this.#read.users ?? {};
    const users: { user: UserSpec; path: string }[] = [
      {
        path: "users.admin",
        user: { name: admin, database: "admin", roles: [{ role: "root", database: "admin" }], purpose: "admin" },
      },
    ];
    if (application) {
      const known = databases.map(({ name }) => name);
      for (const [index, name] of (application.databases ?? []).entries()) {
        if (name !== undefined) this.#reference("database", name, known, `users.application.databases[${index}]`);
      }
      users.push({
        path: "users.application",
        user: {
          name: application.name ?? "application",
          database: "admin",
          roles: (application.databases ?? known).map((database) => ({ role: "readWrite", database })),
          purpose: "application",
        },
      });
    }
    if (monitoring !== null) {
      users.push({
        path: "users.monitoring",
        user: {
          name: monitoring,
          database: "admin",
          roles: [{ role: "clusterMonitor", database: "admin" }],
          purpose: "monitoring",
        },
      });
    }
    for (const [index, other] of others.entries()) {
      if (!other) continue;
      const path = `users.others[${index}]`;
      if (other.roles.length === 0)
        this.#add(
          `${path}.roles`,
          `${other.name} has no role`,
          "a user without a role can do nothing",
          "name a role, or remove the user",
        );
      users.push({
        path,
        user: {
          name: other.name,
          database: other.database ?? "admin",
          roles: other.roles.filter((role) => role !== undefined),
          purpose: "other",
        },
      });
    }
    const seen = new Map<string, string>();
    for (const { user, path } of users) {
      const identity = `${user.database}.${user.name}`;
      const other = seen.get(identity);
      if (user.name === "")
        this.#add(path, "the user has no name", "users are known by name and database", "give it a name");
      else if (other)
        this.#add(
          path,
          `the user ${user.name} of ${user.database} is ${other} as well`,
          "users are known by name and database",
          "rename one of them",
        );
      else if (user.name === "__system")
        this.#add(path, "__system belongs to the server", "members log in to each other with it", "use another name");
      seen.set(identity, path);
    }
    return users.map(({ user }) => user);
  }
}
