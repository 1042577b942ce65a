/**
 * Raw BSON: documents stay the bytes that came from the wire, so types and field order never change on their way
 * through. Reading a field costs one scan; nothing is converted unless someone asks for it.
 */
import { type Document, deserialize, serialize } from "bson";

/** BSON element types by number (bsonspec.org). */
export const bsonType = {
  double: 0x01,
  string: 0x02,
  object: 0x03,
  array: 0x04,
  binData: 0x05,
  undefined: 0x06,
  objectId: 0x07,
  bool: 0x08,
  date: 0x09,
  null: 0x0a,
  regex: 0x0b,
  dbPointer: 0x0c,
  code: 0x0d,
  symbol: 0x0e,
  codeWithScope: 0x0f,
  int: 0x10,
  timestamp: 0x11,
  long: 0x12,
  decimal: 0x13,
  minKey: 0xff,
  maxKey: 0x7f,
} as const;

/** Thrown for bytes that are not BSON. */
export class InvalidBson extends Error {
  override readonly name = "InvalidBson";
}

/** End offset of the value of `type` that starts at `at`. */
function valueEnd(type: number, bytes: Buffer, at: number): number {
  switch (type) {
    case 0x01:
    case 0x09:
    case 0x11:
    case 0x12:
      return at + 8;
    case 0x02:
    case 0x0d:
    case 0x0e:
      return at + 4 + bytes.readInt32LE(at);
    case 0x03:
    case 0x04:
    case 0x0f:
      return at + bytes.readInt32LE(at);
    case 0x05:
      return at + 5 + bytes.readInt32LE(at);
    case 0x06:
    case 0x0a:
    case 0xff:
    case 0x7f:
      return at;
    case 0x07:
      return at + 12;
    case 0x08:
      return at + 1;
    case 0x0b:
      return bytes.indexOf(0, bytes.indexOf(0, at) + 1) + 1;
    case 0x0c:
      return at + 4 + bytes.readInt32LE(at) + 12;
    case 0x10:
      return at + 4;
    case 0x13:
      return at + 16;
    default:
      throw new InvalidBson(`unknown BSON type 0x${type.toString(16)}`);
  }
}

/** Is the text from `start` to `end` this name? Without making a string for names of ASCII alone. */
function nameIs(bytes: Buffer, start: number, end: number, name: string): boolean {
  const length = end - start;
  if (length < name.length) return false;
  for (let i = 0; i < name.length; i++) {
    const code = name.charCodeAt(i);
    if (code > 0x7f) return bytes.toString("utf8", start, end) === name;
    if (bytes[start + i] !== code) return false;
  }
  return length === name.length;
}

/** One BSON value: its type and where its bytes are. */
export class Value {
  readonly type: number;
  readonly bytes: Buffer;
  readonly start: number;
  readonly end: number;

  constructor(type: number, bytes: Buffer, start: number, end: number) {
    this.type = type;
    this.bytes = bytes;
    this.start = start;
    this.end = end;
  }

  /** Encodes a JavaScript value. */
  static of(value: Encodable): Value {
    const element = encode({ v: value === undefined ? null : value }).elements()[0];
    if (element === undefined) throw new InvalidBson("no value");
    return element;
  }

  /** A double, also for whole numbers (`ok` in every reply is one). */
  static double(value: number): Value {
    const bytes = Buffer.allocUnsafe(8);
    bytes.writeDoubleLE(value);
    return new Value(bsonType.double, bytes, 0, 8);
  }

  static readonly minKey = new Value(bsonType.minKey, Buffer.alloc(0), 0, 0);
  static readonly maxKey = new Value(bsonType.maxKey, Buffer.alloc(0), 0, 0);
  static readonly null = new Value(bsonType.null, Buffer.alloc(0), 0, 0);

  isNumber(): boolean {
    return this.type === 0x10 || this.type === 0x12 || this.type === 0x01 || this.type === 0x13;
  }

  isObject(): boolean {
    return this.type === bsonType.object;
  }

  isArray(): boolean {
    return this.type === bsonType.array;
  }

  /** The nested document or array. */
  doc(): Doc {
    return new Doc(this.bytes.subarray(this.start, this.end));
  }

  /** The elements' values of an array. */
  items(): readonly Value[] {
    return this.doc().elements();
  }

