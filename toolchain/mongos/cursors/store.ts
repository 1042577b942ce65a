/** Open cursors of the router by id. */
import { randomBytes } from "node:crypto";
import { type Doc, DocWriter, Value } from "../bson/document.ts";
import type { AuthenticatedUser, CommandContext, OperationContext } from "../context.ts";
import { CommandError, errorCode } from "../errors.ts";

export interface Batch {
  /** Documents as they stand in the reply. */
  readonly docs: readonly Doc[];
  readonly exhausted: boolean;
  /** Some shards gave nothing (allowPartialResults). */
  readonly partial?: boolean;
  /** Further fields of the cursor document (postBatchResumeToken). */
  readonly extra?: Readonly<Record<string, Value>>;
}

/** A result that is fetched batch by batch. */
export interface RouterCursor {
  /** `maxDocs` 0: as many as fit. */
  next(ctx: OperationContext, maxDocs: number): Promise<Batch>;
  /** Closes what is open on the shards. Never throws. */
  kill(): Promise<void>;
}

export interface CursorEntry {
  readonly id: bigint;
  readonly ns: string;
  readonly cursor: RouterCursor;
  readonly users: readonly AuthenticatedUser[];
  readonly sessionKey: string | undefined;
  readonly txnNumber: bigint | undefined;
  readonly noTimeout: boolean;
  readonly created: Date;
  lastUsed: number;
  busy: boolean;
}

/** Cursors that nobody asks are closed after this time, milliseconds. */
const idleMs = 600_000;

export class CursorStore {
  readonly #open = new Map<bigint, CursorEntry>();
  #timer: NodeJS.Timeout | undefined;
  #timedOut = 0;

  get entries(): readonly CursorEntry[] {
    return [...this.#open.values()];
  }

  get timedOut(): number {
    return this.#timedOut;
  }

  add(ctx: CommandContext, ns: string, cursor: RouterCursor, noTimeout = false): bigint {
    let id = 0n;
    // Drivers read the id as a signed 64-bit number; positive ones are easier on the eye.
    while (id === 0n || this.#open.has(id)) id = randomBytes(8).readBigUInt64LE() >> 1n;
    this.#open.set(id, {
      id,
      ns,
      cursor,
      users: [...ctx.client.users.values()],
      sessionKey: ctx.session?.key,
      txnNumber: ctx.inTransaction ? ctx.session?.txnNumber : undefined,
      noTimeout,
      created: new Date(),
      lastUsed: performance.now(),
      busy: false,
    });
    this.#timer ??= setInterval(() => this.#expire(), 60_000).unref();
    return id;
  }

  find(id: bigint): CursorEntry | undefined {
    return this.#open.get(id);
  }

  remove(id: bigint): void {
    this.#open.delete(id);
  }

  async kill(id: bigint): Promise<boolean> {
    const entry = this.#open.get(id);
    if (entry === undefined) return false;
    this.#open.delete(id);
    await entry.cursor.kill();
    return true;
  }

  /** Closes the cursors of a session. */
  async killSession(key: string): Promise<void> {
    await Promise.all(this.entries.filter((entry) => entry.sessionKey === key).map((entry) => this.kill(entry.id)));
  }

  #expire(): void {
    const limit = performance.now() - idleMs;
    for (const entry of this.entries)
      if (!entry.noTimeout && !entry.busy && entry.lastUsed < limit) {
        this.#timedOut++;
        void this.kill(entry.id);
      }
  }
}

export function cursorNotFound(id: bigint): CommandError {
  return new CommandError(errorCode.CursorNotFound, `cursor id ${id} not found`);
}

/** A reply with a cursor document. */
export function cursorReply(id: bigint, ns: string, field: "firstBatch" | "nextBatch", batch: Batch): Doc {
  let size = 256;
  for (const doc of batch.docs) size += doc.bytes.length + 10;
  const cursor = new DocWriter(size).docs(field, batch.docs);
  for (const [name, value] of Object.entries(batch.extra ?? {})) cursor.append(name, value);
  if (batch.partial === true) cursor.append("partialResultsReturned", true);
  cursor.append("id", id).append("ns", ns);
  return new DocWriter(size + 64).append("cursor", cursor.finish()).append("ok", Value.double(1)).finish();
}
