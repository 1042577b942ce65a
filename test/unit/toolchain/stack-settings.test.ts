import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { forgetSaltOfLostState, hasStackState, isDeclaredStack } from "../../../toolchain/stack-settings.ts";

let root: string;

beforeEach(async () => {
  root = await mkdtemp(path.join(tmpdir(), "alfabravo-settings-"));
  await mkdir(path.join(root, "stacks"));
});

afterEach(async () => {
  await rm(root, { recursive: true, force: true });
});

const settings = () => path.join(root, "stacks/Pulumi.atlas.yaml");

test("a folder of state tells which stacks it holds; another backend is asked by nobody here", async () => {
  const stacks = path.join(root, "state/.pulumi/stacks/alfabravo");
  await mkdir(stacks, { recursive: true });
  await writeFile(path.join(stacks, "local.json"), "{}");
  const backend = pathToFileURL(path.join(root, "state")).href;
  expect(hasStackState(backend, "local")).toBe(true);
  expect(hasStackState(backend, "other")).toBe(false);
  expect(hasStackState("s3://states", "local")).toBeUndefined();
  expect(hasStackState(undefined, "local")).toBeUndefined();
});

test("stacks of local processes need no settings, every other one does", async () => {
  expect(["local", "local-ci", "locale", "atlas"].map((name) => isDeclaredStack(root, name))).toEqual([
    true,
    true,
    false,
    false,
  ]);
  await writeFile(settings(), "config: {}\n");
  expect(isDeclaredStack(root, "atlas")).toBe(true);
});

test("the salt of a lost state is dropped and the rest of the settings stays", async () => {
  await writeFile(settings(), "encryptionsalt: v1:abc\nconfig:\n  alfabravo:environment: atlas\n");
  expect(forgetSaltOfLostState(root, "atlas")).toBe(true);
  expect(await readFile(settings(), "utf8")).toBe("config:\n  alfabravo:environment: atlas\n");
  expect(forgetSaltOfLostState(root, "atlas")).toBe(false);
});

test("settings that hold secrets keep their salt: without it nobody reads them again", async () => {
  const text = "encryptionsalt: v1:abc\nconfig:\n  alfabravo:password:\n    secure: v1:def\n";
  await writeFile(settings(), text);
  expect(forgetSaltOfLostState(root, "atlas")).toBe(false);
  expect(await readFile(settings(), "utf8")).toBe(text);
});
