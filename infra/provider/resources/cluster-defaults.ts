import { applyDefaults, resetDefaults } from "../../cluster/apply/defaults.ts";
import { observeDefaults } from "../../cluster/observe/defaults.ts";
import type { Connection } from "../../model/connection.ts";
import type { ClusterDefaultsState } from "../../model/state.ts";
import { diffDefaults } from "../../plan/diff.ts";
import { connectionField } from "../connection-fields.ts";
import type { Fields } from "../fields.ts";
import { live } from "../live.ts";

export interface ClusterDefaultsInputs extends ClusterDefaultsState {
  readonly connection: Connection;
}

const inputs = {
  readConcern: {
    type: "oneOf",
    values: ["local", "available", "majority"],
    required: false,
    description: "Absent: not managed.",
  },
  writeConcern: {
    type: "object",
    required: false,
    description: "Absent: not managed.",
    fields: {
      w: {
        type: "anyOf",
        types: [{ type: "string" }, { type: "number", integer: true, min: 0 }],
        description: "How many acknowledge.",
      },
      wtimeoutMillis: { type: "number", integer: true, min: 0, description: "Milliseconds; 0 waits for ever." },
    },
  },
  connection: connectionField,
} as const satisfies Fields;

export const clusterDefaults = live<ClusterDefaultsInputs, object>({
  name: "ClusterDefaults",
  description: "The cluster-wide default read and write concern. Destroying it goes back to the server's.",
  inputs,
  changes: (desired, observed) => diffDefaults(desired, observed),
  plain: ["connection"],
  identify: () => "defaults",

  async apply(op, news) {
    const { connection, ...desired } = news;
    return { ...news, ...(await applyDefaults(op, connection, desired)) };
  },

  observe: async (op, state) => ({ ...state, ...(await observeDefaults(op, state.connection)) }),

  delete: (op, { connection }) => resetDefaults(op, connection),
});
