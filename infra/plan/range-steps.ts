/**
 * From the zone ranges that a namespace has to those that it should have.
 *
 * The server refuses a range that overlaps another, even one with the same bounds and another zone. So a range that
 * changes must first go and then come, and in between its documents belong to no zone: the balancer may take them
 * anywhere, only to bring them back. Widening the neighbours instead would need the same (a wider range overlaps the old
 * one) and leave ranges that nobody declared. So:
 *
 * 1. Ranges that overlap no present range come first. They only add protection.
 * 2. A range that takes the place of another does so with the balancer paused for this collection: no chunk moves while
 *    documents are without a zone. Each replacement is finished before the next begins, so that a crash leaves at most
 *    one hole, and the pause that is still in force keeps its documents where they are. Planning again from what is
 *    then observed leads to the same end, since `balancing` is part of the state and its difference ends the pause.
 * 3. The pause ends. Ranges without a successor go last: their documents are meant to be free.
 *
 * A collection that is not sharded yet has no chunks, so nothing can move and nothing is paused.
 *
 * Every step names the namespace, both bounds and the zone: removing by zone alone would hit other collections.
 */
import { compareBson } from "../model/bson-text.ts";
import type { KeyPart, Namespace, ZoneRange } from "../model/state.ts";
import { rangesOverlap } from "../model/zone-range.ts";
import { canonicalRanges } from "./canonical.ts";

export type RangeStep =
  | { readonly kind: "assign"; readonly namespace: Namespace; readonly range: ZoneRange }
  | { readonly kind: "remove"; readonly namespace: Namespace; readonly range: ZoneRange }
  /** Set `noBalance`, then wait until no migration of this collection runs. */
  | { readonly kind: "pauseBalancing"; readonly namespace: Namespace }
  /** Clear `noBalance`. */
  | { readonly kind: "resumeBalancing"; readonly namespace: Namespace };

export interface RangePlan {
  /** Empty when nothing differs. */
  readonly steps: readonly RangeStep[];
  /** Whether the collection's balancing is paused on the way. */
  readonly pauses: boolean;
}

const identity = ({ zone, min, max }: ZoneRange) => `${zone} ${min} ${max}`;

/**
 * Plans the calls of `updateZoneKeyRange` for one namespace: as few as there are differences.
 * @param options.key The shard key: bounds that are a prefix of it are completed first.
 * @param options.sharded Whether the collection is sharded already.
 * @param options.balancing Whether the balancer may move its chunks now (observed) and afterwards (desired).
 */
export function planRanges(options: {
  readonly namespace: Namespace;
  readonly key: readonly KeyPart[];
  readonly desired: readonly ZoneRange[];
  readonly observed: readonly ZoneRange[];
  readonly sharded: boolean;
  readonly balancing: { readonly observed: boolean; readonly desired: boolean };
}): RangePlan {
  const { namespace, key, sharded, balancing } = options;
  const desired = canonicalRanges(key, options.desired);
  // Before a collection is sharded the server keeps bounds as they were given, prefixes too, and then refuses to shard
  // by them: those are replaced. Afterwards it completes every bound by itself.
  const observed = canonicalRanges(sharded ? key : [], options.observed);
  const [wanted, present] = [new Set(desired.map(identity)), new Set(observed.map(identity))];
  const added = desired.filter((range) => !present.has(identity(range)));
  const removed = observed.filter((range) => !wanted.has(identity(range)));

  const { additions, groups, removals } = replacements(added, removed);
  const pauses = groups.length > 0 && sharded && balancing.observed;
  const assign = (range: ZoneRange): RangeStep => ({ kind: "assign", namespace, range });
  const remove = (range: ZoneRange): RangeStep => ({ kind: "remove", namespace, range });
  return {
    pauses,
    steps: [
      ...additions.map(assign),
      ...(pauses ? [{ kind: "pauseBalancing", namespace } as const] : []),
      ...groups.flatMap((group) => [...group.removed.map(remove), ...group.added.map(assign)]),
      ...(pauses && balancing.desired ? [{ kind: "resumeBalancing", namespace } as const] : []),
      ...removals.map(remove),
    ],
  };
}

interface Group {
  readonly added: ZoneRange[];
  readonly removed: ZoneRange[];
}

/** Ranges that hang together by overlap, old and new, and those that stand alone. Both lists are sorted and without overlap in themselves. */
function replacements(
  added: readonly ZoneRange[],
  removed: readonly ZoneRange[],
): { additions: ZoneRange[]; groups: Group[]; removals: ZoneRange[] } {
  const groups: Group[] = [];
  const [news, olds] = [[...added], [...removed]];
  const additions: ZoneRange[] = [];
  const removals: ZoneRange[] = [];
  for (let next = news.shift(); next; next = news.shift()) {
    // Old ranges that end before this new one begins overlap no later new one either.
    while (olds[0] && !rangesOverlap(olds[0], next) && endsBefore(olds[0], next)) removals.push(...olds.splice(0, 1));
    const group: Group = { added: [next], removed: [] };
    for (let grown = true; grown; ) {
      grown = false;
      const old = olds[0];
      if (old && group.added.some((range) => rangesOverlap(range, old))) {
        group.removed.push(...olds.splice(0, 1));
        grown = true;
      }
      const later = news[0];
      if (later && group.removed.some((range) => rangesOverlap(range, later))) {
        group.added.push(...news.splice(0, 1));
        grown = true;
      }
    }
    if (group.removed.length === 0) additions.push(next);
    else groups.push(group);
  }
  removals.push(...olds);
  return { additions, groups, removals };
}

function endsBefore(a: ZoneRange, b: ZoneRange): boolean {
  return compareBson(a.max, b.min) <= 0;
}
