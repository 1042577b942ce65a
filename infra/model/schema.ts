/** The shape of a declaration, and every mistake in it at once, each with its path. */
import { z } from "zod";
import type { ClusterDeclaration } from "./declaration.ts";
import type { Problem } from "./problem.ts";

const names = z.array(z.string());
const bound = z.union([z.string(), z.record(z.string(), z.unknown())], { error: "is no document of shard key fields" });
const keyKind = z.union(
  [z.literal(1), z.literal(-1), z.literal("hashed"), z.literal("text"), z.literal("2d"), z.literal("2dsphere")],
  { error: 'is not 1, -1 or the name of an index kind ("hashed", "text", "2d", "2dsphere")' },
);
const keyPart = z.strictObject({ field: z.string(), kind: z.union([keyKind, z.literal("wildcard")]) });
const key = z.union([z.record(z.string(), keyKind), z.array(keyPart)], {
  error:
    'is no key: a key is an object such as { userid: 1 } or a list such as [{ field: "userid", kind: 1 }], each field with 1, -1 or the name of an index kind',
});
const document = z.union([z.string(), z.record(z.string(), z.unknown())], { error: "is no document" });

const settings = z.strictObject({
  electionTimeoutMillis: z.int().min(1).optional(),
  heartbeatTimeoutSecs: z.int().min(1).optional(),
  catchUpTimeoutMillis: z.int().min(-1).optional(),
  chainingAllowed: z.boolean().optional(),
});

const member = z.strictObject({
  datacenter: z.string(),
  name: z.string().optional(),
  host: z.string().optional(),
  priority: z.number().optional(),
  votes: z.union([z.literal(0), z.literal(1)], { error: "is not 0 or 1" }).optional(),
  hidden: z.boolean().optional(),
  arbiterOnly: z.boolean().optional(),
  secondaryDelaySecs: z.int().min(0).optional(),
  tags: z.record(z.string(), z.string()).optional(),
});

const index = z.strictObject({
  key,
  name: z.string().optional(),
  unique: z.boolean().optional(),
  sparse: z.boolean().optional(),
  hidden: z.boolean().optional(),
  expireAfterSeconds: z.int().min(0).max(2_147_483_647).optional(),
  partialFilterExpression: document.optional(),
  collation: document.optional(),
});

const collection = z.strictObject({
  key,
  unique: z.boolean().optional(),
  ranges: z.array(z.strictObject({ zone: z.string(), min: bound, max: bound })).optional(),
  perDatacenter: z
    .strictObject({
      field: z.string().optional(),
      values: z
        .union([z.record(z.string(), z.string()), z.array(z.tuple([z.unknown(), z.string()]))], {
          error: 'is no table of values and zones, such as { alfa: "alfa" } or [[7, "alfa"]]',
        })
        .optional(),
    })
    .optional(),
  split: z.strictObject({ at: z.array(z.unknown()), zones: names.optional() }).optional(),
  indexes: z.array(index).optional(),
  balancing: z.boolean().optional(),
  chunkSizeMiB: z.int().min(1).max(1024).optional(),
});

const SHAPE = z.strictObject({
  name: z.string(),
  datacenters: z.array(
    z.strictObject({ name: z.string(), label: z.string().optional(), witness: z.boolean().optional() }),
  ),
  shardsPerDatacenter: z.int().min(1).max(1000).optional(),
  shards: z
    .array(
      z.strictObject({
        name: z.string(),
        home: z.string(),
        zones: names.optional(),
        members: z.array(member).optional(),
        settings: settings.optional(),
      }),
    )
    .optional(),
  configServers: z
    .strictObject({
      name: z.string().optional(),
      home: z.string().optional(),
      members: z.array(member).optional(),
      settings: settings.optional(),
    })
    .optional(),
  routersPerDatacenter: z.int().min(0).max(1000).optional(),
  routers: z
    .array(z.strictObject({ name: z.string(), datacenter: z.string(), host: z.string().optional() }))
    .optional(),
  databases: z.record(z.string(), z.strictObject({ primaryShard: z.string().optional() })).optional(),
  collections: z.record(z.string(), collection).optional(),
  balancer: z
    .strictObject({
      enabled: z.boolean().optional(),
      activeWindow: z.strictObject({ start: z.string(), stop: z.string() }).nullable().optional(),
      chunkSizeMiB: z.int().min(1).max(1024).optional(),
    })
    .optional(),
  defaults: z
    .strictObject({
      readConcern: z.enum(["local", "available", "majority"]).optional(),
      writeConcern: z
        .strictObject({
          w: z.union([z.int().min(0), z.string()], { error: 'is no number of members, "majority" or name of a mode' }),
          wtimeoutMillis: z.int().min(0).optional(),
        })
        .nullable()
        .optional(),
    })
    .optional(),
  users: z
    .strictObject({
      admin: z.string().optional(),
      application: z.strictObject({ name: z.string().optional(), databases: names.optional() }).nullable().optional(),
      monitoring: z.string().nullable().optional(),
      others: z
        .array(
          z.strictObject({
            name: z.string(),
            database: z.string().optional(),
            roles: z.array(z.strictObject({ role: z.string(), database: z.string() })),
          }),
        )
        .optional(),
    })
    .optional(),
});

