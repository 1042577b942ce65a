import { readFile } from "node:fs/promises";
import type { MongoClient, MongoClientOptions } from "mongodb";
import type { Connection, Credential } from "../model/connection.ts";
import { asAlfabravoError, Code, defaultNext, describeError, hasCode, UnreachableError } from "./errors.ts";

/** How long a server may take to be found or to accept a connection, in milliseconds. */
const SERVER_SELECTION_MILLIS = 5_000;
const CONNECT_MILLIS = 5_000;
/**
 * Commands to a single member are all short; one that does not answer in this time is frozen or cut off.
 * Changes through routers get no such bound: sharding a large collection takes as long as its index build.
 */
const MEMBER_SOCKET_MILLIS = 30_000;
/** Above every maxTimeMS of a read, so that the server's own answer comes first. */
const READER_SOCKET_MILLIS = 20_000;

/**
 * Clients that live as long as one operation. One process may serve many operations, so nothing is kept beyond it:
 * a client that knew yesterday's topology or password does not answer today.
 */
export class Connections implements AsyncDisposable {
  readonly #clients = new Map<string, Promise<MongoClient>>();
  #closed = false;

  /**
   * A connected client of the routers (or of the replica set that `connection` names), for changes: it waits as long as
   * a command takes. Cached by connection.
   */
  router(connection: Connection): Promise<MongoClient> {
    return this.#router(connection, undefined);
  }

  /** The same for reads, all of which are short: a router that is frozen or cut off does not hold it up for ever. */
  reader(connection: Connection): Promise<MongoClient> {
    return this.#router(connection, READER_SOCKET_MILLIS);
  }

  #router(connection: Connection, socketMillis: number | undefined): Promise<MongoClient> {
    const where = connection.hosts.join(",");
    const key = JSON.stringify(["router", connection, socketMillis]);
    return this.#client(`router ${where}`, where, key, async () => ({
      uri: `mongodb://${where}/`,
      options: {
        ...(await clientOptions(connection.credential, connection.tlsCaFile)),
        ...(connection.replicaSet === undefined ? {} : { replicaSet: connection.replicaSet }),
        // With one host, a monitor that looks for more is of no use.
        ...(connection.replicaSet === undefined && connection.hosts.length === 1 ? { directConnection: true } : {}),
        ...(socketMillis === undefined ? {} : { socketTimeoutMS: socketMillis }),
        maxPoolSize: 32,
      },
    }));
  }

  /** A connected client of one member alone, whatever its state. Cached by host and credential. */
  member(host: string, credential: Credential, tlsCaFile?: string): Promise<MongoClient> {
    return this.#client(`member ${host}`, host, JSON.stringify(["member", host, credential, tlsCaFile]), async () => ({
      uri: `mongodb://${host}/`,
      options: {
        ...(await clientOptions(credential, tlsCaFile)),
        directConnection: true,
        socketTimeoutMS: MEMBER_SOCKET_MILLIS,
        maxPoolSize: 8,
      },
    }));
  }

  async close(): Promise<void> {
    this.#closed = true;
    const clients = [...this.#clients.values()];
    this.#clients.clear();
    await Promise.allSettled(clients.map(async (client) => (await client).close()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #client(
    what: string,
    where: string,
    key: string,
    make: () => Promise<{ uri: string; options: MongoClientOptions }>,
  ): Promise<MongoClient> {
    if (this.#closed)
      return Promise.reject(new Error(`The connections of this operation are closed; asked for ${what}.`));
    const known = this.#clients.get(key);
    if (known) return known;
    const made = (async () => {
      const { uri, options } = await make();
      // Loaded when it is first needed: an update that finds nothing to do never is.
      const { MongoClient } = await import("mongodb");
      const client = new MongoClient(uri, options);
      try {
        await client.connect();
        return client;
      } catch (error) {
        await client.close().catch(() => undefined);
        if (hasCode(error, Code.AuthenticationFailed)) throw asAlfabravoError(error, `log in to ${what}`, where);
        throw new UnreachableError(`could not connect to ${what}: ${describeError(error)}`, {
          where,
          next: defaultNext(error),
          cause: error,
        });
      }
    })();
    this.#clients.set(key, made);
    // A failed attempt is not kept: the next one may find the server up.
    made.catch(() => {
      if (this.#clients.get(key) === made) this.#clients.delete(key);
    });
    return made;
  }
}

/** Login, TLS and time limits that every client of the project has. */
export async function clientOptions(
  credential: Credential,
  tlsCaFile: string | undefined,
): Promise<MongoClientOptions> {
  const login: MongoClientOptions =
    credential.kind === "keyfile"
      ? {
          // The internal user's password is the keyfile without its white space, as the servers read it.
          auth: { username: "__system", password: credential.keyfile.replaceAll(/\s/g, "") },
          authSource: "local",
          authMechanism: "SCRAM-SHA-256",
        }
      : { auth: { username: credential.username, password: credential.password }, authSource: credential.authSource };
  return {
    ...login,
    ...(tlsCaFile === undefined ? {} : { tls: true, ca: await readFile(tlsCaFile, "utf8") }),
    serverSelectionTimeoutMS: SERVER_SELECTION_MILLIS,
    connectTimeoutMS: CONNECT_MILLIS,
    appName: "alfabravo",
    // Metadata is read and changed once; a silent second attempt of the driver would hide what happened.
    retryWrites: false,
  };
}
