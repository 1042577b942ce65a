import type { Connection } from "../../model/connection.ts";
import type { DatabaseState } from "../../model/state.ts";
import type { Operation } from "../context.ts";

export async function applyDatabase(
  op: Operation,
  connection: Connection,
  desired: DatabaseState,
): Promise<DatabaseState> {
  throw new Error("applyDatabase is not written yet");
}
