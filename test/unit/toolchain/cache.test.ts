import { execFileSync, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { CacheError, cacheRoot, ensureFolder, install } from "../../../toolchain/cache.ts";
import { acquireLock, lockHolder } from "../../../toolchain/lock.mjs";

// Processes are started here, and a busy machine takes its time with them.
vi.setConfig({ testTimeout: 30_000 });

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "alfabravo-cache-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

const filled = (work: (draft: string) => Promise<void> = async () => {}) => ({
  needed: 0,
  onWait: () => {},
  fill: async (draft: string) => {
    await writeFile(path.join(draft, "content"), "complete");
    await work(draft);
  },
});

test.each([
  [{ ALFABRAVO_CACHE: "/somewhere", XDG_CACHE_HOME: "/xdg", HOME: "/home/u" }, "/somewhere"],
  [{ XDG_CACHE_HOME: "/xdg", HOME: "/home/u" }, "/xdg/alfabravo"],
  [{ XDG_CACHE_HOME: "relative", HOME: "/home/u" }, "/home/u/.cache/alfabravo"],
  [{ HOME: "/home/u" }, "/home/u/.cache/alfabravo"],
  [{}, path.join(homedir(), ".cache/alfabravo")],
])("with %j the cache is %s", (env, expected) => {
  expect(cacheRoot(env)).toBe(expected);
});

test("an interrupted installation is not taken for a complete one", async () => {
  const interrupted = install(
    folder,
    "tool/1.0",
    filled(() => Promise.reject(new Error("interrupted"))),
  );
  await expect(interrupted).rejects.toThrow("interrupted");
  expect(existsSync(path.join(folder, "tool/1.0"))).toBe(false);

  // What a SIGKILL leaves: a half-filled folder and a lock whose process is gone.
  await mkdir(path.join(folder, "tool/1.0.partial-999999"), { recursive: true });
  await mkdir(path.join(folder, "locks"), { recursive: true });
  await writeFile(path.join(folder, "locks/tool-1.0"), "999999 1\n");
  const target = await install(folder, "tool/1.0", filled());
  expect(await readFile(path.join(target, "content"), "utf8")).toBe("complete");
  expect(await readdir(path.join(folder, "tool"))).toEqual(["1.0"]);
  expect(await readdir(path.join(folder, "locks"))).toEqual([]);
});

test("two at once do the work once", async () => {
  let fills = 0;
  const installation = filled(async () => {
    fills += 1;
    await new Promise((resolve) => setTimeout(resolve, 50));
  });
  const targets = await Promise.all([
    install(folder, "tool/1.0", installation),
    install(folder, "tool/1.0", installation),
  ]);
  expect(new Set(targets).size).toBe(1);
  expect(fills).toBe(1);
});

describe("a cache that cannot be written is one clear error", () => {
  // These hold for root as well, whom permissions do not stop.
  test.each([
    [
      "a file stands in its place",
      async () => writeFile(path.join(folder, "file"), "").then(() => path.join(folder, "file")),
    ],
    ["the system keeps the place for itself", async () => "/proc/alfabravo-cache"],
  ])("%s", async (_name, place) => {
    const cache = await place();
    expect(() => ensureFolder(cache)).toThrow(CacheError);
    const error: unknown = await install(cache, "tool/1.0", filled()).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(CacheError);
    expect(error).toMatchObject({
      message: expect.stringMatching(/^the cache folder cannot be used: E(EXIST|NOTDIR|NOENT)/),
      where: cache,
      next: expect.stringContaining("ALFABRAVO_CACHE"),
    });
  });

  test("there is less room than the work needs", async () => {
    const work = install(folder, "tool/1.0", { ...filled(), needed: Number.MAX_SAFE_INTEGER });
    await expect(work).rejects.toThrow(/^the cache folder cannot be used: it has .* free and .* are needed$/);
  });

  test("it runs full while the work goes on", async ({ skip }) => {
    const small = path.join(folder, "small");
    await mkdir(small);
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", small], { stdio: "pipe" });
    } catch {
      skip("mounting a small file system takes root's rights");
    }
    try {
      const work = install(
        small,
        "tool/1.0",
        filled((draft) => writeFile(path.join(draft, "big"), Buffer.alloc(4_000_000))),
      );
      await expect(work).rejects.toThrow(/^the cache folder cannot be used: ENOSPC/);
      expect(await readdir(path.join(small, "tool"))).toEqual([]);
    } finally {
      execFileSync("umount", [small]);
    }
  });

  test("it is mounted read-only", async ({ skip }) => {
    const mounted = path.join(folder, "read-only");
    await mkdir(mounted);
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", "ro", "tmpfs", mounted], { stdio: "pipe" });
    } catch {
      skip("mounting takes root's rights");
    }
    try {
      await expect(install(mounted, "tool/1.0", filled())).rejects.toThrow(/^the cache folder cannot be used: EROFS/);
    } finally {
      execFileSync("umount", [mounted]);
    }
  });
});

