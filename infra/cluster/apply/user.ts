import type { Connection } from "../../model/connection.ts";
import { AlfabravoError } from "../../model/problem.ts";
import type { UserState } from "../../model/state.ts";
import { diffUser } from "../../plan/diff.ts";
import { clientOptions } from "../connections.ts";
import type { Operation } from "../context.ts";
import { Code, hasCode, told } from "../errors.ts";
import { READ_MILLIS, WRITE_MILLIS } from "../metadata.ts";
import { userFromInfo } from "../observe/users.ts";

const WRITE_CONCERN = { w: "majority", wtimeout: WRITE_MILLIS };

/**
 * Creates the user, or gives it the desired roles and password. Whether the password already holds is found by logging
 * in with it, since a server never shows one; a password that holds is not written again.
 *
 * @returns the user as read back
 */
export async function applyUser(
  op: Operation,
  connection: Connection,
  desired: UserState,
  password: string,
): Promise<UserState> {
  const { name, database, roles } = desired;
  const label = `user ${database}.${name}`;
  return told(`apply the ${label}`, connection.hosts.join(","), async () => {
    const db = (await op.connections.router(connection)).db(database);
    const find = async () => {
      const { users } = await db.command({ usersInfo: { user: name, db: database }, maxTimeMS: READ_MILLIS });
      return users[0] === undefined ? undefined : userFromInfo(users[0]);
    };
    const present = await find();
    const grants = roles.map(({ role, database: on }) => ({ role, db: on }));
    if (!present) {
      op.progress(`creating the ${label}`);
      await db.command({ createUser: name, pwd: password, roles: grants, writeConcern: WRITE_CONCERN });
    } else {
      const rolesDiffer = diffUser(desired, present).length > 0;
      const passwordHolds = await logsIn(connection, desired, password);
      if (!rolesDiffer && passwordHolds) return present;
      op.progress(
        `changing the ${[rolesDiffer && "roles", !passwordHolds && "password"].filter(Boolean).join(" and ")} of the ${label}`,
      );
      await db.command({
        updateUser: name,
        ...(rolesDiffer ? { roles: grants } : {}),
        ...(passwordHolds ? {} : { pwd: password }),
        writeConcern: WRITE_CONCERN,
      });
    }
    const state = await find();
    if (!state) throw new AlfabravoError(`the ${label} is missing right after its creation`, { where: database });
    return state;
  });
}

/** Removes the user; one that is gone is fine. */
export async function removeUser(
  op: Operation,
  connection: Connection,
  user: Pick<UserState, "name" | "database">,
): Promise<void> {
  await told(`remove the user ${user.database}.${user.name}`, connection.hosts.join(","), async () => {
    const db = (await op.connections.router(connection)).db(user.database);
    try {
      await db.command({ dropUser: user.name, writeConcern: WRITE_CONCERN });
    } catch (error) {
      if (!hasCode(error, Code.UserNotFound)) throw error;
    }
  });
}

async function logsIn(connection: Connection, user: UserState, password: string): Promise<boolean> {
  const credential = { kind: "scram", username: user.name, password, authSource: user.database } as const;
  const { MongoClient } = await import("mongodb");
  const client = new MongoClient(`mongodb://${connection.hosts.join(",")}/`, {
    ...(await clientOptions(credential, connection.tlsCaFile)),
    maxPoolSize: 1,
    ...(connection.replicaSet === undefined ? {} : { replicaSet: connection.replicaSet }),
  });
  try {
    await client.connect();
    return true;
  } catch (error) {
    if (hasCode(error, Code.AuthenticationFailed)) return false;
    throw error;
  } finally {
    await client.close();
  }
}
