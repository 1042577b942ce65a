/** Fields that several resources share: how to reach a cluster. */
import type { Field, Fields } from "./fields.ts";

const credentialFields = {
  kind: { type: "oneOf", values: ["keyfile", "scram"], description: "How to log in." },
  keyfile: { type: "string", required: false, description: "The keyfile's text, for the kind `keyfile`." },
  username: { type: "string", required: false, description: "For the kind `scram`." },
  password: { type: "string", required: false, description: "For the kind `scram`." },
  authSource: { type: "string", required: false, description: "For the kind `scram`: the user's database." },
} as const satisfies Fields;

export const credentialField = {
  type: "object",
  fields: credentialFields,
  secret: true,
  description: "How to log in to the members: as the internal user of the cluster, or as a user of theirs.",
} as const satisfies Field;

export const tlsCaFileField = {
  type: "string",
  required: false,
  description: "Path of a CA file in PEM; absent means no TLS.",
} as const satisfies Field;

const hostItem = { type: "string", pattern: /^.+:\d+$/, patternSays: "host:port" } as const;

export const hostsField = {
  type: "list",
  items: hostItem,
  description: "`host:port` of each.",
} as const satisfies Field;

export const connectionField = {
  type: "object",
  secret: true,
  description: "How to reach the cluster: its routers, or the members of one replica set.",
  fields: {
    hosts: hostsField,
    replicaSet: {
      type: "string",
      required: false,
      description: "Set when the hosts are the members of one replica set.",
    },
    credential: { ...credentialField, secret: false },
    tlsCaFile: tlsCaFileField,
  },
} as const satisfies Field;

export const reachableField = {
  type: "boolean",
  description: "Whether it could be looked at the last time. False after a refresh while the cluster was down.",
} as const satisfies Field;
