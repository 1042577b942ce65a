/** The provider's resources as a Pulumi program sees them. */
import * as pulumi from "@pulumi/pulumi";
import type { KeyfileInputs, KeyfileState } from "../provider/resources/keyfile.ts";
import type { LocalProcessInputs, LocalProcessState } from "../provider/resources/local-process.ts";

/** Each field plain or as another resource's output; fields with a default may be left out. */
export type Args<Inputs, Optional extends keyof Inputs = never> = {
  readonly [K in Exclude<keyof Inputs, Optional>]: pulumi.Input<Inputs[K]>;
} & { readonly [K in Optional]?: pulumi.Input<Inputs[K] | undefined> };

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
