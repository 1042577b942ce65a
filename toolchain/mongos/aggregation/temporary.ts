/** Temporary collections on the shard that merges: for what is too large to travel inside a command. */
import { randomUUID } from "node:crypto";
import { type Doc, DocWriter, type Fields } from "../bson/document.ts";
import { OperationContext } from "../context.ts";
import { log } from "../log.ts";
import type { ServerGroup } from "../router.ts";

const batchBytes = 12 * 1024 * 1024;

export class TemporaryCollection {
  readonly name = `tmp.mongos.${randomUUID()}`;
  readonly #ctx: OperationContext;
  readonly #shard: ServerGroup;
  readonly #db: string;
  #count = 0;
  #pending: Doc[] = [];
  #bytes = 0;

  constructor(ctx: OperationContext, shard: ServerGroup, db: string) {
    this.#ctx = new OperationContext(ctx.router, { deadline: ctx.deadline, signal: ctx.signal });
    this.#shard = shard;
    this.#db = db;
  }

  /** Adds documents as they are. */
  async add(docs: readonly Doc[]): Promise<void> {
    for (const doc of docs) {
      this.#pending.push(doc);
      this.#bytes += doc.bytes.length;
      this.#count++;
      if (this.#bytes > batchBytes || this.#pending.length >= 50_000) await this.flush();
    }
  }

  /** Adds documents inside a wrapper, so that any `_id` (or none) is fine and the order is kept. */
  async addWrapped(docs: readonly Doc[]): Promise<void> {
    await this.add(
      docs.map((doc, i) =>
        new DocWriter(doc.bytes.length + 32)
          .append("_id", this.#count + i)
          .append("d", doc)
          .finish(),
      ),
    );
  }

  async flush(): Promise<void> {
    if (this.#pending.length === 0) return;
    const docs = this.#pending;
    this.#pending = [];
    this.#bytes = 0;
    const reply = await this.#shard.run(
      this.#ctx,
      this.#db,
      { insert: this.name, ordered: true, bypassDocumentValidation: true, writeConcern: { w: 1 } },
      { sequences: new Map([["documents", docs]]) },
    );
    const [error] = reply.docs("writeErrors");
    if (error !== undefined) throw new Error(`temporary collection ${this.name}: ${error.string("errmsg")}`);
  }

  async ensureExists(options: Fields = {}): Promise<void> {
    await this.#shard.run(this.#ctx, this.#db, { create: this.name, ...options, writeConcern: { w: 1 } });
  }

  async index(field: string): Promise<void> {
    await this.#shard.run(this.#ctx, this.#db, {
      createIndexes: this.name,
      indexes: [{ key: new DocWriter().append(field, 1).finish(), name: "join" }],
      writeConcern: { w: 1 },
    });
  }

  /** Removes it. Never throws. */
  async drop(): Promise<void> {
    try {
      const ctx = new OperationContext(this.#ctx.router);
      await this.#shard.run(ctx, this.#db, { drop: this.name, writeConcern: { w: 1 } });
    } catch (error) {
      log("W", "QUERY", "A temporary collection could not be dropped", {
        collection: `${this.#db}.${this.name}`,
        error: String(error),
      });
    }
  }
}
