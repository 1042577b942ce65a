import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { until } from "../../support/processes.ts";
import { CHECKOUT, TestProject } from "./project.ts";

let home: string;
let project: TestProject | undefined;

beforeEach(async () => {
  home = await mkdtemp(path.join(tmpdir(), "alfabravo-cli-"));
});

afterEach(async () => {
  await project?.remove();
  project = undefined;
  await rm(home, { recursive: true, force: true });
});

/** `npx pulumi` of this checkout, as npm starts it, with state of its own. */
function pulumi(cwd: string, ...args: string[]) {
  const env: NodeJS.ProcessEnv = { ...process.env, ALFABRAVO_HOME: home };
  for (const name of Object.keys(env)) if (name.startsWith("PULUMI_")) delete env[name];
  const child = spawn(process.execPath, [path.join(CHECKOUT, "toolchain/pulumi-cli/pulumi.mjs"), ...args], {
    cwd,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const ended = new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) => {
    child.on("close", (code) => resolve({ code, stdout, stderr }));
  });
  return { child, ended };
}

test("npx pulumi is the real engine: its output alone, its exit codes", async () => {
  const version = await pulumi(home, "version").ended;
  expect(version).toMatchObject({ code: 0, stdout: expect.stringMatching(/^v3\.\d+\.\d+\n$/), stderr: "" });
  const unknown = await pulumi(home, "stack", "select", "absent", "--non-interactive").ended;
  expect(unknown.code).not.toBe(0);
  expect(unknown.stderr).toContain("error: ");
});

test("npx pulumi runs a program, in the project's own state", async () => {
  project = await TestProject.create({ "index.ts": "export const text: string = 'done';" });
  expect(await pulumi(project.folder, "stack", "init", "other").ended).toMatchObject({ code: 0 });
  const up = await pulumi(project.folder, "up", "--yes", "--skip-preview", "-s", "other", "--color", "never").ended;
  expect(up).toMatchObject({ code: 0, stdout: expect.stringContaining('text: "done"') });
  const state = path.join(home, "state/.pulumi/stacks/toolchain-test/other.json");
  expect(JSON.parse(await readFile(state, "utf8"))).toHaveProperty("checkpoint");
});

test("a signal to npx pulumi reaches the engine, which ends in good order and gives its lock back", async () => {
  project = await TestProject.create({
    "index.ts": `
      import { writeFileSync } from "node:fs";
      writeFileSync("pid", String(process.pid));
      setInterval(() => {}, 1000);
    `,
  });
  expect(await pulumi(project.folder, "stack", "init", "other").ended).toMatchObject({ code: 0 });
  const { child, ended } = pulumi(project.folder, "up", "--yes", "--skip-preview", "-s", "other");
  const started = path.join(project.folder, "pid");
  await until("the program's start", 60_000, async () => ((await readFile(started, "utf8")) === "" ? undefined : true));
  child.kill("SIGINT");
  expect((await ended).code).not.toBe(0);
  const again = await pulumi(project.folder, "refresh", "--yes", "--skip-preview", "-s", "other").ended;
  expect(again).toMatchObject({ code: 0 });
});
