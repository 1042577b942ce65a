/** The wire protocol's messages: OP_MSG both ways, OP_QUERY and OP_REPLY for the legacy hello. */
import { Doc, DocWriter } from "../bson/document.ts";

const opReply = 1;
const opQuery = 2004;
export const opMsg = 2013;

const checksumPresent = 1;
const moreToCome = 2;
const exhaustAllowed = 1 << 16;

/** Largest message, bytes. */
export const maxMessageBytes = 48_000_000;

export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
}

/** A command as it came over the wire. */
export interface IncomingCommand {
  readonly requestId: number;
  readonly body: Doc;
  readonly sequences: ReadonlyMap<string, readonly Doc[]>;
  /** The client wants no answer. */
  readonly moreToCome: boolean;
  /** The client takes several answers to one request. */
  readonly exhaustAllowed: boolean;
  /** Came as OP_QUERY: the answer is an OP_REPLY. */
  readonly legacy: boolean;
  /** `db` of an OP_QUERY (OP_MSG has `$db`). */
  readonly legacyDb?: string;
}

const noSequences: ReadonlyMap<string, readonly Doc[]> = new Map();

function docAt(bytes: Buffer, at: number, end: number): Doc {
  const size = at + 4 <= end ? bytes.readInt32LE(at) : -1;
  if (size < 5 || at + size > end) throw new ProtocolError(`document at offset ${at} runs over the end of its message`);
  return new Doc(bytes.subarray(at, at + size));
}

/** Reads one whole message (header included). */
export function parseMessage(bytes: Buffer): IncomingCommand {
  const requestId = bytes.readInt32LE(4);
  const opCode = bytes.readInt32LE(12);
  if (opCode === opMsg) {
    const flags = bytes.readUInt32LE(16);
    const end = bytes.length - (flags & checksumPresent ? 4 : 0);
    let at = 20;
    let body: Doc | undefined;
    let sequences: Map<string, readonly Doc[]> | undefined;
    while (at < end) {
      const kind = bytes[at++];
      if (kind === 0) {
        if (body !== undefined) throw new ProtocolError("more than one body section");
        body = docAt(bytes, at, end);
        at += body.bytes.length;
      } else if (kind === 1) {
        const sectionEnd = at + bytes.readInt32LE(at);
        if (sectionEnd > end || sectionEnd < at + 5) throw new ProtocolError("document sequence runs over its message");
        const nameEnd = bytes.indexOf(0, at + 4);
        const name = bytes.toString("utf8", at + 4, nameEnd);
        const docs: Doc[] = [];
        at = nameEnd + 1;
        while (at < sectionEnd) {
          const doc = docAt(bytes, at, sectionEnd);
          docs.push(doc);
          at += doc.bytes.length;
        }
        sequences ??= new Map();
        sequences.set(name, docs);
      } else throw new ProtocolError(`unknown section kind ${kind}`);
    }
    if (body === undefined) throw new ProtocolError("OP_MSG without a body section");
    return {
      requestId,
      body,
      sequences: sequences ?? noSequences,
      moreToCome: (flags & moreToCome) !== 0,
      exhaustAllowed: (flags & exhaustAllowed) !== 0,
      legacy: false,
    };
  }
  if (opCode === opQuery) {
    const nameEnd = bytes.indexOf(0, 20);
    const namespace = bytes.toString("utf8", 20, nameEnd);
    if (!namespace.endsWith(".$cmd")) throw new ProtocolError("OP_QUERY is supported for commands alone");
    let body = docAt(bytes, nameEnd + 9, bytes.length);
    const inner = body.doc("$query") ?? body.doc("query");
    if (inner !== undefined && (body.first()?.name === "$query" || body.first()?.name === "query")) body = inner;
    return {
      requestId,
      body,
      sequences: noSequences,
      moreToCome: false,
      exhaustAllowed: false,
      legacy: true,
      legacyDb: namespace.slice(0, -5),
    };
  }
  throw new ProtocolError(`unsupported opcode ${opCode}`);
}

function header(length: number, requestId: number, responseTo: number, opCode: number): Buffer {
  const bytes = Buffer.allocUnsafe(16);
  bytes.writeInt32LE(length, 0);
  bytes.writeInt32LE(requestId, 4);
  bytes.writeInt32LE(responseTo, 8);
  bytes.writeInt32LE(opCode, 12);
  return bytes;
}

/** An OP_MSG in pieces, ready to be written one after another. */
export function encodeMessage(
  requestId: number,
  responseTo: number,
  body: Doc,
  sequences: ReadonlyMap<string, readonly Doc[]> = noSequences,
  streaming = false,
): Buffer[] {
  const pieces: Buffer[] = [];
  let length = 16 + 4 + 1 + body.bytes.length;
  for (const [name, docs] of sequences) {
    const head = Buffer.allocUnsafe(5 + Buffer.byteLength(name) + 1);
    let size = head.length - 1;
    for (const doc of docs) size += doc.bytes.length;
    head[0] = 1;
    head.writeInt32LE(size, 1);
    head.write(name, 5, "utf8");
    head[head.length - 1] = 0;
    pieces.push(head);
    for (const doc of docs) pieces.push(doc.bytes);
    length += size + 1;
  }
  const start = Buffer.allocUnsafe(21);
  header(length, requestId, responseTo, opMsg).copy(start);
  start.writeUInt32LE(streaming ? moreToCome : 0, 16);
  start[20] = 0;
  return [start, body.bytes, ...pieces];
}

/** An OP_REPLY with one document. */
export function encodeLegacyReply(requestId: number, responseTo: number, body: Doc): Buffer[] {
  const start = Buffer.alloc(36);
  header(36 + body.bytes.length, requestId, responseTo, opReply).copy(start);
  start.writeInt32LE(8, 16);
  start.writeInt32LE(1, 32);
  return [start, body.bytes];
}

/** Cuts a byte stream into messages. */
export class MessageSplitter {
  #chunks: Buffer[] = [];
  #length = 0;
  #wanted = 0;

  /** Takes bytes; returns the messages that are complete now. */
  push(chunk: Buffer): Buffer[] {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    const out: Buffer[] = [];
    for (;;) {
      if (this.#wanted === 0) {
        if (this.#length < 16) return out;
        const first = this.#chunks[0] as Buffer;
        if (first.length < 4) this.#chunks = [Buffer.concat(this.#chunks)];
        this.#wanted = (this.#chunks[0] as Buffer).readInt32LE(0);
        if (this.#wanted < 16 || this.#wanted > maxMessageBytes)
          throw new ProtocolError(`message of ${this.#wanted} bytes; 16 to ${maxMessageBytes} are possible`);
      }
      if (this.#length < this.#wanted) return out;
      const all = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks, this.#length);
      out.push(all.subarray(0, this.#wanted));
      const rest = all.subarray(this.#wanted);
      this.#chunks = rest.length > 0 ? [rest] : [];
      this.#length = rest.length;
      this.#wanted = 0;
    }
  }
}

/** The array fields that the server takes as document sequences. */
export function inlineSequences(body: Doc, sequences: ReadonlyMap<string, readonly Doc[]>): Doc {
  if (sequences.size === 0) return body;
  const out = new DocWriter(body.bytes.length + 1024).all(body);
  for (const [name, docs] of sequences) out.docs(name, docs);
  return out.finish();
}
