/** Connections to one server, kept for the next request. */
import { type ConnectionOptions, NetworkError, ServerConnection } from "./connection.ts";

const maxConnections = 200;
/** Idle connections are closed after this time, milliseconds. */
const maxIdleMs = 300_000;

interface Idle {
  readonly connection: ServerConnection;
  readonly since: number;
}

export class ConnectionPool {
  readonly host: string;
  readonly #options: ConnectionOptions;
  readonly #idle: Idle[] = [];
  readonly #waiting: { resolve: (connection: ServerConnection) => void; reject: (error: Error) => void }[] = [];
  readonly #inUse = new Set<ServerConnection>();
  #open = 0;
  #generation = 0;

  constructor(host: string, options: ConnectionOptions) {
    this.host = host;
    this.#options = options;
  }

  /** A connection for one request; give it back with `release`. Throws NetworkError. */
  async acquire(): Promise<ServerConnection> {
    for (;;) {
      const idle = this.#idle.pop();
      if (idle === undefined) break;
      if (idle.connection.closed || performance.now() - idle.since > maxIdleMs) {
        this.#open--;
        idle.connection.close();
        continue;
      }
      this.#inUse.add(idle.connection);
      return idle.connection;
    }
    if (this.#open >= maxConnections) {
      const { promise, resolve, reject } = Promise.withResolvers<ServerConnection>();
      this.#waiting.push({ resolve, reject });
      return promise;
    }
    this.#open++;
    const generation = this.#generation;
    try {
      const connection = await ServerConnection.open(this.host, this.#options);
      if (generation !== this.#generation) {
        connection.close();
        throw new NetworkError(this.host, "the server was found to be down while connecting", true);
      }
      this.#inUse.add(connection);
      return connection;
    } catch (error) {
      this.#open--;
      throw error;
    }
  }

  release(connection: ServerConnection): void {
    this.#inUse.delete(connection);
    if (connection.closed) {
      this.#open--;
      const next = this.#waiting.shift();
      if (next !== undefined) this.acquire().then(next.resolve, next.reject);
      return;
    }
    const next = this.#waiting.shift();
    if (next !== undefined) {
      this.#inUse.add(connection);
      next.resolve(connection);
    } else this.#idle.push({ connection, since: performance.now() });
  }

  /** Drops every idle connection; with `all` also those in use, whose requests fail with NetworkError. */
  clear(all = false): void {
    this.#generation++;
    for (const { connection } of this.#idle.splice(0)) {
      this.#open--;
      connection.close();
    }
    if (all) for (const connection of this.#inUse) connection.close();
  }
}
