import type { Connection } from "../../model/connection.ts";
import type { ClusterDefaultsState } from "../../model/state.ts";
import type { Operation } from "../context.ts";
import { told } from "../errors.ts";
import { admin, READ_MILLIS } from "../metadata.ts";

/** The cluster-wide default read and write concern that are in effect, set or implied. */
export async function observeDefaults(op: Operation, connection: Connection): Promise<ClusterDefaultsState> {
  return told("read the default read and write concern", connection.hosts.join(","), async () => {
    const client = await op.connections.reader(connection);
    const { defaultReadConcern, defaultWriteConcern } = await admin(client, {
      getDefaultRWConcern: 1,
      maxTimeMS: READ_MILLIS,
    });
    return {
      ...(defaultReadConcern?.level === undefined ? {} : { readConcern: defaultReadConcern.level }),
      ...(defaultWriteConcern?.w === undefined
        ? {}
        : {
            writeConcern: {
              w: typeof defaultWriteConcern.w === "string" ? defaultWriteConcern.w : Number(defaultWriteConcern.w),
              wtimeoutMillis: Number(defaultWriteConcern.wtimeout ?? 0),
            },
          }),
    };
  });
}
