import type { Connection } from "../../model/connection.ts";
import type { CollectionState, Namespace } from "../../model/state.ts";
import type { Operation } from "../context.ts";

export async function observeCollections(
  op: Operation,
  connection: Connection,
  namespaces?: readonly Namespace[],
): Promise<CollectionState[]> {
  throw new Error("observeCollections is not written yet");
}
