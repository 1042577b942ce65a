/**
 * Applies changes to a state in memory. It is a model of what our `Change` type says, so that tests can ask whether a
 * diff says everything; it is no stand-in for a server.
 */
import type { IndexState, MemberState, Snapshot, UserState, ZoneRange } from "../../infra/model/state.ts";
import { indexIdentity, roleIdentity, userIdentity } from "../../infra/plan/canonical.ts";
import type { Change, Plain } from "../../infra/plan/change.ts";

type Fields = Record<string, unknown>;

const LISTS: Readonly<Record<string, { readonly field: keyof Snapshot; readonly identity: (item: never) => string }>> =
  {
    ReplicaSet: { field: "replicaSets", identity: (item: { name: string }) => item.name },
    Shard: { field: "shards", identity: (item: { name: string }) => item.name },
    Database: { field: "databases", identity: (item: { name: string }) => item.name },
    ShardedCollection: { field: "collections", identity: (item: { namespace: string }) => item.namespace },
    User: { field: "users", identity: userIdentity as (item: never) => string },
  };

const ITEMS: Readonly<Record<string, (item: never) => string>> = {
  members: (item: MemberState) => item.host,
  zones: (item: string) => item,
  ranges: (item: ZoneRange) => item.min,
  indexes: ((item: IndexState) => indexIdentity(item)) as (item: never) => string,
  roles: roleIdentity as (item: UserState["roles"][number] & never) => string,
};

/** The state after a change. A change that refers to something that is not there is an error of the diff. */
export function applyChange(snapshot: Snapshot, change: Change): Snapshot {
  if (change.action === "seen") return snapshot;
  const { kind, name } = change.resource;
  const list = LISTS[kind];
  if (!list) {
    const field = kind === "Balancer" ? "balancer" : "defaults";
    return { ...snapshot, [field]: applyTo(snapshot[field] as Fields, change) };
  }
  const items = snapshot[list.field] as readonly Fields[];
  const index = items.findIndex((item) => list.identity(item as never) === name);
  if (change.path === "") {
    if (change.action === "create") {
      if (index >= 0) throw new Error(`${kind} ${name} is there already`);
      return { ...snapshot, [list.field]: [...items, change.desired] };
    }
    throw new Error(`${change.action} of a whole ${kind} is nothing that a diff says`);
  }
  const item = items[index];
  if (!item) throw new Error(`${kind} ${name} is not there`);
  return { ...snapshot, [list.field]: items.with(index, applyTo(item, change)) };
}

function applyTo(resource: Fields, change: Change): Fields {
  const match = /^(members|zones|ranges|indexes|roles)\[(.*)\](?:\.(\w+)(?:\.(.*))?)?$/s.exec(change.path);
  if (!match) return setAt(resource, change.path.split("."), change.desired);
  const [, list = "", identity = "", field, rest] = match;
  const items = (resource[list] ?? []) as readonly Fields[];
  const index = items.findIndex((item) => {
    const text = ITEMS[list]?.(item as never);
    return text === identity || (list === "indexes" && `${text} ${item.name}` === identity);
  });
  if (field === undefined) {
    if (change.action === "create") {
      if (index >= 0) throw new Error(`${change.path} is there already`);
      return { ...resource, [list]: [...items, change.desired] };
    }
    if (index < 0) throw new Error(`${change.path} is not there`);
    return { ...resource, [list]: items.filter((_, position) => position !== index) };
  }
  const item = items[index];
  if (!item) throw new Error(`${change.path} is not there`);
  const path = rest === undefined ? [field] : [field, rest];
  return { ...resource, [list]: items.with(index, setAt(item, path, change.desired)) };
}

function setAt(target: Fields, path: readonly string[], value: Plain | undefined): Fields {
  const [field = "", ...rest] = path;
  if (rest.length > 0) return { ...target, [field]: setAt((target[field] ?? {}) as Fields, rest, value) };
  const copy = { ...target, [field]: value };
  // Null stands for "no value", except where null is a value of its own.
  if ((value === null || value === undefined) && field !== "activeWindow") delete copy[field];
  return copy;
}
