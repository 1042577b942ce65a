import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  backendFolder,
  clearStaleLocks,
  hasPendingOperations,
  restoreState,
} from "../../../scripts/support/killed-update.ts";

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

describe("a state file that was cut off while it was written", () => {
  const whole = (serial: number) => JSON.stringify({ version: 3, checkpoint: { latest: { serial } } });

  async function stateOf(files: Record<string, string>): Promise<{ folder: string; file: string }> {
    const folder = await mkdtemp(path.join(tmpdir(), "alfabravo-state-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    for (const [name, content] of Object.entries(files)) {
      await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
      await writeFile(path.join(folder, name), content);
    }
    return { folder, file: path.join(folder, "stacks/alfabravo/local.json") };
  }

  test("the state before it is put in its place, and the broken one kept", async () => {
    const { folder, file } = await stateOf({
      "stacks/alfabravo/local.json": whole(8).slice(0, 20),
      "stacks/alfabravo/local.json.bak": whole(7),
      "backups/alfabravo/local/local.1000.json": whole(6),
    });
    expect(await restoreState(folder, "local")).toBe(true);
    expect(await readFile(file, "utf8")).toBe(whole(7));
    expect(await readFile(`${file}.broken`, "utf8")).toBe(whole(8).slice(0, 20));
  });

  test("when that is broken too, the newest whole backup is", async () => {
    const { folder, file } = await stateOf({
      "stacks/alfabravo/local.json": "",
      "stacks/alfabravo/local.json.bak": "",
      "backups/alfabravo/local/local.1000.json": whole(5),
      "backups/alfabravo/local/local.2000.json": whole(6),
      "backups/alfabravo/local/local.3000.json": "{",
    });
    expect(await restoreState(folder, "local")).toBe(true);
    expect(await readFile(file, "utf8")).toBe(whole(6));
  });

  test("a whole state is left alone, and so is a stack without one", async () => {
    const { folder, file } = await stateOf({
      "stacks/alfabravo/local.json": whole(8),
      "stacks/alfabravo/local.json.bak": whole(7),
    });
    expect(await restoreState(folder, "local")).toBe(false);
    expect(await readFile(file, "utf8")).toBe(whole(8));
    expect(await restoreState(folder, "other")).toBe(false);
  });

  test("without any whole backup the error says what to do, and nothing is deleted", async () => {
    const { folder, file } = await stateOf({ "stacks/alfabravo/local.json": "{" });
    await expect(restoreState(folder, "local")).rejects.toMatchObject({ next: expect.stringContaining("adopts") });
    expect(await readFile(`${file}.broken`, "utf8")).toBe("{");
  });
});

test("only a file backend has a folder", () => {
  expect(backendFolder("file:///tmp/state")).toBe("/tmp/state/.pulumi");
  expect(backendFolder("s3://bucket")).toBeUndefined();
  expect(backendFolder(undefined)).toBeUndefined();
});
