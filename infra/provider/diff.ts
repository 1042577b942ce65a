import { isDeepStrictEqual } from "node:util";
import type { Path } from "./properties.ts";
import type { FieldDiff } from "./resource.ts";

/** A field that is compared as a whole. Undefined and null both mean that it is absent. */
export function valueDiff(path: Path, before: unknown, after: unknown): readonly FieldDiff[] {
  if (isDeepStrictEqual(before ?? undefined, after ?? undefined)) return [];
  const kind =
    before === undefined || before === null ? "add" : after === undefined || after === null ? "delete" : "update";
  return [{ path, kind }];
}
