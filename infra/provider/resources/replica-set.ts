import { applyReplicaSet } from "../../cluster/apply/replica-set.ts";
import { observeReplicaSet } from "../../cluster/observe/replica-set.ts";
import type { Credential } from "../../model/connection.ts";
import type { ReplicaSetState } from "../../model/state.ts";
import { diffReplicaSet } from "../../plan/diff.ts";
import { credentialField, hostsField, tlsCaFileField } from "../connection-fields.ts";
import type { Fields } from "../fields.ts";
import { live } from "../live.ts";

export interface ReplicaSetInputs extends ReplicaSetState {
  /** The members among which the primary belongs. */
  readonly homeHosts: readonly string[];
  readonly credential: Credential;
  readonly tlsCaFile?: string | undefined;
}

const inputs = {
  name: { type: "string", description: "The replica set's name.", replaces: true },
  role: {
    type: "oneOf",
    values: ["config", "shard"],
    description: "Whether it holds the cluster's metadata or data.",
    replaces: true,
  },
  members: {
    type: "list",
    description: "Its members; `host` is the identity of each.",
    items: {
      type: "object",
      fields: {
        host: { type: "string", pattern: /^.+:\d+$/, patternSays: "host:port", description: "`host:port`." },
        priority: { type: "number", min: 0, max: 1000, description: "0 never becomes primary." },
        votes: { type: "oneOf", values: [0, 1], description: "Whether it votes." },
        hidden: { type: "boolean", description: "Whether clients do not see it." },
        arbiterOnly: { type: "boolean", description: "Whether it votes and holds no data." },
        secondaryDelaySecs: { type: "number", integer: true, min: 0, description: "Seconds behind the primary." },
        tags: { type: "map", values: { type: "string" }, description: "For read preferences and write concerns." },
      },
    },
  },
  settings: {
    type: "object",
    description: "What is absent is not managed.",
    fields: {
      electionTimeoutMillis: { type: "number", integer: true, min: 1, required: false, description: "Milliseconds." },
      heartbeatTimeoutSecs: { type: "number", integer: true, min: 1, required: false, description: "Seconds." },
      catchUpTimeoutMillis: { type: "number", integer: true, min: -1, required: false, description: "Milliseconds." },
      chainingAllowed: { type: "boolean", required: false, description: "Whether secondaries may follow secondaries." },
    },
  },
  homeHosts: { ...hostsField, description: "The members among which the primary belongs." },
  credential: credentialField,
  tlsCaFile: tlsCaFileField,
} as const satisfies Fields;

export const replicaSet = live<ReplicaSetInputs, object>({
  name: "ReplicaSet",
  description: "The configuration of a replica set. Destroying it forgets it: members and data stay.",
  inputs,
  changes: (desired, observed) => diffReplicaSet(desired, observed),
  plain: ["homeHosts", "credential", "tlsCaFile"],
  identify: ({ name }) => name,

  async apply(op, news, previous) {
    const { credential, homeHosts, tlsCaFile, ...desired } = news;
    const knownHosts = previous?.members.map(({ host }) => host);
    return { ...news, ...(await applyReplicaSet(op, { desired, credential, homeHosts, tlsCaFile, knownHosts })) };
  },

  async observe(op, state) {
    const { name, role, members, credential, tlsCaFile } = state;
    const hosts = members.map((member) => member.host);
    const seen = await observeReplicaSet(op, { name, role, hosts, credential, tlsCaFile });
    return seen && { ...state, ...seen };
  },

  delete: async () => undefined,
});