/** A declaration of the right shape: short forms written out. List items that were no good are `undefined`. */
export type ReadDeclaration = z.output<typeof SHAPE>;

type Path = readonly (string | number)[];

/** `shards[1].members[0].priority`, `collections["chat.messages"].ranges[0]`. */
export function formatPath(path: Path): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === "number") return `${text}[${step}]`;
    if (!/^[A-Za-z_$][\w$]*$/.test(step)) return `${text}[${JSON.stringify(step)}]`;
    return text === "" ? step : `${text}.${step}`;
  }, "");
}

/** The candidate that a person most likely meant, or undefined when none is near. */
export function nearest(text: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(text.length / 2.5)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(text.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** Letters inserted, left out, replaced, or swapped with their neighbour. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const ways = [(row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, replaced];
      next.push(Math.min(...ways, ...(swapped ? [(before[j - 2] ?? 0) + 1] : [])));
    }
    [before, row] = [row, next];
  }
  return row[b.length] ?? 0;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** An object literal, as opposed to a BSON value, a date or the like. */
function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (!isObject(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** A copy without `undefined` fields and with the short forms written out, so that the shape has no alternatives. */
function writeOut(declaration: unknown): unknown {
  if (!isObject(declaration)) return declaration;
  const copy = copyOf(declaration) as Record<string, unknown>;
  if (Array.isArray(copy.datacenters)) {
    copy.datacenters = copy.datacenters.map((item) => (typeof item === "string" ? { name: item } : item));
  }
  for (const item of isObject(copy.collections) ? Object.values(copy.collections) : []) {
    if (!isObject(item)) continue;
    if (item.perDatacenter === true) item.perDatacenter = {};
    else if (item.perDatacenter === false) delete item.perDatacenter;
  }
  if (isObject(copy.users)) {
    if (copy.users.application === false) copy.users.application = null;
    if (copy.users.monitoring === true) copy.users.monitoring = "monitoring";
    else if (copy.users.monitoring === false) copy.users.monitoring = null;
  }
  return copy;
}

/** Deep for plain objects and lists; BSON values, dates and the like are shared. */
function copyOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copyOf);
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== undefined)
      .map(([field, inner]) => [field, copyOf(inner)]),
  );
}

function valueAt(root: unknown, path: Path): unknown {
  return path.reduce<unknown>((value, step) => (value as Record<string | number, unknown> | undefined)?.[step], root);
}

/** The field names that the shape knows at a path. */
function fieldsAt(path: Path): string[] {
  let at: unknown = SHAPE;
  const unwrap = (schema: unknown): unknown => {
    const { def } = schema as { def?: { innerType?: unknown } };
    return def?.innerType ? unwrap(def.innerType) : schema;
  };
  for (const step of path) {
    const { def } = unwrap(at) as {
      def: { shape?: Record<string, unknown>; element?: unknown; valueType?: unknown };
    };
    at = def.shape?.[step] ?? def.element ?? def.valueType;
    if (at === undefined) return [];
  }
  const { def } = unwrap(at) as { def: { shape?: Record<string, unknown> } };
  return Object.keys(def.shape ?? {});
}

const EXPECTED: Readonly<Record<string, string>> = {
  string: "a text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
};

function describe(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  switch (typeof value) {
    case "string":
      return JSON.stringify(value);
    case "object":
      return "an object";
    case "function":
      return "a function";
    default:
      return String(value);
  }
}

