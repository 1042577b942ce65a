import { randomBytes } from "node:crypto";
import { applyUser, removeUser } from "../../cluster/apply/user.ts";
import { observeUsers } from "../../cluster/observe/users.ts";
import type { Connection } from "../../model/connection.ts";
import type { UserState } from "../../model/state.ts";
import { userIdentity } from "../../plan/canonical.ts";
import { diffUser } from "../../plan/diff.ts";
import { batched } from "../batch.ts";
import { connectionField } from "../connection-fields.ts";
import type { Fields } from "../fields.ts";
import { live } from "../live.ts";

export interface UserInputs extends UserState {
  readonly connection: Connection;
  /** Absent: a generated one. */
  readonly password?: string | undefined;
}

interface Password {
  readonly password: string;
}

/** 192 bits, in letters that need no escaping in a connection string. */
const PASSWORD_BYTES = 24;

const inputs = {
  name: { type: "string", description: "The user's name.", replaces: true },
  database: { type: "string", description: "The database in which the user is kept (authSource).", replaces: true },
  roles: {
    type: "list",
    description: "What the user may do.",
    items: {
      type: "object",
      fields: {
        role: { type: "string", description: "The role." },
        database: { type: "string", description: "The role's database." },
      },
    },
  },
  password: { type: "string", required: false, secret: true, description: "Absent: a generated one." },
  connection: connectionField,
} as const satisfies Fields;

const look = batched(observeUsers, userIdentity);

export const user = live<UserInputs, Password>({
  name: "User",
  description: "A user with a password (SCRAM). Destroying it removes the user.",
  inputs,
  extra: { password: { type: "string", secret: true, description: "The password, given or generated." } },
  changes: (desired, observed) => [
    ...diffUser(desired, observed),
    ...(desired.password === undefined || desired.password === observed.password
      ? []
      : // The planner never sees passwords, so neither does any report.
        [{ resource: { kind: "User", name: desired.name }, action: "update", path: "password" } as const]),
  ],
  plain: ["connection"],
  identify: userIdentity,
  known: (news, previous) => {
    const password = news.password ?? previous?.password;
    return password === undefined ? {} : { password };
  },

  async apply(op, news, previous) {
    const { connection, password: given, ...desired } = news;
    const password = given ?? previous?.password ?? randomBytes(PASSWORD_BYTES).toString("base64url");
    return { ...news, ...(await applyUser(op, connection, desired, password)), password };
  },

  async observe(op, state) {
    const seen = await look(op, state.connection, userIdentity(state));
    return seen && { ...state, ...seen };
  },

  delete: (op, { connection, name, database }) => removeUser(op, connection, { name, database }),
});
