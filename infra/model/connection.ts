/** How to reach servers. The secret parts (`keyfile`, `password`) are kept as Pulumi secrets and never logged. */
export interface Connection {
  /** Routers, or the members of one replica set. */
  readonly hosts: readonly string[];
  /** Set when the hosts are the members of one replica set. */
  readonly replicaSet?: string | undefined;
  readonly credential: Credential;
  /** Path of a CA file in PEM; undefined means no TLS. */
  readonly tlsCaFile?: string | undefined;
}

/**
 * `keyfile`: log in as the internal user `__system`, as members of the cluster do. It exists before any user does and
 * on every member, so a cluster can be brought up without the localhost exception and its race.
 */
export type Credential =
  | { readonly kind: "keyfile"; readonly keyfile: string }
  | { readonly kind: "scram"; readonly username: string; readonly password: string; readonly authSource: string };
