import type { Connection } from "../../model/connection.ts";
import type { UserState } from "../../model/state.ts";
import type { Operation } from "../context.ts";

export async function observeUsers(op: Operation, connection: Connection): Promise<UserState[]> {
  throw new Error("observeUsers is not written yet");
}