  /** Text of a string, symbol or code value. */
  text(): string {
    return this.bytes.toString("utf8", this.start + 4, this.end - 1);
  }

  /** A number as JavaScript has it (a long beyond 2^53 loses digits, a decimal is parsed); NaN for no number. */
  number(): number {
    switch (this.type) {
      case 0x10:
        return this.bytes.readInt32LE(this.start);
      case 0x12:
        return Number(this.bytes.readBigInt64LE(this.start));
      case 0x01:
        return this.bytes.readDoubleLE(this.start);
      case 0x08:
        return this.bytes[this.start] === 0 ? 0 : 1;
      case 0x13:
        return Number(String(this.js()));
      default:
        return Number.NaN;
    }
  }

  /** A whole number, exactly. */
  bigint(): bigint {
    if (this.type === 0x12 || this.type === 0x11 || this.type === 0x09) return this.bytes.readBigInt64LE(this.start);
    const n = this.number();
    return Number.isFinite(n) ? BigInt(Math.trunc(n)) : 0n;
  }

  /** Truth as the server's `trueValue()` has it. */
  truthy(): boolean {
    switch (this.type) {
      case 0x08:
        return this.bytes[this.start] !== 0;
      case 0x01:
      case 0x10:
      case 0x12:
      case 0x13:
        return this.number() !== 0;
      case 0x06:
      case 0x0a:
        return false;
      default:
        return true;
    }
  }

  /** As the `bson` package decodes it (numbers promoted to JavaScript's). */
  js(): unknown {
    return deserialize(new DocWriter().append("v", this).finish().bytes).v;
  }

  /** A copy that does not keep the message's buffer alive. */
  detached(): Value {
    const copy = Buffer.from(this.bytes.subarray(this.start, this.end));
    return new Value(this.type, copy, 0, copy.length);
  }
}

/** A value with its field name. */
export class Element extends Value {
  readonly name: string;
  /** Offset of the type byte. */
  readonly at: number;

  constructor(name: string, at: number, type: number, bytes: Buffer, start: number, end: number) {
    super(type, bytes, start, end);
    this.name = name;
    this.at = at;
  }
}

/** One BSON document as raw bytes. */
export class Doc {
  readonly bytes: Buffer;
  #elements: readonly Element[] | undefined;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  static readonly empty = new Doc(Buffer.from([5, 0, 0, 0, 0]));

  /** All elements in order; parsed once. */
  elements(): readonly Element[] {
    if (this.#elements === undefined) {
      const list: Element[] = [];
      for (const element of this) list.push(element);
      this.#elements = list;
    }
    return this.#elements;
  }

  *[Symbol.iterator](): Generator<Element> {
    const { bytes } = this;
    const last = bytes.readInt32LE(0) - 1;
    let at = 4;
    while (at < last) {
      const type = bytes[at] as number;
      const nameEnd = bytes.indexOf(0, at + 1);
      const start = nameEnd + 1;
      const end = valueEnd(type, bytes, start);
      if (end > last || nameEnd < 0) throw new InvalidBson(`element at offset ${at} runs over the end of its document`);
      yield new Element(bytes.toString("utf8", at + 1, nameEnd), at, type, bytes, start, end);
      at = end;
    }
  }

