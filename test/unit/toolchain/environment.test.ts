import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { toolEnvironment } from "../../../toolchain/environment.ts";
import type { Toolchain } from "../../../toolchain/toolchain.ts";

let root: string;

beforeEach(async () => {
  root = await mkdtemp(path.join(tmpdir(), "alfabravo-environment-"));
});

afterEach(async () => {
  await rm(root, { recursive: true, force: true });
});

const tool = (file: string) => ({ path: file, version: "3.276.0", source: "built from its Go modules" });
const TOOLCHAIN: Toolchain = {
  pulumi: { ...tool("/tools/pulumi/pulumi"), own: false, offline: true },
  languageHost: tool("/tools/pulumi/pulumi-language-nodejs"),
  mongodb: { binDir: "/tools/mongodb/bin", version: "6.0.5", source: "wheel", router: "stand-in" },
};
const BARE = { PATH: "/usr/bin:/tools/pulumi", ALFABRAVO_CACHE: "/cache" };

test("engine and language host come first on the PATH, once; MongoDB is named", () => {
  const { PATH = "", MONGODB_BIN_DIR } = toolEnvironment(TOOLCHAIN, root, BARE);
  const folders = PATH.split(path.delimiter);
  expect(folders[0]).toBe("/tools/pulumi");
  expect(folders.filter((folder) => folder === "/tools/pulumi")).toHaveLength(1);
  expect(folders.at(-1)).toBe("/usr/bin");
  expect(MONGODB_BIN_DIR).toBe("/tools/mongodb/bin");
});

test("state and a random passphrase lie in the project, the passphrase for nobody else to read", async () => {
  const first = toolEnvironment(TOOLCHAIN, root, BARE);
  expect(first.PULUMI_BACKEND_URL).toBe(`file://${root}/.alfabravo/state`);
  expect((await stat(path.join(root, ".alfabravo/state"))).isDirectory()).toBe(true);
  const file = first.PULUMI_CONFIG_PASSPHRASE_FILE ?? "";
  expect(file).toBe(path.join(root, ".alfabravo/passphrase"));
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  const passphrase = await readFile(file, "utf8");
  expect(passphrase).toMatch(/^[\w-]{43}$/);
  toolEnvironment(TOOLCHAIN, root, BARE);
  expect(await readFile(file, "utf8")).toBe(passphrase);
});

test("nothing waits for the network, and compiled code is kept", () => {
  expect(toolEnvironment(TOOLCHAIN, root, BARE)).toMatchObject({
    PULUMI_SKIP_UPDATE_CHECK: "true",
    PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION: "true",
    PULUMI_HOME: "/cache/pulumi-home",
    NODE_COMPILE_CACHE: "/cache/compile-cache",
  });
});

test.each([
  ["PULUMI_BACKEND_URL", { PULUMI_BACKEND_URL: "s3://states" }],
  ["PULUMI_BACKEND_URL", { PULUMI_ACCESS_TOKEN: "pul-0" }],
  ["PULUMI_CONFIG_PASSPHRASE_FILE", { PULUMI_CONFIG_PASSPHRASE_FILE: "/secret" }],
  ["PULUMI_CONFIG_PASSPHRASE_FILE", { PULUMI_CONFIG_PASSPHRASE: "" }],
  ["PULUMI_HOME", { PULUMI_HOME: "/home/u/.pulumi" }],
  ["PULUMI_SKIP_UPDATE_CHECK", { PULUMI_SKIP_UPDATE_CHECK: "false" }],
  ["NODE_COMPILE_CACHE", { NODE_COMPILE_CACHE: "/elsewhere" }],
])("%s is left alone with %j", (name, set) => {
  expect(toolEnvironment(TOOLCHAIN, root, { ...BARE, ...set })).not.toHaveProperty(name);
});

test("a pulumi of the user's own keeps its home and may fetch plugins", () => {
  const own = { ...TOOLCHAIN, pulumi: { ...TOOLCHAIN.pulumi, own: true, offline: false } };
  const variables = toolEnvironment(own, root, BARE);
  expect(variables).not.toHaveProperty("PULUMI_HOME");
  expect(variables).not.toHaveProperty("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION");
});

test("a project folder that cannot be written is one clear error", async () => {
  await writeFile(path.join(root, ".alfabravo"), "");
  expect(() => toolEnvironment(TOOLCHAIN, root, BARE)).toThrow(/^the project's own folder cannot be written: E/);
});
