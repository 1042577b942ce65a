import type { Document, Filter, MongoClient } from "mongodb";

/** How long a read of metadata may take, in milliseconds. Without a bound a read waits for ever in an outage. */
export const READ_MILLIS = 8_000;
/** How long a change of metadata may take before it counts as stuck, in milliseconds. */
export const WRITE_MILLIS = 60_000;

/**
 * Reads from the config database in few large batches. From its primary when there is one, else from any member, so
 * that the state of a cluster can be seen when it has lost the majority of its config servers.
 *
 * Longs stay Longs: a bound of a hashed key does not fit a JavaScript number.
 */
export function readConfig(
  client: MongoClient,
  collection: string,
  filter: Filter<Document> = {},
  projection?: Document,
): Promise<Document[]> {
  return client
    .db("config")
    .collection(collection, { readPreference: "primaryPreferred", readConcern: { level: "majority" } })
    .find(filter, {
      ...(projection === undefined ? {} : { projection }),
      batchSize: 20_000,
      maxTimeMS: READ_MILLIS,
      promoteLongs: false,
    })
    .toArray();
}

/** Splits `database.collection` at its first dot: only the collection's name may hold more of them. */
export function splitNamespace(namespace: string): { database: string; collection: string } {
  const dot = namespace.indexOf(".");
  return { database: namespace.slice(0, dot), collection: namespace.slice(dot + 1) };
}

export function admin(client: MongoClient, command: Document): Promise<Document> {
  return client.db("admin").command(command);
}

/** Writes one document of the config database, made when it is missing. */
export async function writeConfig(
  client: MongoClient,
  collection: string,
  id: string,
  update: Document,
): Promise<void> {
  await client
    .db("config")
    .collection(collection)
    .updateOne({ _id: id as never }, update, {
      upsert: true,
      writeConcern: { w: "majority", wtimeoutMS: WRITE_MILLIS },
      maxTimeMS: WRITE_MILLIS,
    });
}
