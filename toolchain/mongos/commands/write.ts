/** insert, update, delete: every statement goes to the shards that own what it touches. */
import { randomBytes } from "node:crypto";
import { bsonType, type Doc, DocWriter, encode, type Fields, Value } from "../bson/document.ts";
import type { CollectionRouting, DatabaseEntry } from "../catalog/entries.ts";
import { targetingCollation } from "../cluster-router.ts";
import type { CommandContext, Reply } from "../context.ts";
import { isStale } from "../dispatch/retry.ts";
import { CommandError, errorCode, knownCodeName } from "../errors.ts";
import { exactKey, hasExactId, queryRanges } from "../targeting/query-ranges.ts";
import { keyOfDocument, parseShardKey } from "../targeting/shard-key.ts";
import { routerOf } from "./find.ts";
import { moveDocument } from "./move-document.ts";
import type { CommandTable } from "./registry.ts";

type Kind = "insert" | "update" | "delete";

const arrayField: Readonly<Record<Kind, string>> = { insert: "documents", update: "updates", delete: "deletes" };
const maxStatements = 100_000;
/** Rounds without a finished statement after which a batch is given up (mongos: 5). */
const maxIdleRounds = 8;
/** A command to a shard holds at most so many bytes of statements. */
const maxBatchBytes = 46_000_000;

interface Statement {
  readonly index: number;
  readonly doc: Doc;
}

/** An error of one statement, as `writeErrors` has it. */
interface StatementError {
  readonly index: number;
  readonly error: Doc;
}

interface Outcome {
  n: number;
  nModified: number;
  readonly upserted: { index: number; id: Value }[];
  readonly errors: StatementError[];
  readonly concernErrors: { shard: string; error: Doc }[];
  readonly retried: number[];
}

function errorDoc(error: CommandError): Doc {
  const out = new DocWriter().append("code", error.code).append("errmsg", error.message);
  for (const [name, value] of Object.entries(error.extra)) out.append(name, value);
  return out.finish();
}

/** Shards of one statement. Throws the statement's error. */
function targetsOf(kind: Kind, statement: Doc, routing: CollectionRouting): string[] {
  const key = parseShardKey(routing.key);
  const { table } = routing;
  if (kind === "insert") return [table.chunkFor(keyOfDocument(key, statement)).shard];
  const query = statement.doc("q") ?? encode({});
  const collated = targetingCollation(routing, statement.doc("collation"));
  const isExactId = hasExactId(query) && !(statement.doc("collation") !== undefined && collated);
  const exact = exactKey(key, query, collated);
  if (kind === "delete") {
    const single = statement.number("limit") === 1;
    if (exact !== undefined) return [table.chunkFor(exact).shard];
    const shards = byQuery();
    if (single && shards.length > 1 && !isExactId)
      throw new CommandError(
        errorCode.ShardKeyNotFound,
        `A single delete on a sharded collection must contain an exact match on _id (and have the collection default collation) or contain the shard key (and have the simple collation). Delete request: ${statement}, shard key pattern: ${routing.key}`,
      );
    return shards;
  }
  if (statement.bool("upsert") === true) {
    if (exact === undefined)
      throw new CommandError(
        errorCode.ShardKeyNotFound,
        `Failed to target upsert by query :: could not extract exact shard key from ${query}`,
      );
    return [table.chunkFor(exact).shard];
  }
  if (exact !== undefined) return [table.chunkFor(exact).shard];
  const shards = byQuery();
  if (shards.length === 1) return shards;
  const u = statement.find("u");
  if (u?.isObject() === true && u.doc().first()?.name.startsWith("$") !== true) {
    const id = query.find("_id");
    const replacement = !u.doc().has("_id") && id !== undefined && isExactId ? u.doc().with({ _id: id }) : u.doc();
    return [table.chunkFor(keyOfDocument(key, replacement)).shard];
  }
  if (statement.bool("multi") !== true && !isExactId)
    throw new CommandError(
      errorCode.InvalidOptions,
      `A {multi:false} update on a sharded collection must contain an exact match on _id (and have the collection default collation) or contain the shard key (and have the simple collation), but this update targeted ${shards.length} shards. Update request: ${statement}, shard key pattern: ${routing.key}`,
    );
  return shards;

  function byQuery(): string[] {
    const ranges = queryRanges(key, query, collated);
    if (ranges === undefined) return table.shards();
    const found = table.shardsFor(ranges);
    return found.length > 0 ? found : table.shards().slice(0, 1);
  }
}

