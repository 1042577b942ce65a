import type { Outcome } from "./case.ts";

/** An answer that differs from the recorded one because the servers behind the router are newer, not because of the router. */
export interface VersionDifference {
  readonly case: string;
  /** Position of the step in its case, from 0. */
  readonly step: number;
  /** First major version that answers so. */
  readonly since: number;
  readonly want: Outcome;
  readonly reason: string;
}

/** The cases were recorded on mongos 5.0.7 over mongod 5.0.32; what later servers answer otherwise stands here. */
export const VERSION_DIFFERENCES: readonly VersionDifference[] = [
  {
    case: "balancer",
    step: 5,
    since: 6,
    want: { code: 118, codeName: "NamespaceNotSharded" },
    reason: "since 6.0 the config servers answer so for every collection that is not sharded, there or not",
  },
];
