import type { Connection } from "../../model/connection.ts";
import type { CollectionState } from "../../model/state.ts";
import type { Operation } from "../context.ts";

export interface CollectionOptions {
  /** What was applied last: ranges and indexes in it that are no longer desired are removed; others are left alone. */
  readonly previous?: CollectionState | undefined;
  /** Wait until every chunk lies in its zone (M5). Default true. */
  readonly waitForBalance?: boolean | undefined;
  /** Milliseconds without any progress of the balancer after which the wait stops with the reason. Default 120,000. */
  readonly stallMillis?: number | undefined;
}

export async function applyCollection(
  op: Operation,
  connection: Connection,
  desired: CollectionState,
  options: CollectionOptions = {},
): Promise<CollectionState> {
  throw new Error("applyCollection is not written yet");
}
