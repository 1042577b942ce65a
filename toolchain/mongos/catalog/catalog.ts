/** The sharding metadata, read from the config servers and kept until a shard says that it is old. */
import { type Doc, encode, Value } from "../bson/document.ts";
import type { OperationContext } from "../context.ts";
import { bound } from "../dispatch/server-group.ts";
import { CommandError, errorCode } from "../errors.ts";
import type { Catalog, ConfigServers } from "../router.ts";
import type { CollectionRouting, DatabaseEntry, ShardEntry } from "./entries.ts";
import { type Chunk, RoutingTable } from "./routing-table.ts";

/** The list of shards is read anew after this time, milliseconds. */
const shardsMaxAgeMs = 30_000;
const maxEntries = 100_000;

export class ClusterCatalog implements Catalog {
  readonly #config: ConfigServers;
  readonly #background: () => OperationContext;
  #shards: { readonly promise: Promise<readonly ShardEntry[]>; readonly since: number } | undefined;
  readonly #databases = new Map<string, Promise<DatabaseEntry | undefined>>();
  readonly #collections = new Map<string, Promise<CollectionRouting | undefined>>();
  /** Last known entries: used while the config servers cannot be asked. */
  readonly #lastShards: ShardEntry[] = [];

  constructor(config: ConfigServers, background: () => OperationContext) {
    this.#config = config;
    this.#background = background;
  }

  async shards(ctx: OperationContext): Promise<readonly ShardEntry[]> {
    const known = this.#shards;
    if (known === undefined || performance.now() - known.since > shardsMaxAgeMs) {
      const loading = this.#loadShards();
      // An old list serves until the new one is here: the config servers may be away.
      const entry = { promise: known === undefined ? loading : known.promise, since: performance.now() };
      this.#shards = entry;
      loading.then(
        () => {
          if (this.#shards === entry) this.#shards = { promise: loading, since: entry.since };
        },
        () => {
          if (this.#shards === entry) this.#shards = known;
        },
      );
    }
    return bound(ctx.deadline, (this.#shards as NonNullable<typeof known>).promise, () => {});
  }

  async #loadShards(): Promise<readonly ShardEntry[]> {
    try {
      const docs = await this.#config.find(
        this.#background(),
        { db: "config", collection: "shards" },
        { sort: { _id: 1 } },
      );
      const entries = docs.map((doc) => ({
        id: doc.string("_id") ?? "",
        host: doc.string("host") ?? "",
        tags: (doc.array("tags") ?? []).map((tag) => tag.text()),
        draining: doc.bool("draining") === true,
        doc: doc.detached(),
      }));
      this.#lastShards.splice(0, this.#lastShards.length, ...entries);
      return entries;
    } catch (error) {
      if (this.#lastShards.length > 0) return [...this.#lastShards];
      throw error;
    }
  }

  async database(ctx: OperationContext, name: string): Promise<DatabaseEntry | undefined> {
    if (name === "config" || name === "admin") return { name, primary: "config", version: undefined };
    let found = this.#databases.get(name);
    if (found === undefined) {
      found = this.#loadDatabase(name);
      this.#keep(this.#databases, name, found, (entry) => entry !== undefined);
    }
    return bound(ctx.deadline, found, () => {});
  }

  #keep<T>(map: Map<string, Promise<T>>, key: string, promise: Promise<T>, worth: (value: T) => boolean): void {
    if (map.size > maxEntries) map.clear();
    map.set(key, promise);
    const forget = (): void => {
      if (map.get(key) === promise) map.delete(key);
    };
    promise.then((value) => {
      if (!worth(value)) forget();
    }, forget);
  }

  async #loadDatabase(name: string): Promise<DatabaseEntry | undefined> {
    const [doc] = await this.#config.find(
      this.#background(),
      { db: "config", collection: "databases" },
      { filter: { _id: name } },
    );
    return doc === undefined ? undefined : entryOf(name, doc);
  }

