import { serialize } from "bson";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Doc, encode } from "../../../toolchain/mongos/bson/document.ts";
import {
  encodeLegacyReply,
  encodeMessage,
  inlineSequences,
  MessageSplitter,
  parseMessage,
} from "../../../toolchain/mongos/wire/message.ts";

const doc = (fields: object): Doc => new Doc(Buffer.from(serialize(fields)));

describe("OP_MSG", () => {
  test("body and document sequences come back as they were, however the bytes are cut", () => {
    fc.assert(
      fc.property(
        fc.dictionary(
          fc.string({ minLength: 1 }).filter((k) => !k.includes("\0")),
          fc.integer(),
        ),
        fc.array(fc.record({ n: fc.integer(), s: fc.string() }), { maxLength: 20 }),
        fc.integer({ min: 1, max: 50 }),
        (body, docs, step) => {
          const sequences = new Map(docs.length > 0 ? [["documents", docs.map(doc)]] : []);
          const bytes = Buffer.concat([
            ...encodeMessage(7, 3, doc(body), sequences),
            ...encodeMessage(8, 0, encode({ ping: 1 })),
          ]);
          const splitter = new MessageSplitter();
          const messages: Buffer[] = [];
          for (let at = 0; at < bytes.length; at += step)
            messages.push(...splitter.push(bytes.subarray(at, at + step)));
          expect(messages).toHaveLength(2);
          const parsed = parseMessage(messages[0] as Buffer);
          expect(parsed.requestId).toBe(7);
          expect(parsed.body.bytes.equals(doc(body).bytes)).toBe(true);
          expect((parsed.sequences.get("documents") ?? []).map((d) => d.js())).toEqual(docs);
          expect(parseMessage(messages[1] as Buffer).body.js()).toEqual({ ping: 1 });
        },
      ),
    );
  });

  test("flags: no answer wanted, many answers taken", () => {
    const bytes = Buffer.concat(encodeMessage(1, 0, encode({ hello: 1 })));
    bytes.writeUInt32LE(2, 16);
    expect(parseMessage(bytes)).toMatchObject({ moreToCome: true, exhaustAllowed: false });
    bytes.writeUInt32LE(1 << 16, 16);
    expect(parseMessage(bytes)).toMatchObject({ moreToCome: false, exhaustAllowed: true });
  });

  test("sequences can be put into the body", () => {
    const whole = inlineSequences(
      encode({ insert: "a" }),
      new Map([["documents", [doc({ _id: 1 }), doc({ _id: 2 })]]]),
    );
    expect(whole.js()).toEqual({ insert: "a", documents: [{ _id: 1 }, { _id: 2 }] });
  });

  test("a broken message is refused", () => {
    const bytes = Buffer.concat(encodeMessage(1, 0, encode({ ping: 1 })));
    const cut = Buffer.from(bytes);
    cut.writeInt32LE(1000, 21);
    expect(() => parseMessage(cut)).toThrow(/runs over the end/);
    const kind = Buffer.from(bytes);
    kind[20] = 9;
    expect(() => parseMessage(kind)).toThrow(/unknown section kind 9/);
    const opcode = Buffer.from(bytes);
    opcode.writeInt32LE(2012, 12);
    expect(() => parseMessage(opcode)).toThrow(/unsupported opcode 2012/);
    const length = Buffer.alloc(16);
    length.writeInt32LE(5);
    expect(() => new MessageSplitter().push(length)).toThrow(/message of 5 bytes/);
  });
});

describe("the legacy hello", () => {
  test("OP_QUERY is read, and answered with an OP_REPLY", () => {
    const command = doc({ isMaster: 1, helloOk: true });
    const name = Buffer.from("admin.$cmd\0");
    const bytes = Buffer.concat([Buffer.alloc(20), name, Buffer.alloc(8), command.bytes]);
    bytes.writeInt32LE(bytes.length, 0);
    bytes.writeInt32LE(42, 4);
    bytes.writeInt32LE(2004, 12);
    const parsed = parseMessage(bytes);
    expect(parsed).toMatchObject({ requestId: 42, legacy: true, legacyDb: "admin" });
    expect(parsed.body.js()).toEqual({ isMaster: 1, helloOk: true });
    const reply = Buffer.concat(encodeLegacyReply(1, 42, encode({ ok: 1 })));
    expect(reply.readInt32LE(0)).toBe(reply.length);
    expect(reply.readInt32LE(8)).toBe(42);
    expect(reply.readInt32LE(32)).toBe(1);
  });
});
