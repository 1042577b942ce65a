import { Double, Int32, Long } from "bson";
import { describe, expect, test } from "vitest";
import {
  defaultIndexName,
  isKeyPrefix,
  keyDocument,
  keyParts,
  keyText,
  partsFromDocument,
  readKey,
  sameKey,
  shardKeyProblems,
} from "../../../infra/model/key.ts";

describe("keys", () => {
  test("keep the order of their fields", () => {
    expect(keyParts({ datacenter: 1, userid: 1 })).toEqual([
      { field: "datacenter", kind: 1 },
      { field: "userid", kind: 1 },
    ]);
    expect([
      ...keyDocument([
        { field: "b", kind: 1 },
        { field: "1", kind: "hashed" },
      ]),
    ]).toEqual([
      ["b", 1],
      ["1", "hashed"],
    ]);
  });

  test("names that JavaScript reorders are refused in the object form and fine in a list", () => {
    expect(() => keyParts({ b: 1, 1: 1 })).toThrow(/order of the field "1" cannot be told/);
    expect(readKey({ b: 1, 1: 1 }, "key").problems).toMatchObject([
      { path: "key.1", fix: expect.stringContaining("as a list") },
    ]);
    expect(
      keyParts([
        { field: "b", kind: 1 },
        { field: "1", kind: 1 },
      ]).map(({ field }) => field),
    ).toEqual(["b", "1"]);
    expect(keyParts({ "1": 1 })).toHaveLength(1);
    expect(keyParts({ a: 1, "01": 1, "1.x": 1, "-1": 1 })).toHaveLength(4);
  });

  test("a field twice is refused", () => {
    expect(() =>
      keyParts([
        { field: "a", kind: 1 },
        { field: "a", kind: -1 },
      ]),
    ).toThrow(/appears twice/);
  });

  test("are read from what a server shows, in any number type", () => {
    expect(
      partsFromDocument({ a: new Double(1), b: Long.fromNumber(-1), c: new Int32(1), d: "hashed", "e.$**": 1 }),
    ).toEqual([
      { field: "a", kind: 1 },
      { field: "b", kind: -1 },
      { field: "c", kind: 1 },
      { field: "d", kind: "hashed" },
      { field: "e.$**", kind: "wildcard" },
    ]);
    expect(
      partsFromDocument(
        new Map([
          ["2", 1],
          ["1", 1],
        ]),
      ).map(({ field }) => field),
    ).toEqual(["2", "1"]);
  });

  test("as text", () => {
    expect(keyText(keyParts({ datacenter: 1, "user.id": "hashed" }))).toBe('{ datacenter: 1, "user.id": "hashed" }');
    expect(keyText([])).toBe("(not sharded)");
    expect(defaultIndexName(keyParts({ a: 1, b: -1, c: "text" }))).toBe("a_1_b_-1_c_text");
  });

  test("prefixes are by field, kind and order", () => {
    const [a, ab, ba, ah] = [
      keyParts({ a: 1 }),
      keyParts({ a: 1, b: 1 }),
      keyParts({ b: 1, a: 1 }),
      keyParts({ a: "hashed" }),
    ];
    expect([
      isKeyPrefix(a, ab),
      isKeyPrefix(ab, a),
      isKeyPrefix(a, ba),
      isKeyPrefix(a, ah),
      isKeyPrefix([], a),
    ]).toEqual([true, false, false, false, true]);
    expect(sameKey(ab, ba)).toBe(false);
  });

  test.each([
    [[], false, /no field/],
    [keyParts({ a: -1 }), false, /cannot be part of a shard key/],
    [keyParts({ a: "text" }), false, /cannot be part of a shard key/],
    [keyParts({ "$**": 1 }), false, /cannot be part of a shard key/],
    [keyParts({ a: "hashed", b: "hashed" }), false, /both hashed/],
    [keyParts({ a: "hashed" }), true, /cannot be unique/],
    [keyParts({ a: 1, b: "hashed" }), true, /cannot be unique/],
    [keyParts({ "a..b": 1 }), false, /not a field name/],
    [keyParts({ $a: 1 }), false, /not a field name/],
  ])("%j, unique %s, is no shard key", (parts, unique, message) => {
    expect(
      shardKeyProblems(parts, unique, "key")
        .map((problem) => problem.message)
        .join("\n"),
    ).toMatch(message);
  });

  test("ordinary shard keys are fine", () => {
    expect(shardKeyProblems(keyParts({ a: 1, "b.c": 1 }), true, "key")).toEqual([]);
    expect(shardKeyProblems(keyParts({ a: 1, b: "hashed" }), false, "key")).toEqual([]);
  });
});
