/** The planner's changes as the engine marks them: its paths name list items by identity, the engine's by position. */
import type { IndexState } from "../model/state.ts";
import { indexIdentity, roleIdentity } from "../plan/canonical.ts";
import type { Change } from "../plan/change.ts";
import { isRecord, type Path } from "./properties.ts";
import type { FieldDiff } from "./resource.ts";

/**
 * @param desired the inputs: an item that is there is named by its position here
 * @param observed the state: where an item that only exists here is looked up
 */
export function fieldDiffs(changes: readonly Change[], desired: object, observed: object): readonly FieldDiff[] {
  // What is there and was never declared is reported by `drift`; it is no reason to change anything.
  return changes.filter((change) => change.action !== "seen").map((change) => fieldDiff(change, desired, observed));
}

function fieldDiff(change: Change, desired: object, observed: object): FieldDiff {
  const path = positions(change.path, desired) ?? positions(change.path, observed) ?? firstField(change.path);
  return { path, kind: kindOf(change) };
}

function kindOf({ action, desired, observed }: Change): FieldDiff["kind"] {
  if (action === "delete" || (desired === undefined && observed !== undefined)) return "delete";
  if (action === "create" || (observed === undefined && desired !== undefined)) return "add";
  return "update";
}

/** The path with each `[identity]` turned into the item's position; undefined when it leads nowhere in `root`. */
function positions(text: string, root: object): Path | undefined {
  const path: (string | number)[] = [];
  let rest = text;
  let here: unknown = root;
  while (rest !== "") {
    if (Array.isArray(here)) {
      const texts = here.map((candidate) => identitiesOf(candidate).find((text) => rest.startsWith(`[${text}]`)));
      const item = texts.findIndex((text) => text !== undefined);
      if (item < 0) return undefined;
      path.push(item);
      here = here[item];
      rest = rest.slice((texts[item] ?? "").length + 2);
      continue;
    }
    const name = nextName(rest.replace(/^\./, ""), here);
    if (name === "") return undefined;
    path.push(name);
    rest = rest.replace(/^\./, "").slice(name.length);
    here = isRecord(here) ? here[name] : undefined;
    if (here === undefined && rest !== "") return undefined;
  }
  return path.length > 0 ? path : undefined;
}

/** Names of tags and settings may hold dots themselves, so a name that is there wins over the first dot. */
function nextName(rest: string, here: unknown): string {
  const names = isRecord(here) ? Object.keys(here) : [];
  const fits = names.filter((name) => rest === name || rest.startsWith(`${name}.`) || rest.startsWith(`${name}[`));
  return fits.sort((a, b) => b.length - a.length)[0] ?? /^[^.[]*/.exec(rest)?.[0] ?? "";
}

function firstField(text: string): Path {
  return [/^[^.[]+/.exec(text)?.[0] ?? "state"];
}

/** What the planner calls an item of a list. An index that shares its identity is called by its name as well. */
function identitiesOf(item: unknown): string[] {
  const identity = identityOf(item);
  const isIndex = isRecord(item) && Array.isArray(item.key) && typeof item.name === "string";
  return isIndex ? [identity, `${identity} ${item.name}`] : [identity];
}

/** See plan/canonical.ts. */
function identityOf(item: unknown): string {
  if (!isRecord(item)) return String(item);
  const { host, min, role, database, key } = item;
  if (typeof host === "string") return host;
  if (typeof min === "string") return min;
  if (typeof role === "string" && typeof database === "string") return roleIdentity({ role, database });
  if (Array.isArray(key)) return indexIdentity(item as unknown as IndexState);
  return String(item.name);
}
