import type { Connection } from "../model/connection.ts";
import type { Namespace } from "../model/state.ts";
import type { Operation } from "./context.ts";

export interface WarmResult {
  readonly namespace: Namespace;
  readonly shard: string;
  /** Members of the shard that hold data. */
  readonly members: number;
  /** The members that served a routed read, as they name themselves. */
  readonly served: readonly string[];
  readonly millis: number;
}

export async function warmMembers(
  op: Operation,
  connection: Connection,
  namespaces: readonly Namespace[],
): Promise<WarmResult[]> {
  throw new Error("warmMembers is not written yet");
}
