import { createHash } from "node:crypto";
import { createReadStream, createWriteStream, existsSync, readdirSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import path from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { writeAtomically } from "./cache.ts";
import { reasonOf } from "./errors.ts";

/** How long a server may take until it answers at all, in milliseconds: a closed network is told from a slow one here. */
const ANSWER_MS = 3_000;
/** How long a download may stand still, in milliseconds. */
const STALL_MS = 30_000;
/** How long a host that could not be reached is not asked again, in milliseconds. */
const REMEMBER_MS = 24 * 60 * 60 * 1000;

/** The host did not answer: the network is closed, or down. Other failures (404, a wrong hash) are plain errors. */
export class UnreachableError extends Error {
  override readonly name = "UnreachableError";
}

interface Closed {
  readonly at: string;
  readonly why: string;
}

/**
 * Which hosts could not be reached lately; kept in the cache so that only the first command waits for them. One file for
 * each host: several are asked at once, by several commands.
 */
export class NetworkMemory {
  readonly #cache: string;
  readonly #folder: string;
  readonly #now: () => number;

  constructor(cache: string, now: () => number = Date.now) {
    this.#cache = cache;
    this.#folder = path.join(cache, "closed-hosts");
    this.#now = now;
  }

  #file(host: string): string {
    return path.join(this.#folder, encodeURIComponent(host));
  }

  /** Why a host is not asked, or undefined when it is worth asking. */
  closed(host: string): string | undefined {
    if (process.env.ALFABRAVO_RETRY_NETWORK) return undefined;
    let entry: Closed;
    try {
      entry = JSON.parse(readFileSync(this.#file(host), "utf8")) as Closed;
    } catch {
      return undefined;
    }
    if (!(this.#now() - Date.parse(entry.at) < REMEMBER_MS)) return undefined;
    return `could not be reached at ${entry.at} (${entry.why}); \`npx alfabravo doctor --retry-network\` forgets that`;
  }

  async remember(host: string, why: string): Promise<void> {
    const entry: Closed = { at: new Date(this.#now()).toISOString(), why };
    await writeAtomically(this.#cache, this.#file(host), `${JSON.stringify(entry)}\n`);
  }

  async forget(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** The hosts that are not asked at the moment, each with its reason. */
  list(): { host: string; why: string }[] {
    const files = existsSync(this.#folder) ? readdirSync(this.#folder) : [];
    return files.flatMap((file) => {
      const host = decodeURIComponent(file);
      const why = this.closed(host);
      return why ? [{ host, why }] : [];
    });
  }
}

async function request(memory: NetworkMemory, url: string): Promise<Response> {
  const { host } = new URL(url);
  const known = memory.closed(host);
  if (known) throw new UnreachableError(`${host} ${known}`);
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(new Error(`no answer within ${ANSWER_MS} ms`)), ANSWER_MS);
  let response: Response;
  try {
    response = await fetch(url, { signal: controller.signal, redirect: "follow" });
  } catch (error) {
    const why = reasonOf(error);
    await memory.remember(host, why);
    throw new UnreachableError(`${host} cannot be reached: ${why}`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
  if (!response.ok) throw new Error(`${url} answered ${response.status} ${response.statusText}`);
  return response;
}

/** A small text over the network. @throws UnreachableError, or an Error with the HTTP status */
export async function fetchText(memory: NetworkMemory, url: string): Promise<string> {
  return (await request(memory, url)).text();
}

/**
 * Downloads a file and compares its SHA-256 before anybody sees it.
 * @throws UnreachableError; an Error with the HTTP status, about a download that stands still, or about a wrong hash,
 * after which the file is gone
 */
export async function download(
  memory: NetworkMemory,
  url: string,
  file: string,
  sha256: string,
  onProgress: (text: string) => void,
): Promise<void> {
  const response = await request(memory, url);
  if (!response.body) throw new Error(`${url} answered without content`);
  const total = Number(response.headers.get("content-length") ?? 0);
  const stall = new AbortController();
  const stalled = () => stall.abort(new Error(`${url} sent nothing for ${STALL_MS / 1000} s`));
  let timer = setTimeout(stalled, STALL_MS);
  let received = 0;
  const source = Readable.fromWeb(response.body as import("node:stream/web").ReadableStream<Uint8Array>);
  source.on("data", (chunk: Uint8Array) => {
    clearTimeout(timer);
    timer = setTimeout(stalled, STALL_MS);
    received += chunk.length;
    const of = total > 0 ? ` of ${Math.round(total / 1e6)}` : "";
    onProgress(`downloading ${Math.round(received / 1e6)}${of} MB`);
  });
  try {
    await pipeline(source, createWriteStream(file), { signal: stall.signal });
    await verifyHash(file, sha256, url);
  } catch (error) {
    await rm(file, { force: true });
    throw stall.signal.aborted ? stall.signal.reason : error;
  } finally {
    clearTimeout(timer);
  }
}

/** @throws an Error that names both hashes when the file's SHA-256 is another one */
export async function verifyHash(file: string, sha256: string, origin: string): Promise<void> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(file), hash);
  const actual = hash.digest("hex");
  if (actual !== sha256.toLowerCase()) {
    throw new Error(
      `${origin} has the SHA-256 ${actual} instead of ${sha256}: it is not what was pinned, so it is not used`,
    );
  }
}
