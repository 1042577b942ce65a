/** A connection to a mongod: one request at a time, logged in as the cluster's internal user. */
import { connect, type Socket } from "node:net";
import { type Doc, type Encodable, encode, type Fields } from "../bson/document.ts";
import { encodeMessage, MessageSplitter, parseMessage } from "./message.ts";
import { ScramClient } from "./scram.ts";

/** The connection broke, or could not be made: whether the server did what was asked is unknown. */
export class NetworkError extends Error {
  override readonly name = "NetworkError";
  readonly host: string;
  /** True when nothing had been sent yet. */
  readonly beforeSending: boolean;

  constructor(host: string, message: string, beforeSending: boolean, cause?: unknown) {
    super(`${host}: ${message}`, cause === undefined ? undefined : { cause });
    this.host = host;
    this.beforeSending = beforeSending;
  }
}

/** What every connection of this router shares. */
export interface ConnectionOptions {
  /** Text of the keyfile without white space; undefined without authentication. */
  readonly key: string | undefined;
  readonly applicationName: string;
  readonly connectTimeoutMs: number;
}

interface Waiter {
  readonly resolve: (reply: Doc) => void;
  readonly reject: (error: NetworkError) => void;
}

let nextRequestId = 1;

export function splitHost(host: string): { host: string; port: number } {
  const colon = host.lastIndexOf(":");
  if (colon < 0) return { host, port: 27017 };
  return { host: host.slice(0, colon).replace(/^\[|\]$/g, ""), port: Number(host.slice(colon + 1)) };
}

export class ServerConnection {
  readonly host: string;
  readonly #socket: Socket;
  readonly #splitter = new MessageSplitter();
  #waiter: Waiter | undefined;
  #closed: NetworkError | undefined;
  /** Reply of the hello that opened the connection. */
  hello: Doc | undefined;
  /** Round trip of that hello, milliseconds. */
  rttMs = 0;

  private constructor(host: string, socket: Socket) {
    this.host = host;
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.setKeepAlive(true, 120_000);
    socket.on("data", (chunk: Buffer) => this.#onData(chunk));
    socket.on("error", (error) => this.#fail(new NetworkError(host, error.message, false, error)));
    socket.on("close", () => this.#fail(new NetworkError(host, "connection closed", false)));
  }

  /** Connects and logs in. Throws NetworkError when the server does not answer or refuses the keyfile. */
  static async open(host: string, options: ConnectionOptions): Promise<ServerConnection> {
    const { promise, resolve, reject } = Promise.withResolvers<Socket>();
    const socket = connect({ ...splitHost(host), noDelay: true });
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new NetworkError(host, `no connection after ${options.connectTimeoutMs} ms`, true));
    }, options.connectTimeoutMs);
    const onError = (error: Error): void => reject(new NetworkError(host, error.message, true, error));
    socket.once("connect", () => resolve(socket));
    socket.once("error", onError);
    try {
      await promise;
      socket.off("error", onError);
      const connection = new ServerConnection(host, socket);
      await connection.#handshake(options);
      return connection;
    } catch (error) {
      socket.destroy();
      if (error instanceof NetworkError) throw new NetworkError(host, error.message, true, error);
      throw new NetworkError(host, error instanceof Error ? error.message : String(error), true, error);
    } finally {
      clearTimeout(timer);
    }
  }

  async #handshake(options: ConnectionOptions): Promise<void> {
    const scram = options.key === undefined ? undefined : new ScramClient("__system", options.key);
    const begun = performance.now();
    const login: Fields =
      scram === undefined
        ? {}
        : {
            speculativeAuthenticate: {
              saslStart: 1,
              mechanism: "SCRAM-SHA-256",
              payload: scram.first(),
              db: "local",
              options: { skipEmptyExchange: true },
            },
          };
    const client: Encodable = {
      application: { name: options.applicationName },
      driver: { name: "alfabravo mongos stand-in", version: "1" },
      os: { type: process.platform },
    };
    const hello = await this.command("admin", { hello: 1, helloOk: true, client, ...login });
    this.rttMs = performance.now() - begun;
    if (hello.number("ok") !== 1) throw new Error(`hello refused: ${hello.string("errmsg")}`);
    this.hello = hello;
    if (scram === undefined) return;
    let reply = hello.doc("speculativeAuthenticate");
    if (reply === undefined) {
      const start = { saslStart: 1, mechanism: "SCRAM-SHA-256", payload: scram.first() };
      reply = await this.command("local", { ...start, options: { skipEmptyExchange: true } });
      if (reply.number("ok") !== 1) throw new Error(`internal login refused: ${reply.string("errmsg")}`);
    }
    const conversationId = reply.find("conversationId");
    const payload = await scram.second(payloadOf(reply));
    reply = await this.command("local", { saslContinue: 1, conversationId, payload });
    if (reply.number("ok") !== 1)
      throw new Error(`internal login refused: ${reply.string("errmsg")}; does the server use the same keyfile?`);
    scram.verify(payloadOf(reply));
    if (reply.bool("done") !== true)
      await this.command("local", { saslContinue: 1, conversationId, payload: Buffer.alloc(0) });
  }

  get closed(): boolean {
    return this.#closed !== undefined;
  }

  #onData(chunk: Buffer): void {
    try {
      for (const message of this.#splitter.push(chunk)) {
        const waiter = this.#waiter;
        this.#waiter = undefined;
        waiter?.resolve(parseMessage(message).body);
      }
    } catch (error) {
      this.#fail(new NetworkError(this.host, error instanceof Error ? error.message : String(error), false, error));
    }
  }

  #fail(error: NetworkError): void {
    if (this.#closed !== undefined) return;
    this.#closed = error;
    this.#socket.destroy();
    const waiter = this.#waiter;
    this.#waiter = undefined;
    waiter?.reject(error);
  }

  close(): void {
    this.#fail(new NetworkError(this.host, "closed by the router", false));
  }

  /** Sends a whole command (with `$db`) and waits for its answer. */
  send(body: Doc, sequences?: ReadonlyMap<string, readonly Doc[]>): Promise<Doc> {
    if (this.#closed !== undefined)
      return Promise.reject(new NetworkError(this.host, this.#closed.message, true, this.#closed));
    const { promise, resolve, reject } = Promise.withResolvers<Doc>();
    this.#waiter = { resolve, reject };
    nextRequestId = (nextRequestId + 1) & 0x7fffffff;
    this.#socket.cork();
    for (const piece of encodeMessage(nextRequestId, 0, body, sequences)) this.#socket.write(piece);
    this.#socket.uncork();
    return promise;
  }

  command(db: string, command: Fields): Promise<Doc> {
    return this.send(encode({ ...command, $db: db }));
  }
}

function payloadOf(reply: Doc): string {
  const value = reply.find("payload");
  return value === undefined ? "" : value.bytes.toString("utf8", value.start + 5, value.end);
}
