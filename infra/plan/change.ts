/** The kinds of things that are managed; the Pulumi resources bear the same names. */
export type ResourceKind =
  | "ReplicaSet"
  | "Shard"
  | "Database"
  | "ShardedCollection"
  | "Balancer"
  | "ClusterDefaults"
  | "User";

export interface ResourceRef {
  readonly kind: ResourceKind;
  /** The identity of the thing in its kind (see model/state.ts). */
  readonly name: string;
}

/** A value as it is shown and compared: plain JSON. */
export type Plain = null | boolean | number | string | readonly Plain[] | { readonly [key: string]: Plain };

/**
 * One difference between what is desired and what is observed.
 * - `create`: it is missing; - `update`: the field at `path` has another value; - `delete`: it is there and must go;
 * - `seen`: it is there, and nobody declared it: reported, never touched.
 */
export interface Change {
  readonly resource: ResourceRef;
  readonly action: "create" | "update" | "delete" | "seen";
  /** The field, with list items named by identity: `members[127.0.0.1:27101].priority`, `ranges[{"k":1}].zone`; "" is the whole. */
  readonly path: string;
  readonly desired?: Plain | undefined;
  readonly observed?: Plain | undefined;
}
