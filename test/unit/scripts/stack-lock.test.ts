import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { backendFolder, clearStaleLocks, hasPendingOperations } from "../../../scripts/support/stack-lock.ts";

/** Above the highest process id that Linux gives. */
const NO_PROCESS = 2 ** 22 + 1;

async function backendWith(lock: { pid: number; hostname: string }): Promise<{ folder: string; file: string }> {
  const folder = await mkdtemp(path.join(tmpdir(), "alfabravo-lock-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const locks = path.join(folder, "locks/organization/alfabravo/local");
  await mkdir(locks, { recursive: true });
  const file = path.join(locks, "0e0d.json");
  await writeFile(file, JSON.stringify({ ...lock, username: "me", timestamp: "2026-01-01T00:00:00Z" }));
  await writeFile(`${file}.attrs`, JSON.stringify({ "user.content_type": "application/json" }));
  return { folder, file };
}

test("the lock of a process that is gone is removed", async () => {
  const { folder, file } = await backendWith({ pid: NO_PROCESS, hostname: hostname() });
  expect(await clearStaleLocks(folder, "local")).toBe(1);
  expect(existsSync(file) || existsSync(`${file}.attrs`)).toBe(false);
});

test("a process id that another program uses now is no engine", async () => {
  const { folder, file } = await backendWith({ pid: process.pid, hostname: hostname() });
  expect(await clearStaleLocks(folder, "local")).toBe(1);
  expect(existsSync(file)).toBe(false);
});

test("the lock of another machine stays, and the error says who holds it and what to do", async () => {
  const { folder, file } = await backendWith({ pid: 77, hostname: "elsewhere" });
  await expect(clearStaleLocks(folder, "local")).rejects.toThrow(/pid 77 on elsewhere/);
  await expect(clearStaleLocks(folder, "local")).rejects.toMatchObject({
    next: expect.stringContaining("pulumi cancel"),
  });
  expect(existsSync(file)).toBe(true);
});

test("locks of other stacks are nobody's business", async () => {
  const { folder, file } = await backendWith({ pid: NO_PROCESS, hostname: hostname() });
  expect(await clearStaleLocks(folder, "other")).toBe(0);
  expect(existsSync(file)).toBe(true);
});

test("pending operations are found in the state of a file backend", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "alfabravo-lock-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  expect(await hasPendingOperations(folder, "local")).toBe(false);
  await mkdir(path.join(folder, "stacks/alfabravo"), { recursive: true });
  const write = (pending_operations: unknown[]) =>
    writeFile(
      path.join(folder, "stacks/alfabravo/local.json"),
      JSON.stringify({ checkpoint: { latest: { pending_operations } } }),
    );
  await write([]);
  expect(await hasPendingOperations(folder, "local")).toBe(false);
  await write([{ type: "creating" }]);
  expect(await hasPendingOperations(folder, "local")).toBe(true);
});

test("only a file backend has a folder", () => {
  expect(backendFolder("file:///tmp/state")).toBe("/tmp/state/.pulumi");
  expect(backendFolder("s3://bucket")).toBeUndefined();
  expect(backendFolder(undefined)).toBeUndefined();
});
