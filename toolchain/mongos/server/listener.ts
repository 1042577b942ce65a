/** Accepts clients, reads their messages, answers them one after another per connection. */
import { createServer, type Server, type Socket } from "node:net";
import type { Doc } from "../bson/document.ts";
import type { ClientConnection } from "../context.ts";
import { log } from "../log.ts";
import {
  encodeLegacyReply,
  encodeMessage,
  type IncomingCommand,
  MessageSplitter,
  parseMessage,
} from "../wire/message.ts";

export interface ClientState extends ClientConnection {
  /** Aborted when the connection is gone. */
  readonly gone: AbortSignal;
  /** State of a login that is under way. */
  login: unknown;
}

export interface Answer {
  readonly reply: Doc;
  /** For exhaust replies (streaming hello): the next answer of the same request. */
  readonly next?: () => Promise<Answer>;
}

export type Dispatch = (client: ClientState, command: IncomingCommand) => Promise<Answer>;

let nextConnectionId = 1;
let nextRequestId = 1;

function isLoopback(address: string): boolean {
  return address === "::1" || address.startsWith("127.") || address.startsWith("::ffff:127.");
}

export class Listener {
  readonly #dispatch: Dispatch;
  readonly #onOpen: (client: ClientState) => void;
  readonly #onClose: (client: ClientState) => void;
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();

  constructor(dispatch: Dispatch, onOpen: (client: ClientState) => void, onClose: (client: ClientState) => void) {
    this.#dispatch = dispatch;
    this.#onOpen = onOpen;
    this.#onClose = onClose;
  }

  /** @returns the port, which the system chooses when `port` is 0 */
  async listen(port: number, addresses: readonly string[]): Promise<number> {
    let bound = port;
    for (const address of addresses) {
      const server = createServer({ noDelay: true }, (socket) => this.#accept(socket));
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      server.once("error", reject);
      server.listen(bound, address, 1024, resolve);
      await promise;
      const at = server.address();
      if (at !== null && typeof at === "object") bound = at.port;
      this.#servers.push(server);
    }
    return bound;
  }

  close(): void {
    for (const server of this.#servers) server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    const gone = new AbortController();
    const client: ClientState = {
      id: nextConnectionId++,
      remote: `${socket.remoteAddress}:${socket.remotePort}`,
      loopback: isLoopback(socket.remoteAddress ?? ""),
      users: new Map(),
      metadata: undefined,
      since: new Date(),
      gone: gone.signal,
      login: undefined,
    };
    this.#onOpen(client);
    const splitter = new MessageSplitter();
    const queue: Buffer[] = [];
    let working = false;

    const work = async (): Promise<void> => {
      working = true;
      for (let message = queue.shift(); message !== undefined; message = queue.shift()) {
        try {
          await this.#answer(client, socket, parseMessage(message));
        } catch (error) {
          log("W", "NETWORK", "Closing a connection after a bad message", {
            connectionId: client.id,
            remote: client.remote,
            error: String(error),
          });
          socket.destroy();
          return;
        }
      }
      working = false;
    };

    socket.on("data", (chunk: Buffer) => {
      try {
        queue.push(...splitter.push(chunk));
      } catch (error) {
        log("W", "NETWORK", "Closing a connection after a bad message", {
          connectionId: client.id,
          error: String(error),
        });
        socket.destroy();
        return;
      }
      if (!working) void work();
    });
    socket.on("error", () => socket.destroy());
    socket.on("close", () => {
      this.#sockets.delete(socket);
      gone.abort();
      this.#onClose(client);
    });
  }

  async #answer(client: ClientState, socket: Socket, command: IncomingCommand): Promise<void> {
    let answer = await this.#dispatch(client, command);
    if (command.moreToCome) return;
    let responseTo = command.requestId;
    for (;;) {
      const id = nextRequestId;
      nextRequestId = (nextRequestId + 1) & 0x7fffffff;
      const { next } = answer;
      const pieces = command.legacy
        ? encodeLegacyReply(id, responseTo, answer.reply)
        : encodeMessage(id, responseTo, answer.reply, undefined, next !== undefined);
      socket.cork();
      for (const piece of pieces) socket.write(piece);
      socket.uncork();
      if (next === undefined || client.gone.aborted) return;
      responseTo = id;
      answer = await next();
      if (client.gone.aborted) return;
    }
  }
}
