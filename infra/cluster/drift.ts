import type { Connection, Credential } from "../model/connection.ts";
import type { Problem } from "../model/problem.ts";
import type { ClusterSpec } from "../model/spec.ts";
import type { Change } from "../plan/change.ts";
import type { Operation } from "./context.ts";

export interface DriftRequest {
  readonly spec: ClusterSpec;
  readonly connection: Connection;
  readonly memberCredential?: Credential | undefined;
}

export async function detectDrift(
  op: Operation,
  request: DriftRequest,
): Promise<{ changes: Change[]; unseen: Problem[] }> {
  throw new Error("detectDrift is not written yet");
}
