import type { Connection } from "../model/connection.ts";
import type { Namespace } from "../model/state.ts";
import type { Operation } from "./context.ts";

export interface Placement {
  readonly namespace: Namespace;
  readonly chunks: number;
  /** Chunks whose shard does not carry the zone of their range. */
  readonly misplacedChunks: number;
  readonly chunksPerShard: Readonly<Record<string, number>>;
}

export async function waitForCompliance(
  op: Operation,
  connection: Connection,
  namespace: Namespace,
  options: { stallMillis?: number | undefined } = {},
): Promise<Placement> {
  throw new Error("waitForCompliance is not written yet");
}
