import type { Connection } from "../../model/connection.ts";
import type { UserState } from "../../model/state.ts";
import type { Operation } from "../context.ts";

export async function applyUser(
  op: Operation,
  connection: Connection,
  desired: UserState,
  password: string,
): Promise<UserState> {
  throw new Error("applyUser is not written yet");
}

export async function removeUser(
  op: Operation,
  connection: Connection,
  user: Pick<UserState, "name" | "database">,
): Promise<void> {
  throw new Error("removeUser is not written yet");
}
