import { spawn } from "node:child_process";
import { appendFileSync } from "node:fs";
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

// Processes are started here, and a busy machine takes its time with them.
vi.setConfig({ testTimeout: 30_000 });

const TOOLCHAIN = path.resolve(import.meta.dirname, "../../../toolchain");
const LOCKFILE = { packages: { "": {}, "node_modules/tool": { version: "1.0.0", integrity: "sha512-x" } } };

let root: string;
/** The process groups of the commands of a test: one that fails must not leave its commands behind. */
const groups: number[] = [];

/** A checkout with the bootstrap and a command line of its own; npm is a script that installs Node.js and notes each call. */
beforeEach(async () => {
  root = await mkdtemp(path.join(tmpdir(), "alfabravo-bootstrap-"));
  for (const folder of ["toolchain", "scripts", "bin"]) await mkdir(path.join(root, folder));
  for (const file of ["bootstrap.mjs", "lock.mjs"]) {
    await copyFile(path.join(TOOLCHAIN, file), path.join(root, "toolchain", file));
  }
  await write("package.json", '{ "type": "module" }');
  await write("package-lock.json", JSON.stringify(LOCKFILE));
  await npm(`mkdir -p node_modules/node/bin node_modules/.bin
ln -sf '${process.execPath}' node_modules/node/bin/node`);
  await write("scripts/alfabravo.ts", "process.exit(0);");
});

afterEach(async () => {
  for (const group of groups.splice(0)) {
    try {
      process.kill(-group, "SIGKILL");
    } catch {
      // All of it has ended, as it should have.
    }
  }
  await rm(root, { recursive: true, force: true });
});

async function write(name: string, content: string): Promise<void> {
  await writeFile(path.join(root, name), content);
}

async function npm(body: string): Promise<void> {
  await write("bin/npm", `#!/bin/sh\necho "$@" >> npm-calls\n${body}\n`);
  await chmod(path.join(root, "bin/npm"), 0o755);
}

const calls = async () =>
  (await readFile(path.join(root, "npm-calls"), "utf8").catch(() => "")).split("\n").filter((line) => line !== "");

function start(...args: string[]) {
  const child = spawn(process.execPath, [path.join(root, "toolchain/bootstrap.mjs"), ...args], {
    env: { ...process.env, PATH: `${path.join(root, "bin")}:${process.env.PATH}` },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  if (child.pid) groups.push(child.pid);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  }
  const ended = new Promise<{ code: number | null; output: string }>((resolve) => {
    child.on("close", (code) => resolve({ code, output }));
  });
  return { child, ended, output: () => output };
}

const run = (...args: string[]) => start(...args).ended;

describe("npm packages", () => {
  test("are installed when they are missing, and only then", async () => {
    expect(await run("status")).toMatchObject({ code: 0, output: expect.stringContaining("npm ci") });
    expect(await run("status")).toEqual({ code: 0, output: "" });
    expect(await calls()).toHaveLength(1);
  });

  test("are installed again when package-lock.json has changed", async () => {
    await run("status");
    appendFileSync(path.join(root, "package-lock.json"), "\n");
    expect((await run("status")).code).toBe(0);
    expect(await calls()).toHaveLength(2);
  });

  test("that somebody installed with npm itself are taken as they are", async () => {
    await mkdir(path.join(root, "node_modules/node/bin"), { recursive: true });
    await copyFile("/bin/sh", path.join(root, "node_modules/node/bin/node"));
    await write("node_modules/.package-lock.json", JSON.stringify(LOCKFILE));
    await run("status");
    expect(await calls()).toEqual([]);
  });

  test("that npm left half-installed, or in other versions, are installed again", async () => {
    await mkdir(path.join(root, "node_modules/node/bin"), { recursive: true });
    await copyFile("/bin/sh", path.join(root, "node_modules/node/bin/node"));
    await run("status");
    expect(await calls()).toHaveLength(1);

    await rm(path.join(root, "node_modules/.alfabravo-lockfile"));
    const other = { packages: { "node_modules/tool": { version: "0.9.0", integrity: "sha512-x" } } };
    await write("node_modules/.package-lock.json", JSON.stringify(other));
    await run("status");
    expect(await calls()).toHaveLength(2);
  });

  test("that npm cannot install are one clear error, and the next command tries again", async () => {
    await npm("echo 'npm error code ENOTFOUND' >&2; exit 1");
    const failed = await run("status");
    expect(failed.code).toBe(1);
    expect(failed.output).toMatch(/error: npm ci failed: npm error code ENOTFOUND\n {2}where: .*\n {2}next: {2}/);
    await run("status");
    expect(await calls()).toHaveLength(2);
  });

  test("are installed once by two commands at once", async () => {
    await npm(`sleep 0.5
mkdir -p node_modules/node/bin
ln -sf '${process.execPath}' node_modules/node/bin/node`);
    const both = await Promise.all([run("status"), run("status")]);
    expect(both.map(({ code }) => code)).toEqual([0, 0]);
    expect(await calls()).toHaveLength(1);
  });

  test("an interrupt while they are installed ends the command", async () => {
    await npm("exec sleep 60");
    const { child, ended, output } = start("status");
    await expect.poll(output, { timeout: 10_000 }).toContain("npm ci");
    await expect.poll(calls, { timeout: 10_000 }).toHaveLength(1);
    child.kill("SIGTERM");
    expect(await ended).toMatchObject({ code: 143, output: expect.stringContaining("interrupted") });
  });
});

describe("the command", () => {
  test("gets its arguments and gives its exit code", async () => {
    await write("scripts/alfabravo.ts", "console.log(JSON.stringify(process.argv.slice(2))); process.exit(7);");
    const { code, output } = await run("drift", "--json", "a b");
    expect(code).toBe(7);
    expect(output).toContain('["drift","--json","a b"]');
  });

  test.each(["SIGINT", "SIGTERM"] as const)("gets %s and may end in good order", async (signal) => {
    await write(
      "scripts/alfabravo.ts",
      `process.on("${signal}", () => { console.log("in good order"); process.exit(5); });
       console.log("ready"); setInterval(() => {}, 1000);`,
    );
    const { child, ended, output } = start("up");
    await expect.poll(output, { timeout: 10_000 }).toContain("ready");
    child.kill(signal);
    expect(await ended).toMatchObject({ code: 5, output: expect.stringContaining("in good order") });
  });

  test("that a signal ends counts as in a shell", async () => {
    await write("scripts/alfabravo.ts", 'process.kill(process.pid, "SIGKILL");');
    expect((await run("up")).code).toBe(137);
  });

  test("finds Node.js 24 and the packages' commands first on its PATH", async () => {
    await write("scripts/alfabravo.ts", "console.log(process.env.PATH?.split(':')[0]);");
    expect((await run("status")).output.trim().split("\n").at(-1)).toBe(path.join(root, "node_modules/.bin"));
  });
});
