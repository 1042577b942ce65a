/** A collection's chunks, sorted, and which shards a key or a range of keys belongs to. Pure. */
import { compareKeys } from "../bson/compare.ts";
import type { Value } from "../bson/document.ts";

export interface Chunk {
  /** Values of the shard key fields, in the pattern's order; inclusive. */
  readonly min: readonly Value[];
  /** Exclusive (MaxKey in all fields: the last chunk, which holds MaxKey itself as well). */
  readonly max: readonly Value[];
  readonly shard: string;
  /** `lastmod` as the raw 64-bit timestamp: major in the high half, minor in the low one. */
  readonly version: bigint;
}

export interface TableVersion {
  /** ObjectId */
  readonly epoch: Value;
  /** Timestamp */
  readonly timestamp: Value;
}

/** A closed interval of key tuples. */
export interface KeyRange {
  readonly min: readonly Value[];
  readonly max: readonly Value[];
}

export class RoutingTable {
  readonly chunks: readonly Chunk[];
  readonly version: TableVersion;
  /** Highest chunk version of each shard. */
  readonly shardVersions: ReadonlyMap<string, bigint>;
  /** Highest chunk version of all. */
  readonly collectionVersion: bigint;

  constructor(chunks: readonly Chunk[], version: TableVersion) {
    this.chunks = [...chunks].sort((a, b) => compareKeys(a.min, b.min));
    this.version = version;
    const versions = new Map<string, bigint>();
    let highest = 0n;
    for (const chunk of chunks) {
      if (chunk.version > (versions.get(chunk.shard) ?? -1n)) versions.set(chunk.shard, chunk.version);
      if (chunk.version > highest) highest = chunk.version;
    }
    this.shardVersions = versions;
    this.collectionVersion = highest;
  }

  /** Index of the chunk that holds a key. */
  #indexOf(key: readonly Value[]): number {
    let low = 0;
    let high = this.chunks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (compareKeys((this.chunks[middle] as Chunk).min, key) <= 0) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  chunkFor(key: readonly Value[]): Chunk {
    return this.chunks[this.#indexOf(key)] as Chunk;
  }

  /** Shards with a chunk that meets one of the ranges, sorted by name. */
  shardsFor(ranges: readonly KeyRange[]): string[] {
    const found = new Set<string>();
    for (const range of ranges) {
      for (let i = this.#indexOf(range.min); i < this.chunks.length; i++) {
        const chunk = this.chunks[i] as Chunk;
        if (compareKeys(chunk.min, range.max) > 0) break;
        found.add(chunk.shard);
        if (found.size === this.shardVersions.size) return [...found].sort();
      }
    }
    return [...found].sort();
  }

  /** All shards that own chunks, sorted by name. */
  shards(): string[] {
    return [...this.shardVersions.keys()].sort();
  }
}
