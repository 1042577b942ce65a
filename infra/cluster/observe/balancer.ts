import type { Connection } from "../../model/connection.ts";
import type { BalancerState } from "../../model/state.ts";
import type { Operation } from "../context.ts";

export async function observeBalancer(op: Operation, connection: Connection): Promise<BalancerState> {
  throw new Error("observeBalancer is not written yet");
}
