import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  decodeProperties,
  encodeProperties,
  outermost,
  type Path,
  UNKNOWN,
  unknownPaths,
} from "../../../infra/provider/properties.ts";
import { structMessages } from "../../../infra/provider/protos.ts";

/** As on the wire between the engine and the provider. */
function travel(properties: { value: Record<string, unknown>; secrets: readonly Path[] }) {
  const bytes = encodeProperties(properties).serializeBinary();
  return decodeProperties(structMessages.Struct.deserializeBinary(bytes));
}

// The SDK's protobuf maps cannot hold a key `__proto__`.
const keys = fc
  .oneof(fc.string({ minLength: 1 }), fc.constantFrom("value", "constructor", "a.b", "0"))
  .filter((key) => key !== "__proto__");
const leaf = fc.oneof(
  fc.string(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
  fc.constant(UNKNOWN),
);
const { node: tree } = fc.letrec<{ node: unknown }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 4 },
    leaf,
    fc.array(tie("node"), { maxLength: 4 }),
    fc.dictionary(keys, tie("node"), { maxKeys: 4, noNullPrototype: true }),
  ),
}));
const maps = fc.dictionary(keys, tree, { maxKeys: 5, noNullPrototype: true });

function allPaths(value: unknown, path: Path = []): Path[] {
  const children =
    typeof value === "object" && value !== null
      ? Object.entries(value).flatMap(([key, item]) =>
          allPaths(item, [...path, Array.isArray(value) ? Number(key) : key]),
        )
      : [];
  return path.length === 0 ? children : [path, ...children];
}

describe("property maps", () => {
  test("come back as they were, with their secrets and unknown values, whatever they hold", () => {
    const cases = maps.chain((value) => {
      const paths = allPaths(value);
      const secrets = paths.length === 0 ? fc.constant<Path[]>([]) : fc.subarray(paths);
      return secrets.map((chosen) => ({ value, secrets: outermost(chosen) }));
    });
    fc.assert(
      fc.property(cases, ({ value, secrets }) => {
        const back = travel({ value, secrets });
        expect(back.value).toEqual(value);
        expect(new Set(back.secrets.map((path) => JSON.stringify(path)))).toEqual(
          new Set(secrets.map((path) => JSON.stringify(path))),
        );
      }),
    );
  });

  test("hold no secret outside its wrapping", () => {
    const message = encodeProperties({
      value: { login: { user: "u", password: "hidden" } },
      secrets: [["login", "password"]],
    });
    const login = message.getFieldsMap().get("login")?.getStructValue()?.getFieldsMap();
    const wrapped = login?.get("password")?.getStructValue()?.toJavaScript();
    expect(wrapped).toEqual({
      "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
      value: "hidden",
    });
    expect(login?.get("user")?.getStringValue()).toBe("u");
  });

  test("leave out undefined values and keep null", () => {
    expect(travel({ value: { a: undefined, b: null, c: [1, undefined] }, secrets: [] }).value).toEqual({
      b: null,
      c: [1, null],
    });
  });

  test("pass over secrets that lead nowhere", () => {
    expect(travel({ value: { a: 1 }, secrets: [["b"], ["a", "c"]] })).toEqual({ value: { a: 1 }, secrets: [] });
  });

  test("read the outputs that newer SDKs send", () => {
    const output = (fields: Record<string, string | boolean>) => ({
      "4dabf18193072939515e22adb298388d": "d0e6a833031e9bbcd3f4e8bde6ca49a4",
      ...fields,
    });
    const message = structMessages.Struct.fromJavaScript({
      known: output({ value: "x", secret: true }),
      unknown: output({}),
    });
    expect(decodeProperties(message)).toEqual({ value: { known: "x", unknown: UNKNOWN }, secrets: [["known"]] });
  });

  test("refuse assets and references, which no resource takes", () => {
    const message = structMessages.Struct.fromJavaScript({
      file: { "4dabf18193072939515e22adb298388d": "c44067f5952c0a294b673a41bacd8c17", text: "x" },
    });
    expect(() => decodeProperties(message)).toThrow(/file is an asset/);
  });
});

test("unknown values are found at any depth", () => {
  expect(unknownPaths({ a: 1, b: [{ c: UNKNOWN }, UNKNOWN], d: { e: UNKNOWN } })).toEqual([
    ["b", 0, "c"],
    ["b", 1],
    ["d", "e"],
  ]);
});