  /** The first field of this name. */
  find(name: string): Element | undefined {
    if (this.#elements !== undefined) {
      for (const element of this.#elements) if (element.name === name) return element;
      return undefined;
    }
    const { bytes } = this;
    const last = bytes.readInt32LE(0) - 1;
    let at = 4;
    while (at < last) {
      const type = bytes[at] as number;
      const nameEnd = bytes.indexOf(0, at + 1);
      const end = valueEnd(type, bytes, nameEnd + 1);
      if (end > last || nameEnd < 0) throw new InvalidBson(`element at offset ${at} runs over the end of its document`);
      if (nameIs(bytes, at + 1, nameEnd, name)) return new Element(name, at, type, bytes, nameEnd + 1, end);
      at = end;
    }
    return undefined;
  }

  has(name: string): boolean {
    return this.find(name) !== undefined;
  }

  first(): Element | undefined {
    if (this.#elements !== undefined) return this.#elements[0];
    for (const element of this) return element;
    return undefined;
  }

  isEmpty(): boolean {
    return this.bytes.readInt32LE(0) === 5;
  }

  /** Nested document, or undefined when the field is missing or of another type. */
  doc(name: string): Doc | undefined {
    const value = this.find(name);
    return value?.isObject() ? value.doc() : undefined;
  }

  /** Items of an array field, or undefined. */
  array(name: string): readonly Value[] | undefined {
    const value = this.find(name);
    return value?.isArray() ? value.items() : undefined;
  }

  /** Documents of an array field; other items are left out. */
  docs(name: string): Doc[] {
    return (this.array(name) ?? []).filter((item) => item.isObject()).map((item) => item.doc());
  }

  string(name: string): string | undefined {
    const value = this.find(name);
    return value?.type === bsonType.string ? value.text() : undefined;
  }

  number(name: string): number | undefined {
    const value = this.find(name);
    return value?.isNumber() ? value.number() : undefined;
  }

  /** Truth of a field as the server's `trueValue()` has it; undefined when missing. */
  bool(name: string): boolean | undefined {
    return this.find(name)?.truthy();
  }

  /** Value at a dotted path through nested documents (arrays are not entered). */
  path(path: string): Value | undefined {
    const dot = path.indexOf(".");
    if (dot < 0) return this.find(path);
    const head = this.find(path.slice(0, dot));
    return head?.isObject() ? head.doc().path(path.slice(dot + 1)) : undefined;
  }

  /** Decoded by the `bson` package, numbers promoted to JavaScript's. For the router's own reading only. */
  js(): Document {
    return deserialize(this.bytes);
  }

  /** A copy without some fields. */
  without(...names: string[]): Doc {
    const out = new DocWriter();
    for (const element of this.elements()) if (!names.includes(element.name)) out.element(element);
    return out.finish();
  }

  /** A copy with some fields replaced in place, or added at the end; undefined removes. */
  with(fields: Fields): Doc {
    const out = new DocWriter();
    const done = new Set<string>();
    for (const element of this.elements()) {
      if (Object.hasOwn(fields, element.name)) {
        done.add(element.name);
        out.append(element.name, fields[element.name]);
      } else out.element(element);
    }
    for (const [name, value] of Object.entries(fields)) if (!done.has(name)) out.append(name, value);
    return out.finish();
  }

  detached(): Doc {
    return new Doc(Buffer.from(this.bytes));
  }

  /** Relaxed text for logs and error messages. */
  toString(): string {
    try {
      return JSON.stringify(this.js(), (_key, value: unknown) =>
        typeof value === "bigint" ? value.toString() : value,
      );
    } catch {
      return "<unreadable document>";
    }
  }
}

/** What `encode` and `DocWriter.append` take. Objects with number-like keys need a DocWriter (JavaScript reorders them). */
export type Encodable =
  | Value
  | Doc
  | string
  | number
  | bigint
  | boolean
  | null
  | undefined
  | Date
  | Uint8Array
  | readonly Encodable[]
  | { readonly _bsontype: string }
  | Fields;
export type Fields = { readonly [name: string]: Encodable };

/** Builds a document field by field. */
export class DocWriter {
  #buffer: Buffer;
  #length = 4;

  constructor(capacity = 256) {
    this.#buffer = Buffer.allocUnsafe(capacity);
  }

  #reserve(more: number): void {
    if (this.#length + more <= this.#buffer.length) return;
    const grown = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#length + more));
    this.#buffer.copy(grown, 0, 0, this.#length);
    this.#buffer = grown;
  }

  #head(type: number, name: string): void {
    this.#reserve(2 + name.length * 3);
    this.#buffer[this.#length++] = type;
    this.#length += this.#buffer.write(name, this.#length, "utf8");
    this.#buffer[this.#length++] = 0;
  }

  #raw(bytes: Uint8Array, start = 0, end = bytes.length): void {
    this.#reserve(end - start);
    this.#buffer.set(start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end), this.#length);
    this.#length += end - start;
  }

  /** Copies an element with its name. */
  element(element: Element): this {
    this.#raw(element.bytes, element.at, element.end);
    return this;
  }

