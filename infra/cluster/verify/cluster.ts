import type { Connection, Credential } from "../../model/connection.ts";
import type { ClusterSpec } from "../../model/spec.ts";
import type { Operation } from "../context.ts";

export interface Check {
  /** The rule it proves, e.g. `M5`. */
  readonly id: string;
  readonly title: string;
  /** `unknown`: it could not be told, and `problems` says why. */
  readonly status: "passed" | "failed" | "unknown";
  /** What was seen, with numbers. */
  readonly evidence: readonly string[];
  readonly problems: readonly string[];
}

export interface VerifyRequest {
  readonly spec: ClusterSpec;
  readonly connection: Connection;
  readonly memberCredential?: Credential | undefined;
}

export async function verifyCluster(op: Operation, request: VerifyRequest): Promise<Check[]> {
  throw new Error("verifyCluster is not written yet");
}