interface Group {
  readonly shard: string;
  readonly statements: Statement[];
  bytes: number;
}

/** Adds `_id` in front of a document without one: needed where the shard key has `_id` in it. */
function withId(doc: Doc): Doc {
  if (doc.has("_id")) return doc;
  const id = Buffer.allocUnsafe(12);
  id.writeUInt32BE(Math.floor(Date.now() / 1000));
  randomBytes(8).copy(id, 4);
  return new DocWriter(doc.bytes.length + 32)
    .append("_id", new Value(bsonType.objectId, id, 0, 12))
    .all(doc)
    .finish();
}

class BatchWriter {
  readonly #ctx: CommandContext;
  readonly #kind: Kind;
  readonly #ns: string;
  readonly #base: Doc;
  readonly #ordered: boolean;
  readonly #docs: readonly Doc[];
  readonly #stmtIds: readonly number[] | undefined;
  readonly #out: Outcome = { n: 0, nModified: 0, upserted: [], errors: [], concernErrors: [], retried: [] };
  #stopped = false;

  constructor(ctx: CommandContext, kind: Kind) {
    this.#ctx = ctx;
    this.#kind = kind;
    this.#ns = ctx.namespace();
    this.#docs = ctx.documents(arrayField[kind]);
    this.#ordered = ctx.body.bool("ordered") !== false;
    this.#base = ctx.command().without(arrayField[kind], "ordered");
    if (this.#docs.length === 0 || this.#docs.length > maxStatements)
      throw new CommandError(
        errorCode.InvalidLength,
        `Write batch sizes must be between 1 and ${maxStatements}. Got ${this.#docs.length} operations.`,
      );
    const given = ctx.body.array("stmtIds")?.map((id) => id.number());
    const from = ctx.body.number("stmtId");
    if (ctx.session?.txnNumber !== undefined && !ctx.inTransaction)
      this.#stmtIds = given ?? this.#docs.map((_doc, i) => (from ?? 0) + i);
  }

  async run(): Promise<Reply> {
    const router = routerOf(this.#ctx);
    let pending: Statement[] = this.#docs.map((doc, index) => ({ index, doc }));
    for (let idle = 0; pending.length > 0 && !this.#stopped; ) {
      const before = pending.length;
      let stale: CommandError | undefined;
      try {
        const database = await this.#database();
        const routing = await router.catalog.collection(this.#ctx, this.#ns);
        const result = await this.#round(pending, routing, database);
        pending = result.pending;
        stale = result.stale;
      } catch (error) {
        if (!(error instanceof CommandError)) throw error;
        if (isStale(error)) stale = error;
        else {
          this.#wholeError(pending, error);
          break;
        }
      }
      if (stale !== undefined) {
        await this.#onStale(stale);
        if (idle > 2) await new Promise((resolve) => setTimeout(resolve, 20 * idle));
        if (this.#ctx.deadline.left() <= 0) {
          this.#wholeError(pending, new CommandError(errorCode.MaxTimeMSExpired, "operation exceeded time limit"));
          break;
        }
      }
      idle = pending.length < before ? 0 : idle + 1;
      if (idle > maxIdleRounds)
        throw new CommandError(
          82,
          `no progress was made executing batch write op in ${this.#ns} after ${maxIdleRounds} rounds`,
          { codeName: "NoProgressMade", ...(stale === undefined ? {} : { cause: stale }) },
        );
    }
    return this.#reply();
  }

  #database(): Promise<DatabaseEntry> {
    return routerOf(this.#ctx).catalog.databaseOrCreate(this.#ctx, this.#ctx.db);
  }

  async #onStale(error: CommandError): Promise<void> {
    const router = routerOf(this.#ctx);
    router.noteStale(error, this.#ns);
    const transaction = this.#ctx.inTransaction ? router.transactions.of(this.#ctx) : undefined;
    if (transaction === undefined) return;
    const fresh = transaction.newParticipants();
    if (transaction.statement > 0 && fresh.length === 0) {
      error.labels.add("TransientTransactionError");
      throw error;
    }
    await router.abortOn(this.#ctx, fresh);
    for (const shard of fresh) transaction.forget(shard);
  }

  /** An error that is no statement's own: it becomes that of the first statement left, or of all when unordered. */
  #wholeError(pending: readonly Statement[], error: CommandError): void {
    if (this.#ctx.inTransaction) throw error;
    for (const statement of this.#ordered ? pending.slice(0, 1) : pending)
      this.#out.errors.push({ index: statement.index, error: errorDoc(error) });
    if (error.labels.has("RetryableWriteError")) this.#labels.add("RetryableWriteError");
    this.#stopped = true;
  }

  readonly #labels = new Set<string>();

  /** Sends what can be sent now; returns the statements that are left. */
  async #round(
    pending: readonly Statement[],
    routing: CollectionRouting | undefined,
    database: DatabaseEntry,
  ): Promise<{ pending: Statement[]; stale: CommandError | undefined }> {
    if (routing === undefined) {
      const [first, ...rest] = splitBySize(pending);
      if (first === undefined) return { pending: [], stale: undefined };
      const result = await this.#send({ shard: database.primary, statements: first, bytes: 0 }, routing, database);
      return { pending: this.#stopped ? [] : [...result.left, ...rest.flat()], stale: result.stale };
    }
    const idInKey = this.#kind === "insert" && parseShardKey(routing.key).fields.some((f) => f.path.startsWith("_id"));
    const singles = new Map<string, Group>();
    const wide: { statement: Statement; shards: string[] }[] = [];
    const later: Statement[] = [];
    for (let i = 0; i < pending.length; i++) {
      let statement = pending[i] as Statement;
      if (idInKey) statement = { index: statement.index, doc: withId(statement.doc) };
      let shards: string[];
      try {
        shards = targetsOf(this.#kind, statement.doc, routing);
      } catch (error) {
        if (!(error instanceof CommandError)) throw error;
        if (this.#ordered && (singles.size > 0 || wide.length > 0)) {
          later.push(...pending.slice(i));
          break;
        }
        if (this.#ctx.inTransaction) throw error;
        this.#out.errors.push({ index: statement.index, error: errorDoc(error) });
        if (!this.#ordered) continue;
        this.#stopped = true;
        return { pending: [], stale: undefined };
      }
      const size = statement.doc.bytes.length + 16;
      if (shards.length === 1) {
        const shard = shards[0] as string;
        let group = singles.get(shard);
        const blocked = this.#ordered && (wide.length > 0 || (singles.size > 0 && group === undefined));
        if (blocked || (group !== undefined && group.bytes + size > maxBatchBytes)) {
          if (this.#ordered) {
            later.push(...pending.slice(i));
            break;
          }
          later.push(statement);
          continue;
        }
        if (group === undefined) {
          group = { shard, statements: [], bytes: 0 };
          singles.set(shard, group);
        }
        group.statements.push(statement);
        group.bytes += size;
      } else {
        if (this.#ordered && (singles.size > 0 || wide.length > 0)) {
          later.push(...pending.slice(i));
          break;
        }
        wide.push({ statement, shards });
      }
    }
    let stale: CommandError | undefined;
    const results = await Promise.all([...singles.values()].map((group) => this.#send(group, routing, database)));
    const left: Statement[] = [];
    for (const result of results) {
      left.push(...result.left);
      stale ??= result.stale;
    }
    for (const { statement, shards } of wide) {
      if (this.#stopped) break;
      const result = await this.#sendWide(statement, shards, routing, database);
      if (result !== undefined) {
        left.push(statement);
        stale ??= result;
      }
    }
    if (this.#stopped) return { pending: [], stale: undefined };
    return { pending: [...left, ...later].sort((a, b) => a.index - b.index), stale };
  }

  async #ask(
    shardId: string,
    statements: readonly Statement[],
    routing: CollectionRouting | undefined,
    database: DatabaseEntry,
  ): Promise<Doc> {
    const ctx = this.#ctx;
    const shard = await routerOf(ctx).shard(ctx, shardId);
    const command = new DocWriter(this.#base.bytes.length + 64)
      .all(this.#base)
      .append("ordered", this.#ordered)
      .finish();
    return shard.run(ctx, ctx.db, command, {
      sequences: new Map([[arrayField[this.#kind], statements.map((statement) => statement.doc)]]),
      retryableWrite: true,
      withWriteConcern: true,
      withReadConcern: false,
      version: routerOf(ctx).versionOf(routing, shardId, database),
      ...(this.#stmtIds === undefined
        ? {}
        : { stmtIds: statements.map((statement) => (this.#stmtIds as readonly number[])[statement.index] as number) }),
    });
  }

  /** Sends statements to the one shard that owns them. */
  async #send(
    group: Group,
    routing: CollectionRouting | undefined,
    database: DatabaseEntry,
  ): Promise<{ left: Statement[]; stale: CommandError | undefined }> {
    let reply: Doc;
    try {
      reply = await this.#ask(group.shard, group.statements, routing, database);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      if (isStale(error)) return { left: group.statements, stale: error };
      if (error.code === errorCode.WouldChangeOwningShard && error.reply !== undefined)
        return this.#move(group.statements[0] as Statement, error.reply, group.shard);
      this.#wholeError(group.statements, error);
      return { left: [], stale: undefined };
    }
    return this.#take(group, reply);
  }

  /** Adds up one shard's answer. */
  async #take(group: Group, reply: Doc): Promise<{ left: Statement[]; stale: CommandError | undefined }> {
    const out = this.#out;
    out.n += reply.number("n") ?? 0;
    out.nModified += reply.number("nModified") ?? 0;
    this.#concern(group.shard, reply);
    for (const entry of reply.docs("upserted")) {
      const statement = group.statements[entry.number("index") ?? 0];
      const id = entry.find("_id");
      if (statement !== undefined && id !== undefined) out.upserted.push({ index: statement.index, id: id.detached() });
    }
    for (const id of reply.array("retriedStmtIds") ?? []) out.retried.push(id.number());
    let stale: CommandError | undefined;
    const left: Statement[] = [];
    let firstError = Number.POSITIVE_INFINITY;
    for (const error of reply.docs("writeErrors")) {
      const at = error.number("index") ?? 0;
      const statement = group.statements[at];
      if (statement === undefined) continue;
      const code = error.number("code") ?? 0;
      const asError = new CommandError(code, error.string("errmsg") ?? "", { reply: error });
      firstError = Math.min(firstError, at);
      if (isStale(asError)) {
        stale ??= asError;
        left.push(statement);
      } else if (code === errorCode.WouldChangeOwningShard) {
        const moved = await this.#move(statement, error, group.shard);
        left.push(...moved.left);
        stale ??= moved.stale;
      } else out.errors.push({ index: statement.index, error: error.without("index").detached() });
    }
    if (this.#ordered && Number.isFinite(firstError)) {
      if (stale === undefined) this.#stopped = this.#stopped || out.errors.length > 0;
      else return { left: group.statements.slice(firstError), stale };
    }
    if (out.errors.length > 0 && this.#ctx.inTransaction) this.#stopped = true;
    return { left, stale };
  }

  #concern(shard: string, reply: Doc): void {
    const error = reply.doc("writeConcernError");
    if (error !== undefined) this.#out.concernErrors.push({ shard, error: error.detached() });
    for (const label of reply.array("errorLabels") ?? []) this.#labels.add(label.text());
  }

  /** One statement to several shards; returns a stale error when some shard has to be asked again. */
  async #sendWide(
    statement: Statement,
    shards: readonly string[],
    routing: CollectionRouting,
    database: DatabaseEntry,
  ): Promise<CommandError | undefined> {
    const done = this.#doneOn.get(statement.index) ?? new Set<string>();
    this.#doneOn.set(statement.index, done);
    let stale: CommandError | undefined;
    const settled = await Promise.allSettled(
      shards
        .filter((id) => !done.has(id))
        .map(async (id) => ({ id, reply: await this.#ask(id, [statement], routing, database) })),
    );
    const failures: Doc[] = [];
    for (const result of settled) {
      if (result.status === "rejected") {
        const error: unknown = result.reason;
        if (!(error instanceof CommandError)) throw error;
        if (isStale(error)) stale ??= error;
        else if (error.code === errorCode.WouldChangeOwningShard && error.reply !== undefined) {
          await this.#move(statement, error.reply, shards[0] as string);
        } else if (this.#ctx.inTransaction) throw error;
        else failures.push(errorDoc(error));
        continue;
      }
      const { id, reply } = result.value;
      const [error] = reply.docs("writeErrors");
      const asError =
        error === undefined
          ? undefined
          : new CommandError(error.number("code") ?? 0, error.string("errmsg") ?? "", { reply: error });
      if (asError !== undefined && isStale(asError)) {
        stale ??= asError;
        continue;
      }
      done.add(id);
      this.#out.n += reply.number("n") ?? 0;
      this.#out.nModified += reply.number("nModified") ?? 0;
      this.#concern(id, reply);
      if (error === undefined) continue;
      if (asError?.code === errorCode.WouldChangeOwningShard) await this.#move(statement, error, id);
      else failures.push(error.without("index").detached());
    }
    if (failures.length > 0) {
      this.#out.errors.push({ index: statement.index, error: failures[0] as Doc });
      if (this.#ordered || this.#ctx.inTransaction) this.#stopped = true;
      return undefined;
    }
    return stale;
  }

  /** Shards that have answered for a statement that goes to several. */
  readonly #doneOn = new Map<number, Set<string>>();

  /** A document whose new shard key belongs to another shard. */
  async #move(
    statement: Statement,
    info: Doc,
    origin: string,
  ): Promise<{ left: Statement[]; stale: CommandError | undefined }> {
    if (this.#docs.length > 1) {
      this.#out.errors.push({
        index: statement.index,
        error: encode({
          code: errorCode.InvalidOptions,
          errmsg:
            "Document shard key value updates that cause the doc to move shards must be sent with write batch of size 1",
        }),
      });
      if (this.#ordered) this.#stopped = true;
      return { left: [], stale: undefined };
    }
    try {
      const moved = await moveDocument(this.#ctx, this.#ns, info, origin, async (inner) => {
        const command = new DocWriter()
          .all(this.#base)
          .docs("updates", [statement.doc])
          .append("ordered", true)
          .finish();
        return inner(command);
      });
      this.#out.n += moved.n;
      this.#out.nModified += moved.upserted === undefined ? moved.n : 0;
      if (moved.upserted !== undefined) this.#out.upserted.push({ index: statement.index, id: moved.upserted });
    } catch (error) {
      if (!(error instanceof CommandError) || this.#ctx.inTransaction) throw error;
      this.#out.errors.push({ index: statement.index, error: errorDoc(error) });
      this.#stopped = true;
    }
    return { left: [], stale: undefined };
  }

  async #reply(): Promise<Reply> {
    const out = this.#out;
    out.errors.sort((a, b) => a.index - b.index);
    out.upserted.sort((a, b) => a.index - b.index);
    if (this.#ctx.inTransaction && out.errors.length > 0) await routerOf(this.#ctx).abortImplicitly(this.#ctx);
    const reply = new DocWriter().append("n", out.n);
    if (this.#kind === "update") reply.append("nModified", out.nModified);
    if (out.upserted.length > 0)
      reply.append(
        "upserted",
        out.upserted.map(({ index, id }) => ({ index, _id: id })),
      );
    if (out.errors.length > 0)
      reply.docs(
        "writeErrors",
        out.errors.map(({ index, error }) => writeError(index, error)),
      );
    reply.append("writeConcernError", mergeConcernErrors(out.concernErrors));
    if (out.retried.length > 0) reply.append("retriedStmtIds", out.retried);
    if (this.#labels.size > 0) reply.append("errorLabels", [...this.#labels]);
    return reply.finish();
  }
}

/** One writeConcernError from those of several shards. */
export function mergeConcernErrors(errors: readonly { shard: string; error: Doc }[]): Doc | Fields | undefined {
  const [first, ...others] = errors;
  if (first === undefined) return undefined;
  if (others.length === 0) return first.error;
  const codes = new Set(errors.map(({ error }) => error.number("code")));
  const text = errors.map(({ shard, error }) => `${error.string("errmsg") ?? ""} at ${shard}`).join(" :: and :: ");
  return codes.size === 1
    ? first.error.with({ errmsg: `multiple errors reported : ${text}` })
    : {
        code: errorCode.WriteConcernFailed,
        codeName: "WriteConcernFailed",
        errmsg: `multiple errors reported : ${text}`,
      };
}

/** Cuts statements, in their order, into groups that fit into one command each. */
export function splitBySize<T extends { readonly doc: Doc }>(statements: readonly T[], limit = maxBatchBytes): T[][] {
  const out: T[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const statement of statements) {
    const size = statement.doc.bytes.length + 16;
    if (bytes + size > limit) {
      out.push([]);
      bytes = 0;
    }
    out.at(-1)?.push(statement);
    bytes += size;
  }
  return out;
}

/** One entry of `writeErrors`, with the code's name as mongos gives it. */
function writeError(index: number, error: Doc): Doc {
  const out = new DocWriter().append("index", index);
  for (const element of error) {
    out.element(element);
    if (element.name === "code" && !error.has("codeName")) out.append("codeName", knownCodeName(element.number()));
  }
  return out.finish();
}

/** Runs a write whose statements stand in the context. */
export function writeBatch(ctx: CommandContext, kind: Kind): Promise<Reply> {
  return new BatchWriter(ctx, kind).run();
}

const write = (kind: Kind) => (ctx: CommandContext) => writeBatch(ctx, kind);
const actionsOf: Readonly<Record<Kind, (ctx: CommandContext) => string[]>> = {
  insert: (ctx) =>
    ctx.body.bool("bypassDocumentValidation") === true ? ["insert", "bypassDocumentValidation"] : ["insert"],
  update: (ctx) => [
    "update",
    ...(ctx.documents("updates").some((update) => update.bool("upsert") === true) ? ["insert"] : []),
    ...(ctx.body.bool("bypassDocumentValidation") === true ? ["bypassDocumentValidation"] : []),
  ],
  delete: () => ["remove"],
};
const requirement = (kind: Kind) => (ctx: CommandContext) => [
  { resource: { db: ctx.db, collection: ctx.collection() }, actions: actionsOf[kind](ctx) },
];

export const writeCommands: CommandTable = {
  insert: { requires: requirement("insert"), inTransaction: true, write: true, handler: write("insert") },
  update: { requires: requirement("update"), inTransaction: true, write: true, handler: write("update") },
  delete: { requires: requirement("delete"), inTransaction: true, write: true, handler: write("delete") },
};
