import { BSON, type Db, type Document, type MongoClient, MongoServerError } from "mongodb";

/** What a step can reach: the case's own database, `admin`, `config` and the shards' names in order. */
export interface CaseContext {
  readonly client: MongoClient;
  readonly db: Db;
  readonly admin: Db;
  readonly config: Db;
  readonly shards: readonly [string, string];
  readonly ns: (collection: string) => string;
}

/** What came back, or should: a reply's fields, a value made from replies, or a refusal. */
export type Outcome =
  | { readonly fields: Document; readonly writeErrors?: readonly (readonly [index: number, code: number])[] }
  | { readonly value: unknown }
  | { readonly code: number | null; readonly codeName: string | null; readonly labels?: readonly string[] };

export interface Step {
  readonly label: (c: CaseContext) => string;
  readonly run: (c: CaseContext) => Promise<unknown>;
  readonly want: Outcome;
}

export interface RouterCase {
  readonly name: string;
  /** The oldest server's major version on which the answers hold; 5 for those recorded on a real mongos 5.0. */
  readonly since: number;
  readonly steps: (c: CaseContext) => readonly Step[];
  readonly cleanup?: (c: CaseContext) => Promise<unknown>;
}

type CommandOf = Document | ((c: CaseContext) => Document);

/** The reply is a success; nothing more is asked. */
export const ok: Outcome = { fields: {} };
/** A success with these fields (dotted paths; `null` for an absent one). */
export const fields = (wanted: Document): Outcome => ({ fields: wanted });
/** A success whose `writeErrors` are these pairs of index and code, with these fields. */
export const writeErrors = (errors: readonly (readonly [number, number])[], wanted: Document): Outcome => ({
  fields: wanted,
  writeErrors: errors,
});
/** A refusal; `null` where the server gives no code. */
export const refused = (code: number | null, codeName: string | null, labels?: readonly string[]): Outcome => ({
  code,
  codeName,
  ...(labels ? { labels } : {}),
});

function command(target: "admin" | "config" | "db") {
  return (given: CommandOf, want: Outcome): Step => {
    const made = (c: CaseContext) => (typeof given === "function" ? given(c) : given);
    return {
      label: (c) => `${target} ${BSON.EJSON.stringify(made(c), { relaxed: true }).slice(0, 160)}`,
      run: (c) => c[target].command(made(c)),
      want,
    };
  };
}

export const admin = command("admin");
export const config = command("config");
export const db = command("db");

/** A step that asks through the driver's own methods, or puts several replies together. */
export function value(label: string, run: (c: CaseContext) => Promise<unknown>, wanted: unknown): Step {
  return { label: () => label, run, want: { value: wanted } };
}

/** A step through the driver's own methods that must be refused. */
export function refusal(label: string, run: (c: CaseContext) => Promise<unknown>, want: Outcome): Step {
  return { label: () => label, run, want };
}

export function routerCase(
  name: string,
  steps: RouterCase["steps"],
  more: { readonly since?: number; readonly cleanup?: RouterCase["cleanup"] } = {},
): RouterCase {
  return { name, steps, since: more.since ?? 5, ...(more.cleanup ? { cleanup: more.cleanup } : {}) };
}

/** Makes the values of two sides comparable: BSON types as Extended JSON, numbers by value. */
function plain(given: unknown): unknown {
  return given === undefined ? null : JSON.parse(BSON.EJSON.stringify(given, { relaxed: true }));
}

function pick(reply: unknown, dotted: string): unknown {
  return dotted.split(".").reduce<unknown>((at, key) => {
    if (typeof at !== "object" || at === null) return undefined;
    return Reflect.get(at, key);
  }, reply);
}

/** Asks one step and puts what came back into the shape of what was wanted. */
export async function outcomeOf(step: Step, c: CaseContext): Promise<Outcome> {
  try {
    const reply = await step.run(c);
    if ("value" in step.want) return { value: plain(reply) };
    const names = "fields" in step.want ? Object.keys(step.want.fields) : [];
    const errors = pick(reply, "writeErrors");
    return {
      fields: Object.fromEntries(names.map((name) => [name, plain(pick(reply, name))])),
      ...(Array.isArray(errors) ? { writeErrors: errors.map((e) => [Number(e.index), Number(e.code)] as const) } : {}),
    };
  } catch (error) {
    if (!(error instanceof MongoServerError)) throw error;
    const labels = [...error.errorLabels].sort();
    const code = typeof error.code === "number" ? error.code : null;
    return { code, codeName: error.codeName ?? null, ...(labels.length > 0 ? { labels } : {}) };
  }
}

export const wanted = (want: Outcome): Outcome => plain(want) as Outcome;