  async databaseOrCreate(ctx: OperationContext, name: string): Promise<DatabaseEntry> {
    const known = await this.database(ctx, name);
    if (known !== undefined) return known;
    await this.#config.run(
      ctx,
      "admin",
      { _configsvrCreateDatabase: name, writeConcern: { w: "majority", wtimeout: 60_000 } },
      { withoutSession: true, idempotent: true },
    );
    this.invalidateDatabase(name);
    const made = await this.database(ctx, name);
    if (made === undefined)
      throw new CommandError(errorCode.NamespaceNotFound, `database ${name} was dropped while it was being created`);
    return made;
  }

  async collection(ctx: OperationContext, ns: string): Promise<CollectionRouting | undefined> {
    if ((ns.startsWith("config.") && ns !== "config.system.sessions") || ns.startsWith("admin.")) return undefined;
    let found = this.#collections.get(ns);
    if (found === undefined) {
      found = this.#loadCollection(ns);
      this.#keep(this.#collections, ns, found, () => true);
    }
    return bound(ctx.deadline, found, () => {});
  }

  async #loadCollection(ns: string): Promise<CollectionRouting | undefined> {
    const ctx = this.#background();
    for (let attempt = 0; ; attempt++) {
      const [doc] = await this.#config.find(ctx, { db: "config", collection: "collections" }, { filter: { _id: ns } });
      if (doc === undefined || doc.bool("dropped") === true) return undefined;
      const key = doc.doc("key");
      const uuid = doc.find("uuid");
      const epoch = doc.find("lastmodEpoch");
      if (key === undefined || uuid === undefined || epoch === undefined || doc.bool("unsplittable") === true)
        return undefined;
      const timestamp = doc.find("timestamp");
      const rows = await this.#config.find(
        ctx,
        { db: "config", collection: "chunks" },
        {
          filter: timestamp === undefined ? { ns } : { uuid },
          projection: { min: 1, max: 1, shard: 1, lastmod: 1 },
          sort: { lastmod: 1 },
        },
      );
      const chunks = rows.map(chunkOf);
      const table = new RoutingTable(chunks, { epoch, timestamp: timestamp ?? Value.null });
      if (!isComplete(table)) {
        // Read while chunks were being moved or the collection was being made anew: the next reading is whole.
        if (attempt < 10) continue;
        throw new CommandError(
          117,
          `the chunks of ${ns} do not cover the whole key space: ${chunks.length} chunks; check config.chunks`,
          { codeName: "ConflictingOperationInProgress" },
        );
      }
      return {
        ns,
        uuid,
        key,
        unique: doc.bool("unique") === true,
        defaultCollation: doc.doc("defaultCollation"),
        table,
        doc,
      };
    }
  }

  invalidateShards(): void {
    this.#shards = undefined;
  }

  invalidateDatabase(name: string): void {
    this.#databases.delete(name);
  }

  invalidateCollection(ns: string): void {
    this.#collections.delete(ns);
  }

  clear(): void {
    this.#shards = undefined;
    this.#databases.clear();
    this.#collections.clear();
  }
}

function entryOf(name: string, doc: Doc): DatabaseEntry {
  return { name, primary: doc.string("primary") ?? "", version: doc.find("version")?.detached() };
}

function chunkOf(row: Doc): Chunk {
  return {
    min: (row.doc("min")?.detached() ?? encode({})).elements(),
    max: (row.doc("max")?.detached() ?? encode({})).elements(),
    shard: row.string("shard") ?? "",
    version: row.find("lastmod")?.bigint() ?? 0n,
  };
}

/** Do the chunks follow each other without a gap, from MinKey to MaxKey? */
function isComplete(table: RoutingTable): boolean {
  const { chunks } = table;
  const first = chunks[0];
  const last = chunks.at(-1);
  if (first === undefined || last === undefined) return false;
  if (first.min.some((v) => v.type !== 0xff) || last.max.some((v) => v.type !== 0x7f)) return false;
  for (let i = 1; i < chunks.length; i++) {
    const before = chunks[i - 1] as Chunk;
    const after = chunks[i] as Chunk;
    if (before.max.length !== after.min.length) return false;
    for (let f = 0; f < after.min.length; f++) {
      const a = before.max[f] as Value;
      const b = after.min[f] as Value;
      if (a.type !== b.type || a.bytes.compare(b.bytes, b.start, b.end, a.start, a.end) !== 0) return false;
    }
  }
  return true;
}
