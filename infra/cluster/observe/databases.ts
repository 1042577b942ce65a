import type { Connection } from "../../model/connection.ts";
import type { DatabaseState } from "../../model/state.ts";
import type { Operation } from "../context.ts";

export async function observeDatabases(op: Operation, connection: Connection): Promise<DatabaseState[]> {
  throw new Error("observeDatabases is not written yet");
}
