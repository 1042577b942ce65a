/** A change as one line for people. Pure: colours and columns belong to the caller. */
import { readableBson } from "../model/bson-text.ts";
import type { Change, Plain } from "./change.ts";

const SIGNS: Readonly<Record<Change["action"], string>> = { create: "+", update: "~", delete: "-", seen: "?" };

/** What the kinds are called in a sentence. */
const KINDS: Readonly<Record<Change["resource"]["kind"], string>> = {
  ReplicaSet: "replica set",
  Shard: "shard",
  Database: "database",
  ShardedCollection: "collection",
  Balancer: "balancer",
  ClusterDefaults: "default concerns",
  User: "user",
};

/** `~ replica set shard0000 members[127.0.0.1:27101].priority: 1, should be 2`. */
export function changeText(change: Change): string {
  const { resource, action, path, desired, observed } = change;
  const name = ["Balancer", "ClusterDefaults"].includes(resource.kind) ? "" : ` ${resource.name}`;
  const where = `${SIGNS[action]} ${KINDS[resource.kind]}${name}${path ? ` ${readablePath(path)}` : ""}`;
  switch (action) {
    case "create":
      return path ? `${where}: missing${details(path, desired)}` : `${where}: missing`;
    case "delete":
      return `${where}: there, should not be${details(path, observed)}`;
    case "seen":
      return `${where}: there, not declared (left alone)`;
    default:
      return `${where}: ${readable(observed)}, should be ${readable(desired)}`;
  }
}

/** Bounds are Extended JSON: in a path they are shown as in mongosh. */
function readablePath(path: string): string {
  const match = /^ranges\[(.*)\](\.\w+)?$/s.exec(path);
  return match ? `ranges[${readableText(match[1] ?? "")}]${match[2] ?? ""}` : path;
}

function readableText(text: string): string {
  if (!text.startsWith("{")) return text;
  try {
    return readableBson(text);
  } catch {
    return text;
  }
}

function details(path: string, value: Plain | undefined): string {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return "";
  const fields = value as { readonly [key: string]: Plain };
  if (path.startsWith("ranges[")) return ` (to ${readable(fields.max)}, zone ${fields.zone})`;
  return "";
}

function readable(value: Plain | undefined): string {
  if (value === undefined || value === null) return "not set";
  if (typeof value === "string") return readableText(value);
  if (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((part) => typeof part === "object" && part !== null && "field" in part)
  ) {
    return `{ ${(value as readonly { field: string; kind: unknown }[]).map(({ field, kind }) => `${field}: ${JSON.stringify(kind)}`).join(", ")} }`;
  }
  if (Array.isArray(value) && value.length === 0) return "none";
  return JSON.stringify(value);
}
