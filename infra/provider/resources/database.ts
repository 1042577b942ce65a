import { applyDatabase } from "../../cluster/apply/database.ts";
import { observeDatabases } from "../../cluster/observe/databases.ts";
import type { Connection } from "../../model/connection.ts";
import type { DatabaseState } from "../../model/state.ts";
import { diffDatabase } from "../../plan/diff.ts";
import { batched } from "../batch.ts";
import { connectionField } from "../connection-fields.ts";
import type { Fields } from "../fields.ts";
import { live } from "../live.ts";

export interface DatabaseInputs extends DatabaseState {
  readonly connection: Connection;
}

const inputs = {
  name: { type: "string", description: "The database's name.", replaces: true },
  primaryShard: {
    type: "string",
    required: false,
    description: "Where its unsharded collections live. Absent: not managed.",
  },
  connection: connectionField,
} as const satisfies Fields;

const look = batched(observeDatabases, (seen) => seen.name);

export const database = live<DatabaseInputs, object>({
  name: "Database",
  description: "A database with its primary shard. Destroying it forgets it: the database stays.",
  inputs,
  changes: (desired, observed) => diffDatabase(desired, observed),
  plain: ["connection"],
  identify: ({ name }) => name,

  async apply(op, news) {
    const { connection, ...desired } = news;
    return { ...news, ...(await applyDatabase(op, connection, desired)) };
  },

  async observe(op, state) {
    const seen = await look(op, state.connection, state.name);
    return seen && { ...state, ...seen };
  },

  delete: async () => undefined,
});
