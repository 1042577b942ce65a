import { applyBalancer, resetBalancer } from "../../cluster/apply/balancer.ts";
import { observeBalancer } from "../../cluster/observe/balancer.ts";
import type { Connection } from "../../model/connection.ts";
import type { BalancerState } from "../../model/state.ts";
import { diffBalancer } from "../../plan/diff.ts";
import { connectionField } from "../connection-fields.ts";
import type { Field, Fields } from "../fields.ts";
import { live } from "../live.ts";

export interface BalancerInputs extends BalancerState {
  readonly connection: Connection;
}

const time = {
  type: "string",
  pattern: /^([01]\d|2[0-3]):[0-5]\d$/,
  patternSays: "a time of day, HH:MM",
  description: "`HH:MM`.",
} as const satisfies Field;

const inputs = {
  enabled: { type: "boolean", description: "Whether chunks are moved." },
  activeWindow: {
    type: "object",
    fields: { start: time, stop: time },
    required: false,
    nullable: true,
    description: "When it may move them, in the time zone of the config servers. Null: always. Absent: not managed.",
  },
  chunkSizeMiB: {
    type: "number",
    integer: true,
    min: 1,
    max: 1024,
    required: false,
    description: "MiB; absent: not managed.",
  },
  connection: connectionField,
} as const satisfies Fields;

export const balancer = live<BalancerInputs, object>({
  name: "Balancer",
  description: "The balancer's settings. Destroying it goes back to the server's defaults.",
  inputs,
  changes: (desired, observed) => diffBalancer(desired, observed),
  plain: ["connection"],
  identify: () => "balancer",

  async apply(op, news) {
    const { connection, ...desired } = news;
    return { ...news, ...(await applyBalancer(op, connection, desired)) };
  },

  observe: async (op, state) => ({ ...state, ...(await observeBalancer(op, state.connection)) }),

  delete: (op, { connection }) => resetBalancer(op, connection),
});
