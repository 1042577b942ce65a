import { spawn } from "node:child_process";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { onPath, run, tail } from "../../../toolchain/process.ts";

// Processes are started here, and a busy machine takes its time with them.
vi.setConfig({ testTimeout: 30_000 });

test("a program's output, exit code and lines arrive", async () => {
  const lines: string[] = [];
  const ended = await run("sh", ["-c", "echo out; echo one >&2; echo two >&2; exit 3"], {
    onErrorLine: (line) => lines.push(line),
  });
  expect(ended).toEqual({ code: 3, signal: undefined, stdout: "out\n", stderr: "one\ntwo\n" });
  expect(lines).toEqual(["one", "two"]);
});

test("a program that does not exist is the system's error; one that hangs is ended", async () => {
  await expect(run("/absent/program", [])).rejects.toThrow(/ENOENT/);
  expect(await run("sleep", ["60"], { timeoutMs: 50 })).toMatchObject({ code: -1, signal: "SIGKILL" });
});

test.each(["SIGTERM", "SIGINT"] as const)("%s ends the command and the programs that it runs", async (signal) => {
  const module = path.resolve(import.meta.dirname, "../../../toolchain/process.ts");
  const body = `import { run } from ${JSON.stringify(module)};
    await run("sh", ["-c", "echo $$ >&2; exec sleep 60"], { onErrorLine: (line) => console.log(line) });`;
  const command = spawn(process.execPath, ["--input-type=module", "-e", body], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const pid = Number(await new Promise((resolve) => command.stdout.once("data", resolve)));
  expect(() => process.kill(pid, 0)).not.toThrow();
  command.kill(signal);
  const ending = await new Promise((resolve) => command.once("close", (_code, by) => resolve(by)));
  expect(ending).toBe(signal);
  await expect.poll(() => isGone(pid), { timeout: 5_000 }).toBe(true);
});

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
}

test("programs are found in the order of the PATH, and files that cannot be executed are not programs", () => {
  expect(onPath("sh", "/absent::/bin")).toEqual(["/bin/sh"]);
  expect(onPath("passwd", "/etc")).toEqual([]);
});

test("the last lines of an output are kept", () => {
  expect(tail("one\ntwo\nthree\nfour\n\n", 2)).toBe("three\nfour");
});
