import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { download, fetchText, NetworkMemory, UnreachableError } from "../../../toolchain/network.ts";

// Processes are started here, and a busy machine takes its time with them.
vi.setConfig({ testTimeout: 30_000 });

const CONTENT = Buffer.from("the archive's bytes");
const SHA256 = createHash("sha256").update(CONTENT).digest("hex");
const DAY_MS = 24 * 60 * 60 * 1000;

let folder: string;
let server: Server;
let base: string;
let requests: number;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "alfabravo-network-"));
  requests = 0;
  server = createServer((request, response) => {
    requests += 1;
    if (request.url === "/archive.tgz") response.end(CONTENT);
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await rm(folder, { recursive: true, force: true });
});

const close = async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
};

test("a download with the right hash arrives, with its progress", async () => {
  const file = path.join(folder, "archive.tgz");
  const progress: string[] = [];
  await download(new NetworkMemory(folder), `${base}/archive.tgz`, file, SHA256, (text) => progress.push(text));
  expect(await readFile(file)).toEqual(CONTENT);
  expect(progress.length).toBeGreaterThan(0);
});

test("a download with another hash is refused, named, and not left behind", async () => {
  const file = path.join(folder, "archive.tgz");
  const wrong = "0".repeat(64);
  const attempt = download(new NetworkMemory(folder), `${base}/archive.tgz`, file, wrong, () => {});
  await expect(attempt).rejects.toThrow(new RegExp(`${SHA256} instead of ${wrong}`));
  expect(existsSync(file)).toBe(false);
});

test("a closed network is remembered: the second time nobody waits for it", async () => {
  await close();
  const memory = new NetworkMemory(folder);
  await expect(fetchText(memory, `${base}/archive.tgz`)).rejects.toThrow(UnreachableError);
  expect(memory.closed(new URL(base).host)).toMatch(/could not be reached at .*ECONNREFUSED/);

  // The same address answers again, and is still not asked: only the memory can be the reason.
  const { port } = new URL(base);
  server = createServer((_request, response) => {
    requests += 1;
    response.end(CONTENT);
  });
  await new Promise<void>((resolve) => server.listen(Number(port), "127.0.0.1", resolve));
  await expect(fetchText(new NetworkMemory(folder), `${base}/archive.tgz`)).rejects.toThrow(/doctor --retry-network/);
  expect(requests).toBe(0);

  await memory.forget();
  expect(await fetchText(new NetworkMemory(folder), `${base}/archive.tgz`)).toBe(CONTENT.toString());
});

test("the memory ends after a day, and a damaged one counts as none", async () => {
  let now = Date.parse("2026-01-01T00:00:00Z");
  const memory = new NetworkMemory(folder, () => now);
  await memory.remember("example.test", "getaddrinfo ENOTFOUND");
  now += DAY_MS - 1;
  expect(memory.closed("example.test")).toContain("ENOTFOUND");
  expect(memory.list().map(({ host }) => host)).toEqual(["example.test"]);
  now += 1;
  expect(memory.closed("example.test")).toBeUndefined();
  await memory.remember("example.test", "again");
  await writeFile(path.join(folder, "closed-hosts", "example.test"), "{ half");
  expect(memory.closed("example.test")).toBeUndefined();
});

test("hosts that close at once are all remembered", async () => {
  const hosts = Array.from({ length: 20 }, (_, index) => `host-${index}.test:8443`);
  const memory = new NetworkMemory(folder);
  await Promise.all([...hosts, ...hosts].map((host) => memory.remember(host, "closed")));
  expect(new Set(memory.list().map(({ host }) => host))).toEqual(new Set(hosts));
});

test("an answer that is an error is not a closed network", async () => {
  const memory = new NetworkMemory(folder);
  await expect(fetchText(memory, `${base}/absent`)).rejects.toThrow(/answered 404/);
  expect(memory.list()).toEqual([]);
});

test("a server that accepts and never answers is given up after three seconds", { timeout: 10_000 }, async () => {
  server.removeAllListeners("request");
  const startedAt = Date.now();
  await expect(fetchText(new NetworkMemory(folder), `${base}/archive.tgz`)).rejects.toThrow(/no answer within 3000 ms/);
  expect(Date.now() - startedAt).toBeLessThan(6_000);
});
