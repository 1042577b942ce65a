import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createProgress, prepareToolchain, toolEnvironment } from "../../../toolchain/index.ts";

export const CHECKOUT = path.resolve(import.meta.dirname, "../../..");

export interface EngineResult {
  readonly code: number | null;
  /** Standard output and standard error as they came. */
  readonly output: string;
}

/** A Pulumi project in a folder of its own, with its own state, run by the toolchain's engine and language host. */
export class TestProject {
  readonly folder: string;
  readonly #engine: string;
  readonly #env: NodeJS.ProcessEnv;

  private constructor(folder: string, engine: string, env: NodeJS.ProcessEnv) {
    this.folder = folder;
    this.#engine = engine;
    this.#env = env;
  }

  /** Makes the project with a stack named `test`; `files` are relative to its folder. */
  static async create(files: Readonly<Record<string, string>>, pulumiYaml = ""): Promise<TestProject> {
    const toolchain = await prepareToolchain({ only: ["pulumi"], progress: createProgress({ json: true }) });
    const folder = await mkdtemp(path.join(tmpdir(), "alfabravo engine-"));
    const own = { ...process.env };
    for (const name of Object.keys(own)) if (name.startsWith("PULUMI_")) delete own[name];
    const env: NodeJS.ProcessEnv = { ...own, ...toolEnvironment(toolchain, folder, own) };
    // The project's language host is what these tests are about, whichever engine this machine has.
    const bin = path.join(folder, "bin");
    const launcher = `#!/bin/sh\nexec '${process.execPath}' '${path.join(CHECKOUT, "toolchain/language-host.ts")}' "$@"\n`;
    await mkdir(bin);
    await writeFile(path.join(bin, "pulumi-language-nodejs"), launcher, { mode: 0o755 });
    env.PATH = `${bin}${path.delimiter}${env.PATH}`;
    const project = new TestProject(folder, toolchain.pulumi.path, env);
    const yaml = `name: toolchain-test\nruntime:\n  name: nodejs\n  options:\n    typescript: false\nmain: index.ts\n${pulumiYaml}`;
    await project.write({ "Pulumi.yaml": yaml, "package.json": '{ "type": "module" }', ...files });
    await symlink(path.join(CHECKOUT, "node_modules"), path.join(folder, "node_modules"));
    const made = await project.run("stack", "init", "test");
    if (made.code !== 0) throw new Error(`pulumi stack init failed: ${made.output}`);
    return project;
  }

  async write(files: Readonly<Record<string, string>>): Promise<void> {
    for (const [name, content] of Object.entries(files)) {
      await mkdir(path.dirname(path.join(this.folder, name)), { recursive: true });
      await writeFile(path.join(this.folder, name), content);
    }
  }

  start(...args: string[]): { child: ChildProcess; ended: Promise<EngineResult> } {
    const child = spawn(this.#engine, [...args, "--non-interactive", "--color", "never"], {
      cwd: this.folder,
      env: this.#env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    }
    const ended = new Promise<EngineResult>((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code) => resolve({ code, output }));
    });
    return { child, ended };
  }

  run(...args: string[]): Promise<EngineResult> {
    return this.start(...args).ended;
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}