describe("a lock between processes", () => {
  const program = (body: string) =>
    spawn(
      process.execPath,
      ["--input-type=module", "-e", `import { acquireLock } from ${JSON.stringify(lockModule)};${body}`],
      {
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
  const lockModule = path.resolve(import.meta.dirname, "../../../toolchain/lock.mjs");

  test("holds until it is given back", async () => {
    const file = path.join(folder, "lock");
    const release = await acquireLock(file);
    const waitedFor: number[] = [];
    const second = acquireLock(file, { onWait: (pid) => waitedFor.push(pid) });
    expect(await Promise.race([second.then(() => "taken"), new Promise((r) => setTimeout(r, 300, "waiting"))])).toBe(
      "waiting",
    );
    release();
    (await second)();
    expect(waitedFor).toEqual([process.pid]);
    expect(lockHolder(file)).toBeUndefined();
  });

  test("of a process that was killed is taken over", async () => {
    const file = path.join(folder, "lock");
    const child = program(
      `await acquireLock(${JSON.stringify(file)}); console.log("held"); setInterval(() => {}, 1000);`,
    );
    await new Promise((resolve) => child.stdout.once("data", resolve));
    expect(lockHolder(file)).toMatchObject({ pid: child.pid, lives: true });
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("close", resolve));
    expect(lockHolder(file)).toMatchObject({ pid: child.pid, lives: false });
    (await acquireLock(file))();
  });

  test("of an earlier process with the same number is taken over", async () => {
    const file = path.join(folder, "lock");
    await writeFile(file, `${process.pid} 1\n`);
    expect(lockHolder(file)).toMatchObject({ pid: process.pid, lives: process.platform !== "linux" });
  });

  test("lets one in at a time, however many want it and whoever died with it", { timeout: 30_000 }, async () => {
    const file = path.join(folder, "lock");
    const log = path.join(folder, "log");
    await writeFile(file, "999999 1\n");
    const body = `
      import { appendFileSync } from "node:fs";
      for (let round = 0; round < 5; round += 1) {
        const release = await acquireLock(${JSON.stringify(file)});
        appendFileSync(${JSON.stringify(log)}, "in " + process.pid + "\\n");
        await new Promise((resolve) => setTimeout(resolve, 5));
        appendFileSync(${JSON.stringify(log)}, "out " + process.pid + "\\n");
        release();
      }`;
    const children = Array.from({ length: 4 }, () => program(body));
    const codes = await Promise.all(children.map((child) => new Promise((resolve) => child.once("close", resolve))));
    expect(codes).toEqual([0, 0, 0, 0]);
    const lines = (await readFile(log, "utf8")).trim().split("\n");
    expect(lines).toHaveLength(40);
    for (let at = 0; at < lines.length; at += 2) {
      expect(lines[at + 1]).toBe(lines[at]?.replace("in", "out"));
    }
  });
});
