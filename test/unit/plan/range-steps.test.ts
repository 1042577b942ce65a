import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { compareBson } from "../../../infra/model/bson-text.ts";
import { keyParts } from "../../../infra/model/key.ts";
import type { ZoneRange } from "../../../infra/model/state.ts";
import { rangesOverlap, rangesPerDatacenter } from "../../../infra/model/zone-range.ts";
import { planRanges, type RangeStep } from "../../../infra/plan/range-steps.ts";
import { someRanges } from "../../support/arbitraries.ts";

// Hundreds of random cases: a second on an idle machine, far more on a busy one.
vi.setConfig({ testTimeout: 60_000 });

const key = keyParts({ a: 1, b: 1 });
const namespace = "chat.messages";
const plan = (
  observed: readonly ZoneRange[],
  desired: readonly ZoneRange[],
  more: { sharded?: boolean; now?: boolean; after?: boolean } = {},
) =>
  planRanges({
    namespace,
    key,
    desired,
    observed,
    sharded: more.sharded ?? true,
    balancing: { observed: more.now ?? true, desired: more.after ?? true },
  });

const text = ({ zone, min, max }: ZoneRange) => `${zone} ${min} ${max}`;
const texts = (ranges: readonly ZoneRange[]) => ranges.map(text).toSorted();
const covers = (ranges: readonly ZoneRange[], point: string) =>
  ranges.some(({ min, max }) => compareBson(min, point) <= 0 && compareBson(point, max) < 0);

/** Carries the steps out as the server would, and looks after each one whether documents could have moved away. */
function carryOut(observed: readonly ZoneRange[], desired: readonly ZoneRange[], steps: readonly RangeStep[]) {
  let ranges = [...observed];
  let paused = false;
  const points = [...observed, ...desired].flatMap(({ min, max }) => [min, max]);
  const guarded = points.filter((point) => covers(observed, point) && covers(desired, point));
  for (const step of steps) {
    if (step.kind === "pauseBalancing") paused = true;
    else if (step.kind === "resumeBalancing") paused = false;
    else if (step.kind === "remove") {
      const index = ranges.findIndex((range) => text(range) === text(step.range));
      if (index < 0) throw new Error(`no such range: ${text(step.range)}`);
      ranges = ranges.toSpliced(index, 1);
    } else {
      const other = ranges.find((range) => rangesOverlap(range, step.range));
      if (other) throw new Error(`RangeOverlapConflict: ${text(step.range)} with ${text(other)}`);
      ranges.push(step.range);
    }
    const free = guarded.find((point) => !covers(ranges, point));
    if (free && !paused) throw new Error(`${free} is free to move after ${step.kind}`);
  }
  return { ranges, paused };
}

describe("from any ranges to any others", () => {
  test("ends at the goal, overlaps never, lets nothing move away, does no more than differs", () => {
    let pauses = 0;
    fc.assert(
      fc.property(someRanges, someRanges, (observed, desired) => {
        const { steps, pauses: pausing } = plan(observed, desired);
        const end = carryOut(observed, desired, steps);
        expect(texts(end.ranges)).toEqual(texts(desired));
        expect(end.paused).toBe(false);
        const [before, after] = [new Set(observed.map(text)), new Set(desired.map(text))];
        expect(steps.filter(({ kind }) => kind === "remove")).toHaveLength(before.difference(after).size);
        expect(steps.filter(({ kind }) => kind === "assign")).toHaveLength(after.difference(before).size);
        expect(steps.some(({ kind }) => kind === "pauseBalancing")).toBe(pausing);
        if (pausing) pauses += 1;
      }),
      { numRuns: 200 },
    );
    expect(pauses).toBeGreaterThan(20);
  });

  test("a crash after any step: planning again ends at the goal, and nothing moves meanwhile", () => {
    fc.assert(
      fc.property(someRanges, someRanges, fc.nat(), (observed, desired, at) => {
        const { steps } = plan(observed, desired);
        const done = steps.slice(0, at % (steps.length + 1));
        const middle = carryOut(observed, desired, done);
        const again = plan(middle.ranges, desired, { now: !middle.paused, after: true });
        // The pause of the first run is part of the state; its end is the difference of `balancing`, applied last.
        const rest: RangeStep[] = middle.paused
          ? [{ kind: "pauseBalancing", namespace }, ...again.steps]
          : [...again.steps];
        const end = carryOut(middle.ranges, desired, rest);
        expect(texts(end.ranges)).toEqual(texts(desired));
      }),
      { numRuns: 150 },
    );
  });

  test("every call names namespace, bounds and zone", () => {
    fc.assert(
      fc.property(someRanges, someRanges, (observed, desired) => {
        for (const step of plan(observed, desired).steps) {
          expect(step.namespace).toBe(namespace);
          if ("range" in step) expect(Object.keys(step.range).toSorted()).toEqual(["max", "min", "zone"]);
        }
      }),
    );
  });
});

