import type { Document, MongoClient } from "mongodb";

/**
 * What differs between server versions, in one place; the rest of the project asks here.
 * Sources: the release notes of MongoDB 5.0 to 8.0 and the shape of the config database in each.
 */
export class ServerVersion {
  /** As the server writes it, e.g. `6.0.5`. */
  readonly text: string;
  readonly #numbers: readonly number[];

  constructor(text: string) {
    this.text = text;
    this.#numbers = text.split("-", 1)[0]?.split(".").map(Number) ?? [];
  }

  atLeast(major: number, minor = 0, patch = 0): boolean {
    for (const [i, wanted] of [major, minor, patch].entries()) {
      const have = this.#numbers[i] ?? 0;
      if (have !== wanted) return have > wanted;
    }
    return true;
  }

  /** Which field of `config.chunks` names the collection: its UUID from 5.0 on, its namespace before. */
  get chunksNameCollectionBy(): "uuid" | "ns" {
    return this.atLeast(5) ? "uuid" : "ns";
  }

  /** Chunks split by themselves when they grow (until 6.0); later they are split when they are moved. */
  get splitsAutomatically(): boolean {
    return !this.atLeast(6);
  }

  /** `moveRange` moves a part of a chunk and splits it on the way. */
  get hasMoveRange(): boolean {
    return this.atLeast(6);
  }

  /** `configureCollectionBalancing`. */
  get hasCollectionBalancing(): boolean {
    return this.atLeast(6);
  }

  /** The balancer merges neighbouring chunks of a shard. */
  get mergesAutomatically(): boolean {
    return this.atLeast(7);
  }

  /** `$listCatalog` shows every collection with its indexes in one read. */
  get hasListCatalog(): boolean {
    return this.atLeast(6);
  }

  /** `reshardCollection`. */
  get hasResharding(): boolean {
    return this.atLeast(5);
  }

  /** The config servers may be a shard as well. */
  get hasConfigShard(): boolean {
    return this.atLeast(8);
  }

  /** Chunk size that holds when none is set, in MiB. */
  get defaultChunkSizeMiB(): number {
    return this.atLeast(6) ? 128 : 64;
  }
}

/** The version of the server (or router) behind a client. */
export async function serverVersion(client: MongoClient): Promise<ServerVersion> {
  const { version }: Document = await client.db("admin").command({ buildInfo: 1 });
  return new ServerVersion(String(version));
}
