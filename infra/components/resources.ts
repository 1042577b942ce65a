/** The provider's resources as a Pulumi program sees them. */
import * as pulumi from "@pulumi/pulumi";
import type { BalancerInputs } from "../provider/resources/balancer.ts";
import type { ClusterDefaultsInputs } from "../provider/resources/cluster-defaults.ts";
import type { DatabaseInputs } from "../provider/resources/database.ts";
import type { KeyfileInputs, KeyfileState } from "../provider/resources/keyfile.ts";
import type { LocalProcessInputs, LocalProcessState } from "../provider/resources/local-process.ts";
import type { ReplicaSetInputs } from "../provider/resources/replica-set.ts";
import type { ShardInputs } from "../provider/resources/shard.ts";
import type { ShardedCollectionInputs } from "../provider/resources/sharded-collection.ts";
import type { UserInputs } from "../provider/resources/user.ts";

/** A value whose parts, at any depth, may be another resource's outputs. */
export type Nested<T> = pulumi.Input<
  T extends readonly (infer Item)[]
    ? readonly Nested<Item>[]
    : T extends object
      ? { readonly [K in keyof T]: Nested<T[K]> }
      : T
>;

type Wrapped<T> = { readonly [K in keyof T]: Nested<T[K]> };

/** A resource's inputs; fields with a default may be left out. */
export type Args<Inputs, Optional extends keyof Inputs = never> = Wrapped<
  Omit<Inputs, Optional> & { readonly [K in Optional]?: Inputs[K] | undefined }
>;

/** Outputs exist on a resource only when they are named among its properties. */
function properties(outputs: readonly string[], args: object): pulumi.Inputs {
  return { ...Object.fromEntries(outputs.map((name) => [name, undefined])), ...args };
}

/** The secret that the members of a cluster share, in a file. */
export class Keyfile extends pulumi.CustomResource {
  declare readonly path: pulumi.Output<KeyfileState["path"]>;
  declare readonly content: pulumi.Output<KeyfileState["content"]>;

  constructor(name: string, args: Args<KeyfileInputs, "purge">, options?: pulumi.CustomResourceOptions) {
    super("alfabravo:index:Keyfile", name, properties(["content"], args), options);
  }
}

/** A mongod or mongos on loopback that lives on when `pulumi up` has ended. */
export class LocalProcess extends pulumi.CustomResource {
  /** `host:port`. */
  declare readonly host: pulumi.Output<LocalProcessState["host"]>;
  declare readonly actualPort: pulumi.Output<LocalProcessState["actualPort"]>;
  declare readonly pid: pulumi.Output<LocalProcessState["pid"]>;
  declare readonly logPath: pulumi.Output<LocalProcessState["logPath"]>;
  declare readonly version: pulumi.Output<LocalProcessState["version"]>;
  declare readonly running: pulumi.Output<LocalProcessState["running"]>;

  constructor(name: string, args: Args<LocalProcessInputs, "port" | "purge">, options?: pulumi.CustomResourceOptions) {
    super(
      "alfabravo:index:LocalProcess",
      name,
      properties(["host", "actualPort", "pid", "logPath", "version", "running"], args),
      options,
    );
  }
}

/** The configuration of a replica set. */
export class ReplicaSet extends pulumi.CustomResource {
  declare readonly members: pulumi.Output<ReplicaSetInputs["members"]>;

  constructor(name: string, args: Args<ReplicaSetInputs, "tlsCaFile">, options?: pulumi.CustomResourceOptions) {
    super("alfabravo:index:ReplicaSet", name, properties(["members"], args), options);
  }
}

/** A user with a password, given or generated. */
export class User extends pulumi.CustomResource {
  declare readonly name: pulumi.Output<string>;
  declare readonly database: pulumi.Output<string>;
  declare readonly password: pulumi.Output<string>;

  constructor(name: string, args: Args<UserInputs, "password">, options?: pulumi.CustomResourceOptions) {
    super("alfabravo:index:User", name, properties(["name", "database", "password"], args), {
      ...options,
      additionalSecretOutputs: ["password"],
    });
  }
}

/** A shard with its zones. */
export class Shard extends pulumi.CustomResource {
  constructor(name: string, args: Args<ShardInputs, "draining">, options?: pulumi.CustomResourceOptions) {
    super("alfabravo:index:Shard", name, properties([], args), options);
  }
}

/** A database with its primary shard. */
export class Database extends pulumi.CustomResource {
  constructor(name: string, args: Args<DatabaseInputs>, options?: pulumi.CustomResourceOptions) {
    super("alfabravo:index:Database", name, properties([], args), options);
  }
}

/** A sharded collection: key, zone ranges and indexes. */
export class ShardedCollection extends pulumi.CustomResource {
  constructor(
    name: string,
    args: Args<ShardedCollectionInputs, "waitForBalance">,
    options?: pulumi.CustomResourceOptions,
  ) {
    super("alfabravo:index:ShardedCollection", name, properties([], args), options);
  }
}

/** The balancer's settings. */
export class Balancer extends pulumi.CustomResource {
  constructor(name: string, args: Args<BalancerInputs>, options?: pulumi.CustomResourceOptions) {
    super("alfabravo:index:Balancer", name, properties([], args), options);
  }
}

/** The cluster-wide default read and write concern. */
export class ClusterDefaults extends pulumi.CustomResource {
  constructor(name: string, args: Args<ClusterDefaultsInputs>, options?: pulumi.CustomResourceOptions) {
    super("alfabravo:index:ClusterDefaults", name, properties([], args), options);
  }
}
