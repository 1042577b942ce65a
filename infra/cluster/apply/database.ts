import type { Connection } from "../../model/connection.ts";
import { AlfabravoError } from "../../model/problem.ts";
import type { DatabaseState } from "../../model/state.ts";
import type { Operation } from "../context.ts";
import { told } from "../errors.ts";
import { admin, WRITE_MILLIS } from "../metadata.ts";
import { observeDatabases } from "../observe/databases.ts";

/**
 * Makes the database exist, on its primary shard when one is declared. A database that lives elsewhere is not moved
 * here: `movePrimary` takes its unsharded collections offline, so it is done on purpose (it is what `removeShard` does).
 *
 * @returns the database as read back
 */
export async function applyDatabase(
  op: Operation,
  connection: Connection,
  desired: DatabaseState,
): Promise<DatabaseState> {
  const find = async () => (await observeDatabases(op, connection)).find(({ name }) => name === desired.name);
  const present = await find();
  if (!present) {
    op.progress(`creating the database ${desired.name}`);
    await told(`create the database ${desired.name}`, connection.hosts.join(","), async () => {
      const client = await op.connections.router(connection);
      await admin(client, {
        enableSharding: desired.name,
        ...(desired.primaryShard === undefined ? {} : { primaryShard: desired.primaryShard }),
        maxTimeMS: WRITE_MILLIS,
      });
    });
  }
  const state = present ?? (await find());
  if (!state) {
    throw new AlfabravoError(`the database ${desired.name} is missing right after its creation`, {
      where: connection.hosts.join(","),
      next: "another program drops it: stop it, then run again",
    });
  }
  if (desired.primaryShard !== undefined && state.primaryShard !== desired.primaryShard) {
    throw new AlfabravoError(
      `the database ${desired.name} has the primary shard ${state.primaryShard}, not ${desired.primaryShard}`,
      {
        where: desired.name,
        next: `run db.adminCommand({ movePrimary: "${desired.name}", to: "${desired.primaryShard}" }) while its unsharded collections are not used, or declare ${state.primaryShard}`,
      },
    );
  }
  return state;
}
