/** Cursors on shards, and the ways to read several as one. */
import { compareValues } from "../bson/compare.ts";
import { Doc, Value } from "../bson/document.ts";
import { OperationContext } from "../context.ts";
import { CommandError } from "../errors.ts";
import { log } from "../log.ts";
import type { ServerGroup } from "../router.ts";
import type { Batch, RouterCursor } from "./store.ts";

/** A reply holds at most so many bytes of documents (one larger document alone is fine). */
export const maxBatchBytes = 16 * 1024 * 1024;

/** Documents of a cursor's answer without decoding them. */
export function batchOf(reply: Doc, field: "firstBatch" | "nextBatch"): { docs: Doc[]; id: Value; ns: string } {
  const cursor = reply.doc("cursor");
  if (cursor === undefined) throw new CommandError(1, "a shard answered a query without a cursor");
  const docs: Doc[] = [];
  const batch = cursor.find(field);
  if (batch !== undefined) for (const item of batch.doc()) docs.push(item.doc());
  return { docs, id: cursor.find("id") ?? Value.of(0), ns: cursor.string("ns") ?? "" };
}

/** One cursor on one member of a shard. */
export class RemoteCursor {
  readonly shard: ServerGroup;
  readonly #host: string | undefined;
  readonly #db: string;
  readonly #collection: string;
  readonly #session: OperationContext;
  #id: Value;
  #docs: Doc[];
  #at = 0;
  /** Fields of the last answer's cursor that go on to the client. */
  extra: Record<string, Value> = {};
  partial = false;

  constructor(ctx: OperationContext, shard: ServerGroup, db: string, reply: Doc) {
    const { docs, id, ns } = batchOf(reply, "firstBatch");
    this.shard = shard;
    this.#host = reply.string("$host");
    this.#db = db;
    this.#collection = ns.slice(ns.indexOf(".") + 1);
    this.#docs = docs;
    this.#id = id.detached();
    this.#session = new OperationContext(ctx.router, { session: ctx.session });
    this.#note(reply);
  }

  get exhausted(): boolean {
    return this.#at >= this.#docs.length && this.#id.bigint() === 0n;
  }

  /** True when the shard has no more than what is here. */
  get closed(): boolean {
    return this.#id.bigint() === 0n;
  }

  get buffered(): number {
    return this.#docs.length - this.#at;
  }

  peek(): Doc | undefined {
    return this.#docs[this.#at];
  }

  shift(): Doc | undefined {
    return this.#at < this.#docs.length ? this.#docs[this.#at++] : undefined;
  }