describe("named cases", () => {
  const two = rangesPerDatacenter({
    key: keyParts({ datacenter: 1, userid: 1 }),
    values: { alfa: "alfa", bravo: "bravo" },
  });
  const three = rangesPerDatacenter({
    key: keyParts({ datacenter: 1, userid: 1 }),
    values: { alfa: "alfa", bravo: "bravo", charlie: "charlie" },
  });
  const own = {
    namespace,
    key: keyParts({ datacenter: 1, userid: 1 }),
    sharded: true,
    balancing: { observed: true, desired: true },
  };

  test("a third datacenter replaces only the range above the last one", () => {
    const { steps } = planRanges({ ...own, observed: two, desired: three });
    expect(steps.map((step) => step.kind)).toEqual([
      "pauseBalancing",
      "remove",
      "assign",
      "assign",
      "assign",
      "resumeBalancing",
    ]);
  });

  test("closing the gaps of the seed's ranges only adds, without a pause", () => {
    const seed = two.filter(({ min, max }) => min.includes("$minKey") && max.includes("$maxKey"));
    expect(seed).toHaveLength(2);
    const { steps, pauses } = planRanges({ ...own, observed: seed, desired: two });
    expect(steps.map((step) => step.kind)).toEqual(["assign", "assign", "assign"]);
    expect(pauses).toBe(false);
  });

  test("a collection that is not sharded yet needs no pause", () => {
    expect(planRanges({ ...own, sharded: false, observed: two, desired: three }).pauses).toBe(false);
  });

  test("prefixes of a collection that is not sharded yet are replaced: the server would refuse to shard by them", () => {
    const prefix = { zone: "z", min: '{"a":1}', max: '{"a":2}' };
    const steps = plan([prefix], [prefix], { sharded: false }).steps;
    expect(steps.map((step) => [step.kind, "range" in step && step.range.min])).toEqual([
      ["remove", '{"a":{"$numberInt":"1"}}'],
      ["assign", '{"a":{"$numberInt":"1"},"b":{"$minKey":1}}'],
    ]);
  });

  test("a collection whose balancing is to stay off is left paused", () => {
    const { steps } = planRanges({
      ...own,
      balancing: { observed: true, desired: false },
      observed: two,
      desired: three,
    });
    expect(steps.map((step) => step.kind)).not.toContain("resumeBalancing");
  });

  test("the same ranges as prefixes and in other number types need nothing", () => {
    const [observed, desired] = [
      [{ zone: "z", min: '{"a":1}', max: '{"a":2}' }],
      [
        {
          zone: "z",
          min: '{"a":{"$numberDouble":"1.0"},"b":{"$minKey":1}}',
          max: '{"a":{"$numberLong":"2"},"b":{"$minKey":1}}',
        },
      ],
    ];
    expect(plan(observed, desired).steps).toEqual([]);
  });
});