  /** Appends a field; undefined appends nothing. Whole numbers of 32 bits become int, other numbers double, bigint long. */
  append(name: string, value: Encodable): this {
    if (value === undefined) return this;
    if (value instanceof Value) {
      this.#head(value.type, name);
      this.#raw(value.bytes, value.start, value.end);
    } else if (value instanceof Doc) {
      this.#head(bsonType.object, name);
      this.#raw(value.bytes);
    } else if (typeof value === "string") {
      this.#head(bsonType.string, name);
      const size = Buffer.byteLength(value);
      this.#reserve(size + 5);
      this.#buffer.writeInt32LE(size + 1, this.#length);
      this.#buffer.write(value, this.#length + 4, "utf8");
      this.#length += size + 5;
      this.#buffer[this.#length - 1] = 0;
    } else if (typeof value === "number") {
      if (Number.isInteger(value) && Math.abs(value) < 0x7fffffff && !Object.is(value, -0)) {
        this.#head(bsonType.int, name);
        this.#reserve(4);
        this.#length = this.#buffer.writeInt32LE(value, this.#length);
      } else {
        this.#head(bsonType.double, name);
        this.#reserve(8);
        this.#length = this.#buffer.writeDoubleLE(value, this.#length);
      }
    } else if (typeof value === "bigint") {
      this.#head(bsonType.long, name);
      this.#reserve(8);
      this.#length = this.#buffer.writeBigInt64LE(value, this.#length);
    } else if (typeof value === "boolean") {
      this.#head(bsonType.bool, name);
      this.#reserve(1);
      this.#buffer[this.#length++] = value ? 1 : 0;
    } else if (value === null) {
      this.#head(bsonType.null, name);
    } else if (value instanceof Date) {
      this.#head(bsonType.date, name);
      this.#reserve(8);
      this.#length = this.#buffer.writeBigInt64LE(BigInt(value.getTime()), this.#length);
    } else if (value instanceof Uint8Array) {
      this.#head(bsonType.binData, name);
      this.#reserve(5);
      this.#length = this.#buffer.writeInt32LE(value.length, this.#length);
      this.#buffer[this.#length++] = 0;
      this.#raw(value);
    } else if (Array.isArray(value)) {
      this.#head(bsonType.array, name);
      this.#nested((inner) => {
        for (let i = 0; i < value.length; i++) inner.append(String(i), value[i] === undefined ? null : value[i]);
      });
    } else if ("_bsontype" in value) {
      const bytes = serialize({ v: value });
      this.#head(bytes[4] as number, name);
      this.#raw(bytes, 7, bytes.length - 1);
    } else {
      this.#head(bsonType.object, name);
      this.#nested((inner) => {
        for (const [key, item] of Object.entries(value)) inner.append(key, item);
      });
    }
    return this;
  }

  /** Appends a document or array whose fields `fill` writes. */
  #nested(fill: (writer: DocWriter) => void): void {
    const inner = new DocWriter(128);
    fill(inner);
    this.#raw(inner.finish().bytes);
  }

  /** Appends an array of raw documents. */
  docs(name: string, docs: readonly Doc[]): this {
    this.#head(bsonType.array, name);
    const from = this.#length;
    this.#reserve(4);
    this.#length += 4;
    for (let i = 0; i < docs.length; i++) {
      this.#head(bsonType.object, String(i));
      this.#raw((docs[i] as Doc).bytes);
    }
    this.#reserve(1);
    this.#buffer[this.#length++] = 0;
    this.#buffer.writeInt32LE(this.#length - from, from);
    return this;
  }

  /** Copies all fields of a document, apart from some. */
  all(doc: Doc, except?: ReadonlySet<string>): this {
    if (except === undefined) this.#raw(doc.bytes, 4, doc.bytes.readInt32LE(0) - 1);
    else for (const element of doc.elements()) if (!except.has(element.name)) this.element(element);
    return this;
  }

  finish(): Doc {
    this.#reserve(1);
    this.#buffer[this.#length++] = 0;
    this.#buffer.writeInt32LE(this.#length, 0);
    return new Doc(this.#buffer.subarray(0, this.#length));
  }
}

/** Encodes a JavaScript object (raw values and documents may stand inside). */
export function encode(fields: Fields | Doc): Doc {
  if (fields instanceof Doc) return fields;
  const out = new DocWriter();
  for (const [name, value] of Object.entries(fields)) out.append(name, value);
  return out.finish();
}
