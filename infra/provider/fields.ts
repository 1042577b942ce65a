/**
 * The table of fields of a resource: one source for what `check` asks of each value, for what is secret in state, for
 * what cannot change in place, and for the package schema that the engine and its tools read.
 */
import type { Problem } from "../model/problem.ts";
import { isRecord, type Path, UNKNOWN } from "./properties.ts";
import { formatPath } from "./property-path.ts";

export type FieldType =
  | { readonly type: "string"; readonly pattern?: RegExp; readonly patternSays?: string }
  | { readonly type: "number"; readonly min?: number; readonly max?: number; readonly integer?: boolean }
  | { readonly type: "boolean" }
  | { readonly type: "oneOf"; readonly values: readonly (string | number | null)[] }
  | { readonly type: "list"; readonly items: FieldType }
  | { readonly type: "map"; readonly values: FieldType }
  | { readonly type: "object"; readonly fields: Fields }
  | { readonly type: "anyOf"; readonly types: readonly FieldType[] };

export type Field = FieldType & {
  /** For people who use the package, and for its schema. */
  readonly description: string;
  /** Default: true. */
  readonly required?: boolean;
  /** Kept encrypted in state and masked in output, as a whole. */
  readonly secret?: boolean;
  /** A new value means another thing: the resource is replaced. */
  readonly replaces?: boolean;
  /** May be null, which differs from being absent. */
  readonly nullable?: boolean;
  /** Filled in when absent. */
  readonly default?: string | number | boolean;
};

export type Fields = Readonly<Record<string, Field>>;

/** Every mistake in the form of `value`; what is unknown yet is taken for right. */
export function formProblems(fields: Fields, value: Readonly<Record<string, unknown>>, path: Path = []): Problem[] {
  const problems: Problem[] = [];
  for (const [name, field] of Object.entries(fields)) {
    const item = value[name];
    if (item === UNKNOWN) continue;
    if (item === undefined || item === null) {
      if (item === null && field.nullable) continue;
      if (field.required !== false && field.default === undefined) {
        problems.push({
          path: formatPath([...path, name]),
          message: "is missing",
          fix: `give it: ${field.description}`,
        });
      }
      continue;
    }
    problems.push(...typeProblems(field, item, [...path, name]));
  }
  for (const name of Object.keys(value)) {
    if (Object.hasOwn(fields, name) || name.startsWith("__")) continue;
    problems.push({
      path: formatPath([...path, name]),
      message: "is not a field here",
      fix: `use one of: ${Object.keys(fields).join(", ")}`,
    });
  }
  return problems;
}

/** `value` with the defaults of absent fields, and without nulls that mean nothing. */
export function withDefaults(fields: Fields, value: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const result: Record<string, unknown> = { ...value };
  for (const [name, field] of Object.entries(fields)) {
    const item = result[name];
    if (item === null && !field.nullable) delete result[name];
    if ((item === undefined || item === null) && field.default !== undefined) result[name] = field.default;
    else if (isRecord(item) && field.type === "object") result[name] = withDefaults(field.fields, item);
  }
  return result;
}

export function secretPaths(fields: Fields): readonly Path[] {
  return Object.entries(fields)
    .filter(([, field]) => field.secret)
    .map(([name]) => [name]);
}

export function replacingFields(fields: Fields): ReadonlySet<string> {
  return new Set(
    Object.entries(fields)
      .filter(([, field]) => field.replaces)
      .map(([name]) => name),
  );
}

function typeProblems(field: FieldType, value: unknown, path: Path): Problem[] {
  if (value === UNKNOWN) return [];
  const problem = (message: string): Problem[] => [{ path: formatPath(path), message }];
  switch (field.type) {
    case "string":
      if (typeof value !== "string") return problem(`must be text, not ${nameOf(value)}`);
      if (field.pattern && !field.pattern.test(value)) {
        return problem(
          `is ${JSON.stringify(value)}; it must be ${field.patternSays ?? `like ${field.pattern.source}`}`,
        );
      }
      return [];
    case "number":
      if (typeof value !== "number") return problem(`must be a number, not ${nameOf(value)}`);
      if (field.integer && !Number.isInteger(value)) return problem(`is ${value}; it must be a whole number`);
      if (field.min !== undefined && value < field.min) return problem(`is ${value}; the least is ${field.min}`);
      if (field.max !== undefined && value > field.max) return problem(`is ${value}; the most is ${field.max}`);
      return [];
    case "boolean":
      return typeof value === "boolean" ? [] : problem(`must be true or false, not ${nameOf(value)}`);
    case "oneOf":
      return field.values.some((allowed) => allowed === value)
        ? []
        : problem(
            `is ${JSON.stringify(value)}; it must be one of ${field.values.map((v) => JSON.stringify(v)).join(", ")}`,
          );
    case "list":
      return Array.isArray(value)
        ? value.flatMap((item, i) => typeProblems(field.items, item, [...path, i]))
        : problem(`must be a list, not ${nameOf(value)}`);
    case "map":
      return isRecord(value)
        ? Object.entries(value).flatMap(([key, item]) => typeProblems(field.values, item, [...path, key]))
        : problem(`must be a map, not ${nameOf(value)}`);
    case "object":
      return isRecord(value)
        ? formProblems(field.fields, value, path)
        : problem(`must be an object, not ${nameOf(value)}`);
    case "anyOf": {
      const attempts = field.types.map((type) => typeProblems(type, value, path));
      // The attempt that came closest is the one that the user meant.
      return attempts.reduce((best, next) => (next.length < best.length ? next : best));
    }
  }
}

function nameOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "a list" : `a ${typeof value}`;
}
