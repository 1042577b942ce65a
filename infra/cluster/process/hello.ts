import { connect } from "node:net";
import { type Document, deserialize, serialize } from "bson";

const OP_MSG = 2013;
const HEADER_BYTES = 16;

/**
 * Asks a server `command` over a connection of its own, without logging in.
 *
 * A driver would do as well, but it keeps looking for the server in its own rhythm of half a second and more; a server
 * that has just been started is there within milliseconds.
 *
 * @throws Error when nobody answers within `timeoutMillis`
 */
export function askServer(host: string, port: number, command: Document, timeoutMillis: number): Promise<Document> {
  const body = serialize({ ...command, $db: "admin" });
  const message = Buffer.alloc(HEADER_BYTES + 5 + body.length);
  message.writeInt32LE(message.length, 0);
  message.writeInt32LE(1, 4);
  message.writeInt32LE(0, 8);
  message.writeInt32LE(OP_MSG, 12);
  // Four bytes of flags and the kind of the only section stay zero.
  message.set(body, HEADER_BYTES + 5);

  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, timeout: timeoutMillis });
    const chunks: Buffer[] = [];
    let received = 0;
    const end = (error: Error | undefined, answer?: Document) => {
      socket.destroy();
      if (error) reject(error);
      else resolve(answer ?? {});
    };
    socket.once("error", end);
    socket.once("timeout", () => end(new Error(`${host}:${port} did not answer within ${timeoutMillis} ms`)));
    socket.once("close", () => end(new Error(`${host}:${port} closed the connection`)));
    socket.once("connect", () => socket.write(message));
    socket.on("data", (chunk) => {
      chunks.push(chunk);
      received += chunk.length;
      if (received < HEADER_BYTES) return;
      const reply = Buffer.concat(chunks);
      if (received < reply.readInt32LE(0)) return;
      try {
        end(undefined, deserialize(reply.subarray(HEADER_BYTES + 5, reply.readInt32LE(0))));
      } catch (error) {
        end(error instanceof Error ? error : new Error(String(error)));
      }
    });
  });
}
