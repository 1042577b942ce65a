import type { Connection } from "../../model/connection.ts";
import type { ClusterDefaultsState } from "../../model/state.ts";
import { diffDefaults } from "../../plan/diff.ts";
import type { Operation } from "../context.ts";
import { told } from "../errors.ts";
import { admin, WRITE_MILLIS } from "../metadata.ts";
import { observeDefaults } from "../observe/defaults.ts";

/** Sets the default read and write concern. @returns the defaults as read back */
export async function applyDefaults(
  op: Operation,
  connection: Connection,
  desired: ClusterDefaultsState,
): Promise<ClusterDefaultsState> {
  const present = await observeDefaults(op, connection);
  if (diffDefaults(desired, present).length === 0) return present;
  const { readConcern, writeConcern } = desired;
  op.progress("setting the default read and write concern");
  await set(op, connection, {
    ...(readConcern === undefined ? {} : { defaultReadConcern: { level: readConcern } }),
    ...(writeConcern === undefined
      ? {}
      : { defaultWriteConcern: { w: writeConcern.w, wtimeout: writeConcern.wtimeoutMillis } }),
  });
  return observeDefaults(op, connection);
}

/**
 * Back to the server's default read concern. The default write concern cannot be unset once it is set (5.0 on), so it
 * becomes `majority` without a timeout, which is what holds when none is set.
 */
export async function resetDefaults(op: Operation, connection: Connection): Promise<void> {
  await set(op, connection, { defaultReadConcern: {}, defaultWriteConcern: { w: "majority", wtimeout: 0 } });
}

async function set(op: Operation, connection: Connection, defaults: object): Promise<void> {
  await told("set the default read and write concern", connection.hosts.join(","), async () => {
    const client = await op.connections.router(connection);
    await admin(client, {
      setDefaultRWConcern: 1,
      ...defaults,
      writeConcern: { w: "majority", wtimeout: WRITE_MILLIS },
      maxTimeMS: WRITE_MILLIS,
    });
  });
}
