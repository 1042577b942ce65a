import type { Document } from "mongodb";
import type { Connection } from "../../model/connection.ts";
import type { UserState } from "../../model/state.ts";
import type { Operation } from "../context.ts";
import { told } from "../errors.ts";
import { admin, READ_MILLIS } from "../metadata.ts";

/** Every user of the cluster (not those of single shards), with roles and without passwords. */
export async function observeUsers(op: Operation, connection: Connection): Promise<UserState[]> {
  return told("read the users", connection.hosts.join(","), async () => {
    const client = await op.connections.reader(connection);
    const { users } = await admin(client, { usersInfo: { forAllDBs: true }, maxTimeMS: READ_MILLIS });
    return (users as Document[]).map(userFromInfo);
  });
}

export function userFromInfo(info: Document): UserState {
  return {
    name: String(info.user),
    database: String(info.db),
    roles: (info.roles as { role: string; db: string }[]).map(({ role, db }) => ({ role, database: db })),
  };
}
