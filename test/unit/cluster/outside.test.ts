import { MaxKey, MinKey } from "bson";
import { expect, test } from "vitest";
import { outside } from "../../../infra/cluster/verify/placement.ts";

const range = (min: unknown, max: unknown) => ({ min: { n: min }, max: { n: max } });

test.each([
  ["nothing is taken away", range(0, 9), [], [range(0, 9)]],
  ["all of it", range(0, 9), [range(new MinKey(), new MaxKey())], []],
  ["exactly it", range(0, 9), [range(0, 9)], []],
  ["neighbours", range(3, 6), [range(0, 3), range(6, 9)], [range(3, 6)]],
  ["the middle", range(0, 9), [range(3, 6)], [range(0, 3), range(6, 9)]],
  ["both ends, in any order", range(0, 9), [range(7, 12), range(-5, 2)], [range(2, 7)]],
  ["one within another", range(0, 9), [range(1, 8), range(2, 3)], [range(0, 1), range(8, 9)]],
])("what lies outside of the ranges to delete: %s", (_, whole, others, parts) => {
  expect(outside(whole, others)).toEqual(parts);
});