function problemsOf(issue: z.core.$ZodIssue, path: Path, root: unknown): Problem[] {
  const value = valueAt(root, path);
  if (issue.code === "unrecognized_keys") {
    const known = fieldsAt(path);
    return issue.keys.map((field) => {
      const meant = nearest(field, known);
      return {
        path: formatPath([...path, field]),
        message: `unknown field ${field}`,
        rule: "a field that nobody reads would be a wish that nobody grants",
        fix: meant ? `did you mean ${meant}?` : `known here: ${known.join(", ")}`,
      };
    });
  }
  const here = formatPath(path);
  if (issue.code === "invalid_type") {
    const expected = EXPECTED[issue.expected] ?? issue.expected;
    return value === undefined
      ? [{ path: here, message: "is missing", rule: "it has no default", fix: `write ${expected}` }]
      : [{ path: here, message: `${describe(value)} is not ${expected}`, fix: `write ${expected}` }];
  }
  if (issue.code === "too_small" || issue.code === "too_big") {
    const limit = issue.code === "too_small" ? `at least ${issue.minimum}` : `at most ${issue.maximum}`;
    return [
      { path: here, message: `${describe(value)} is out of range`, rule: `it is ${limit}`, fix: `write ${limit}` },
    ];
  }
  if (issue.code === "invalid_value") {
    const values = issue.values.map((one) => JSON.stringify(one)).join(", ");
    return [{ path: here, message: `${describe(value)} is not one of ${values}`, fix: `write one of ${values}` }];
  }
  if (value === undefined) {
    return [{ path: here, message: "is missing", rule: "it has no default", fix: "write it" }];
  }
  return [{ path: here, message: `${describe(value)} ${issue.message}`, fix: "write it in that form" }];
}

/**
 * Takes away what an issue complains about. A list item leaves a hole, so that the paths of the others stay true.
 * @returns Whether there was something to take.
 */
function takeAway(root: unknown, path: Path): boolean {
  const last = path.at(-1);
  const parent = valueAt(root, path.slice(0, -1));
  if (last === undefined) return false;
  if (Array.isArray(parent)) {
    if ((parent as unknown[])[Number(last)] === HOLE) return false;
    (parent as unknown[])[Number(last)] = HOLE;
    return true;
  }
  return isPlainObject(parent) && Object.hasOwn(parent, last) && delete parent[last];
}

const HOLE = Symbol("an item that was no good");

/** Zod knows no holes: they are taken out before it looks, and the paths it gives are put back in terms of the original. */
function withoutHoles(value: unknown): unknown {
  if (Array.isArray(value)) return value.filter((item) => item !== HOLE).map(withoutHoles);
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([field, inner]) => [field, withoutHoles(inner)]));
}

function originalPath(root: unknown, path: Path): Path {
  const original: (string | number)[] = [];
  for (const step of path) {
    const list = valueAt(root, original);
    if (Array.isArray(list) && typeof step === "number") {
      const kept = list.flatMap((item, index) => (item === HOLE ? [] : [index]));
      original.push(kept[step] ?? step);
    } else {
      original.push(step);
    }
  }
  return original;
}

/** Puts `undefined` back where items were taken out, so that positions are those of the declaration. */
function restoreHoles(read: unknown, root: unknown): unknown {
  if (Array.isArray(read) && Array.isArray(root)) {
    const items = [...read];
    return root.map((item) => (item === HOLE ? undefined : restoreHoles(items.shift(), item)));
  }
  if (!isPlainObject(read) || !isPlainObject(root)) return read;
  return Object.fromEntries(Object.entries(read).map(([field, inner]) => [field, restoreHoles(inner, root[field])]));
}

/**
 * Reads a declaration: what is wrong with its shape, and the rest of it, so that the rules can look at that as well
 * and a user learns of all mistakes at once. `read` is undefined only when nothing is left to look at.
 */
export function readDeclaration(declaration: ClusterDeclaration | unknown): {
  read: ReadDeclaration | undefined;
  problems: Problem[];
} {
  const root = writeOut(declaration);
  const problems: Problem[] = [];
  const taken = new Set<string>();
  for (;;) {
    const result = SHAPE.safeParse(withoutHoles(root));
    if (result.success) return { read: restoreHoles(result.data, root) as ReadDeclaration, problems };
    let progress = false;
    // Paths first: taking things away moves nothing, but the holes it leaves change how paths are read.
    const issues = result.error.issues.map((issue) => ({ issue, path: originalPath(root, issue.path as Path) }));
    for (const { issue, path } of issues) {
      const consequence = valueAt(root, path) === undefined && taken.has(formatPath(path));
      if (!consequence) problems.push(...problemsOf(issue, path, root));
      const targets =
        issue.code === "unrecognized_keys"
          ? issue.keys.map((field) => [...path, field])
          : // Something that must be there and is not: the whole that needs it cannot be looked at.
            [valueAt(root, path) === undefined ? path.slice(0, -1) : path];
      for (const target of targets) {
        const [field] = path;
        if (target.length === 0) {
          // Missing at the top: something in its place lets the rest be looked at.
          const placeholder = field === "name" ? "unnamed" : field === "datacenters" ? [] : undefined;
          if (!isObject(root) || placeholder === undefined) continue;
          root[String(field)] = placeholder;
        } else if (!takeAway(root, target)) {
          continue;
        }
        taken.add(formatPath(target));
        progress = true;
      }
    }
    if (!progress) {
      const [first] = issues;
      if (problems.length === 0 && first) problems.push(...problemsOf(first.issue, first.path, root));
      return { read: undefined, problems };
    }
  }
}