  #note(reply: Doc): void {
    const cursor = reply.doc("cursor");
    const token = cursor?.find("postBatchResumeToken");
    if (token !== undefined) this.extra = { postBatchResumeToken: token.detached() };
    if (cursor?.bool("partialResultsReturned") === true) this.partial = true;
  }

  /** Fetches the next batch. */
  async fetch(ctx: OperationContext, batchSize: number, awaitMs?: number): Promise<void> {
    if (this.closed) return;
    const reply = await this.shard.run(
      ctx,
      this.#db,
      {
        getMore: this.#id,
        collection: this.#collection,
        batchSize: batchSize > 0 ? batchSize : undefined,
        maxTimeMS: awaitMs,
      },
      { ...(this.#host === undefined ? {} : { host: this.#host }), withoutMaxTime: true },
    );
    const { docs, id } = batchOf(reply, "nextBatch");
    this.#docs = docs;
    this.#at = 0;
    this.#id = id.detached();
    this.#note(reply);
  }

  async kill(): Promise<void> {
    if (this.closed) return;
    const id = this.#id;
    this.#id = Value.of(0);
    this.#docs = [];
    this.#at = 0;
    try {
      await this.shard.run(
        this.#session,
        this.#db,
        { killCursors: this.#collection, cursors: [id] },
        { ...(this.#host === undefined ? {} : { host: this.#host }), withoutSession: !this.#session.inTransaction },
      );
    } catch (error) {
      log("D1", "QUERY", "A cursor could not be closed", { shard: this.shard.id, error: String(error) });
    }
  }
}

/** The one cursor of one shard. */
export class SingleCursor implements RouterCursor {
  readonly remote: RemoteCursor;
  awaitMs: number | undefined;

  constructor(remote: RemoteCursor) {
    this.remote = remote;
  }

  async next(ctx: OperationContext, maxDocs: number): Promise<Batch> {
    if (this.remote.buffered === 0 && !this.remote.closed) await this.remote.fetch(ctx, maxDocs, this.awaitMs);
    const docs: Doc[] = [];
    while (this.remote.buffered > 0 && (maxDocs === 0 || docs.length < maxDocs)) docs.push(this.remote.shift() as Doc);
    return { docs, exhausted: this.remote.exhausted, extra: this.remote.extra, partial: this.remote.partial };
  }

  kill(): Promise<void> {
    return this.remote.kill();
  }
}

interface Head {
  readonly doc: Doc;
  readonly key: readonly Value[] | undefined;
}

export interface MergeOptions {
  /** Directions of the sort pattern (1 or -1), when the shards' answers are sorted and carry `$sortKey`. */
  readonly directions?: readonly number[] | undefined;
  readonly skip?: number;
  /** 0: no limit. */
  readonly limit?: number;
  /** Shards that could not be asked (allowPartialResults). */
  readonly partial?: boolean;
  /** Further fields of the first batch's cursor document. */
  readonly extra?: Readonly<Record<string, Value>> | undefined;
}

/** Several cursors read as one: merged by sort key, or one after another as documents come. */
export class MergedCursor implements RouterCursor {
  readonly #remotes: readonly RemoteCursor[];
  readonly #heads = new Map<RemoteCursor, Head>();
  readonly #options: MergeOptions;
  #skip: number;
  #left: number;
  #turn = 0;
  #pushedBack: Doc | undefined;

  constructor(remotes: readonly RemoteCursor[], options: MergeOptions = {}) {
    this.#remotes = remotes;
    this.#options = options;
    this.#skip = options.skip ?? 0;
    this.#left = options.limit !== undefined && options.limit > 0 ? options.limit : Number.POSITIVE_INFINITY;
  }

  async next(ctx: OperationContext, maxDocs: number): Promise<Batch> {
    const docs: Doc[] = [];
    let bytes = 0;
    while ((maxDocs === 0 || docs.length < maxDocs) && this.#left > 0) {
      // With something to give, a batch without a size ends where the shards would have to be asked again.
      const ready = await this.#ready(ctx, maxDocs, docs.length > 0 && maxDocs === 0);
      if (!ready) break;
      const doc = this.#pushedBack ?? this.#take();
      this.#pushedBack = undefined;
      if (doc === undefined) break;
      if (this.#skip > 0) {
        this.#skip--;
        continue;
      }
      if (docs.length > 0 && bytes + doc.bytes.length > maxBatchBytes) {
        this.#pushedBack = doc;
        break;
      }
      bytes += doc.bytes.length;
      docs.push(doc);
      this.#left--;
    }
    const exhausted =
      this.#pushedBack === undefined && (this.#left === 0 || this.#remotes.every((remote) => remote.exhausted));
    if (exhausted && this.#left === 0) await this.kill();
    const partial = this.#options.partial === true || this.#remotes.some((remote) => remote.partial);
    return { docs, exhausted, partial, ...(this.#options.extra === undefined ? {} : { extra: this.#options.extra }) };
  }

  /** Makes sure that the next document is known; false when there is none, or (with `lazy`) when shards must be asked. */
  async #ready(ctx: OperationContext, batchSize: number, lazy: boolean): Promise<boolean> {
    if (this.#pushedBack !== undefined) return true;
    for (;;) {
      const sorted = this.#options.directions !== undefined;
      const empty = this.#remotes.filter((remote) => remote.buffered === 0 && !remote.closed);
      if (sorted ? empty.length === 0 : this.#remotes.some((remote) => remote.buffered > 0))
        return this.#remotes.some((remote) => remote.buffered > 0);
      if (empty.length === 0) return false;
      if (lazy) return false;
      await Promise.all(empty.map((remote) => remote.fetch(ctx, batchSize)));
    }
  }

  #take(): Doc | undefined {
    const { directions } = this.#options;
    if (directions === undefined) {
      for (let i = 0; i < this.#remotes.length; i++) {
        const remote = this.#remotes[(this.#turn + i) % this.#remotes.length] as RemoteCursor;
        if (remote.buffered > 0) {
          this.#turn = (this.#turn + i) % this.#remotes.length;
          return remote.shift();
        }
      }
      return undefined;
    }
    let best: RemoteCursor | undefined;
    let bestHead: Head | undefined;
    for (const remote of this.#remotes) {
      const doc = remote.peek();
      if (doc === undefined) continue;
      let head = this.#heads.get(remote);
      if (head === undefined || head.doc !== doc) {
        head = { doc, key: sortKeyOf(doc) };
        this.#heads.set(remote, head);
      }
      if (bestHead === undefined || compareSortKeys(head.key, bestHead.key, directions) < 0) {
        best = remote;
        bestHead = head;
      }
    }
    const doc = best?.shift();
    return doc === undefined ? undefined : withoutSortKey(doc);
  }

  async kill(): Promise<void> {
    await Promise.all(this.#remotes.map((remote) => remote.kill()));
  }
}

/** Documents that are all here already. */
export class MemoryCursor implements RouterCursor {
  readonly #docs: readonly Doc[];
  #at = 0;

  constructor(docs: readonly Doc[]) {
    this.#docs = docs;
  }

  async next(_ctx: OperationContext, maxDocs: number): Promise<Batch> {
    const docs: Doc[] = [];
    let bytes = 0;
    while (this.#at < this.#docs.length && (maxDocs === 0 || docs.length < maxDocs)) {
      const doc = this.#docs[this.#at] as Doc;
      if (docs.length > 0 && bytes + doc.bytes.length > maxBatchBytes) break;
      bytes += doc.bytes.length;
      docs.push(doc);
      this.#at++;
    }
    return { docs, exhausted: this.#at >= this.#docs.length };
  }

  async kill(): Promise<void> {}
}

/** Values of `$sortKey`, which shards add at the end of a document: an array with one value per part of the sort. */
export function sortKeyOf(doc: Doc): readonly Value[] | undefined {
  const key = doc.find("$sortKey");
  if (key === undefined) return undefined;
  return key.isArray() || key.isObject() ? key.items() : [key];
}

export function compareSortKeys(
  a: readonly Value[] | undefined,
  b: readonly Value[] | undefined,
  directions: readonly number[],
): number {
  for (let i = 0; i < directions.length; i++) {
    const x = a?.[i] ?? Value.null;
    const y = b?.[i] ?? Value.null;
    const result = compareValues(x, y);
    if (result !== 0) return (directions[i] ?? 1) < 0 ? -result : result;
  }
  return 0;
}

function withoutSortKey(doc: Doc): Doc {
  const elements = doc.elements();
  const last = elements.at(-1);
  if (last?.name !== "$sortKey") return doc.without("$sortKey");
  // The usual case: cut the end off without touching the rest.
  const bytes = Buffer.allocUnsafe(last.at + 1);
  doc.bytes.copy(bytes, 0, 0, last.at);
  bytes[last.at] = 0;
  bytes.writeInt32LE(bytes.length, 0);
  return new Doc(bytes);
}

/** Directions of a sort pattern; a `$meta` part sorts downwards. */
export function sortDirections(sort: Doc): number[] {
  return sort.elements().map((part) => (part.isObject() ? -1 : part.number() < 0 ? -1 : 1));
}
