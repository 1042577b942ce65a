import type { Connection } from "../../model/connection.ts";
import type { DatabaseState } from "../../model/state.ts";
import type { Operation } from "../context.ts";
import { told } from "../errors.ts";
import { readConfig } from "../metadata.ts";

/** Every database but the server's own, with its primary shard, by name. */
export async function observeDatabases(op: Operation, connection: Connection): Promise<DatabaseState[]> {
  return told("read the databases", connection.hosts.join(","), async () => {
    const rows = await readConfig(await op.connections.reader(connection), "databases", {
      _id: { $nin: ["config", "admin", "local"] as never[] },
    });
    return rows
      .map((row) => ({ name: String(row._id), primaryShard: String(row.primary) }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  });
}
