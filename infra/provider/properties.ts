/** Pulumi's property maps as plain values, and back: secrets and unknown values are told apart from the data itself. */
import { type struct, structMessages } from "./protos.ts";

/** Where in a property map: `["members", 1, "priority"]`. */
export type Path = readonly (string | number)[];

/** A value that is known only once other resources exist. It stands in inputs during previews and nowhere else. */
export const UNKNOWN: unique symbol = Symbol("unknown");

export interface Properties {
  readonly value: Readonly<Record<string, unknown>>;
  /** The places that are secret, outermost only, in the order of the map. */
  readonly secrets: readonly Path[];
}

/** The key that marks an object of the protocol as something other than data. */
const SIGNATURE_KEY = "4dabf18193072939515e22adb298388d";
const SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270";
const OUTPUT_SIGNATURE = "d0e6a833031e9bbcd3f4e8bde6ca49a4";

/** One sentinel for each kind of unknown value; the first is the one in general use. */
const UNKNOWN_SENTINELS = [
  "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
  "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
  "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
  "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
  "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
  "030794c1-ac77-496b-92df-f27374a8bd58",
  "e48ece36-62e2-4504-bad9-02848725956a",
] as const;
const sentinels: ReadonlySet<string> = new Set(UNKNOWN_SENTINELS);

/** @throws Error when the map holds something that this provider's resources never take: assets, references to resources */
export function decodeProperties(message: struct.Struct | undefined): Properties {
  const secrets: Path[] = [];
  const value = message ? decodeStruct(message, [], secrets) : {};
  return { value, secrets: outermost(secrets) };
}

/** Wraps what lies at `secrets`; a path that leads nowhere is passed over. Undefined values are left out. */
export function encodeProperties({ value, secrets }: Properties): struct.Struct {
  return encodeStruct(value, [], new Set(secrets.map(pathKey)));
}

/** The paths of all unknown values. */
export function unknownPaths(value: unknown, path: Path = []): readonly Path[] {
  if (value === UNKNOWN) return [path];
  if (Array.isArray(value)) return value.flatMap((item, i) => unknownPaths(item, [...path, i]));
  if (isRecord(value)) return Object.entries(value).flatMap(([key, item]) => unknownPaths(item, [...path, key]));
  return [];
}

/** The paths without those that lie beneath another one. */
export function outermost(paths: readonly Path[]): readonly Path[] {
  const keys = new Set(paths.map(pathKey));
  const seen = new Set<string>();
  return paths.filter((path) => {
    const key = pathKey(path);
    if (seen.has(key)) return false;
    seen.add(key);
    return !path.some((_, i) => keys.has(pathKey(path.slice(0, i))));
  });
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function decodeStruct(message: struct.Struct, path: Path, secrets: Path[]): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const [key, item] of message.getFieldsMap().entries()) {
    define(result, key, decodeValue(item, [...path, key], secrets));
  }
  return result;
}

function decodeValue(value: struct.Value, path: Path, secrets: Path[]): unknown {
  const { KindCase } = structMessages.Value;
  switch (value.getKindCase()) {
    case KindCase.NUMBER_VALUE:
      return value.getNumberValue();
    case KindCase.BOOL_VALUE:
      return value.getBoolValue();
    case KindCase.STRING_VALUE: {
      const text = value.getStringValue();
      return sentinels.has(text) ? UNKNOWN : text;
    }
    case KindCase.LIST_VALUE:
      return (value.getListValue()?.getValuesList() ?? []).map((item, i) => decodeValue(item, [...path, i], secrets));
    case KindCase.STRUCT_VALUE: {
      const message = value.getStructValue();
      return message ? decodeObject(message, path, secrets) : {};
    }
    default:
      return null;
  }
}

function decodeObject(message: struct.Struct, path: Path, secrets: Path[]): unknown {
  const fields = message.getFieldsMap();
  const signature = fields.get(SIGNATURE_KEY);
  if (signature === undefined) return decodeStruct(message, path, secrets);
  const inner = fields.get("value");
  switch (signature.getStringValue()) {
    case SECRET_SIGNATURE:
      secrets.push(path);
      return inner ? decodeValue(inner, path, secrets) : null;
    case OUTPUT_SIGNATURE:
      if (fields.get("secret")?.getBoolValue()) secrets.push(path);
      return inner ? decodeValue(inner, path, secrets) : UNKNOWN;
    default:
      throw new Error(`${path.join(".")} is an asset or a reference to a resource: give a plain value.`);
  }
}

function encodeStruct(value: Readonly<Record<string, unknown>>, path: Path, secrets: ReadonlySet<string>) {
  const message = new structMessages.Struct();
  const fields = message.getFieldsMap();
  for (const [key, item] of Object.entries(value)) {
    if (item !== undefined) fields.set(key, encodeValue(item, [...path, key], secrets));
  }
  return message;
}

function encodeValue(value: unknown, path: Path, secrets: ReadonlySet<string>): struct.Value {
  if (secrets.has(pathKey(path))) return secretValue(encodePlain(value, path, new Set()));
  return encodePlain(value, path, secrets);
}

function encodePlain(value: unknown, path: Path, secrets: ReadonlySet<string>): struct.Value {
  const { Value, ListValue, NullValue } = structMessages;
  if (value === UNKNOWN) return new Value().setStringValue(UNKNOWN_SENTINELS[0]);
  switch (typeof value) {
    case "string":
      return new Value().setStringValue(value);
    case "number":
      return new Value().setNumberValue(value);
    case "boolean":
      return new Value().setBoolValue(value);
    default:
  }
  if (Array.isArray(value)) {
    const items = value.map((item, i) => encodeValue(item ?? null, [...path, i], secrets));
    return new Value().setListValue(new ListValue().setValuesList(items));
  }
  if (isRecord(value)) return new Value().setStructValue(encodeStruct(value, path, secrets));
  return new Value().setNullValue(NullValue.NULL_VALUE);
}

function secretValue(inner: struct.Value): struct.Value {
  const message = new structMessages.Struct();
  message.getFieldsMap().set(SIGNATURE_KEY, new structMessages.Value().setStringValue(SECRET_SIGNATURE));
  message.getFieldsMap().set("value", inner);
  return new structMessages.Value().setStructValue(message);
}

/** As assignment, but a key such as `__proto__` is data as well. */
function define(target: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, writable: true, configurable: true });
}

function pathKey(path: Path): string {
  return JSON.stringify(path);
}
