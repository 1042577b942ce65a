/** The package's public face: what a program that declares a cluster imports. */
export {
  canonicalBsonText,
  compareBson,
  compareValues,
  fromBsonText,
  MAX_KEY,
  MIN_KEY,
  readableBson,
  sameBson,
  toBsonText,
} from "./bson-text.ts";
export type { Connection, Credential } from "./connection.ts";
export type {
  BalancerDeclaration,
  ClusterDeclaration,
  CollectionDeclaration,
  ConfigServersDeclaration,
  DatabaseDeclaration,
  DatacenterDeclaration,
  DefaultsDeclaration,
  IndexDeclaration,
  MemberDeclaration,
  PerDatacenterDeclaration,
  RouterDeclaration,
  ShardDeclaration,
  SplitDeclaration,
  UserDeclaration,
  UsersDeclaration,
} from "./declaration.ts";
export { checkDeclaration, defineCluster, perDatacenter, sharded, unique } from "./define-cluster.ts";
export { normaliseHost, processNames, withHosts } from "./host.ts";
export { type KeyInput, keyDocument, keyParts, keyText, partsFromDocument } from "./key.ts";
export { AlfabravoError, formatProblems, InvalidDeclarationError, type Problem } from "./problem.ts";
export type {
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
export type {
  BalancerState,
  BsonText,
  ClusterDefaultsState,
  CollectionState,
  DatabaseState,
  HostPort,
  IndexState,
  KeyPart,
  MemberState,
  Namespace,
  ReplicaSetSettings,
  ReplicaSetState,
  ShardState,
  Snapshot,
  UserState,
  ZoneRange,
} from "./state.ts";
export {
  boundForServer,
  completeBound,
  completeRange,
  type DatacenterValues,
  overlappingPairs,
  type RangeInput,
  rangesPerDatacenter,
  splitRanges,
  zoneOf,
} from "./zone-range.ts";
