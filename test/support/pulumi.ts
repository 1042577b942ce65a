/** Pulumi projects of their own for tests of the provider: a real engine, a state folder and a data folder that nobody else meets. */
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { stopAllServers } from "../../infra/cluster/process/server-process.ts";
import { createProgress, prepareToolchain, toolEnvironment } from "../../toolchain/index.ts";
import { type Outcome, outcomeOf, type RunOptions, root } from "./command.ts";

const STACK = "test";

/** What `pulumi preview --json` says about one resource. */
export interface PreviewStep {
  readonly op: string;
  readonly urn: string;
  /** By property path. */
  readonly detailedDiff?: Readonly<Record<string, { readonly kind: string }>> | null;
}

export class PulumiProject implements AsyncDisposable {
  readonly folder: string;
  /** For the servers that the program starts. */
  readonly dataDir: string;
  readonly #environment: Record<string, string>;
  /** All that the engine printed so far. */
  output = "";

  private constructor(folder: string, environment: Record<string, string>) {
    this.folder = folder;
    this.dataDir = path.join(folder, "data");
    this.#environment = environment;
  }

  static async make(): Promise<PulumiProject> {
    const folder = await mkdtemp(path.join(os.tmpdir(), "alfabravo-engine-"));
    const toolchain = await prepareToolchain({ progress: createProgress({ json: true }) });
    const own = { ALFABRAVO_HOME: path.join(folder, "home") };
    const environment = { ...toolEnvironment(toolchain, folder, { ...process.env, ...own }), ...own };
    await symlink(path.join(root, "node_modules"), path.join(folder, "node_modules"));
    await writeFile(path.join(folder, "package.json"), '{ "type": "module" }\n');
    await writeFile(
      path.join(folder, "Pulumi.yaml"),
      [
        "name: provider-test",
        "runtime: { name: nodejs, options: { typescript: false } }",
        "main: index.ts",
        `plugins: { providers: [{ name: alfabravo, path: ${path.join(root, "infra/provider")} }] }`,
        "",
      ].join("\n"),
    );
    await mkdir(path.join(folder, "data"));
    const project = new PulumiProject(folder, environment);
    await project.program("");
    await project.must(["stack", "init", STACK]);
    return project;
  }

  get binDir(): string {
    return this.#environment.MONGODB_BIN_DIR ?? "";
  }

  /**
   * Writes the project's program. It sees `dataDir`, `binDir`, everything of the components' resources and of the model.
   */
  async program(text: string): Promise<void> {
    const imports = [
      `import * as pulumi from "@pulumi/pulumi";`,
      ...["infra/components/local-cluster.ts", "infra/components/resources.ts", "infra/model/index.ts"].map(
        (file, i) => `import * as part${i} from ${JSON.stringify(path.join(root, file))};`,
      ),
      "const { LocalCluster } = part0;",
      "const { Keyfile, LocalProcess, ReplicaSet, User } = part1;",
      "const { defineCluster, perDatacenter, unique, sharded } = part2;",
      `const dataDir = ${JSON.stringify(this.dataDir)};`,
      "const binDir = process.env.MONGODB_BIN_DIR;",
    ];
    await writeFile(path.join(this.folder, "index.ts"), `${imports.join("\n")}\n${text}\n`);
  }

  /** Runs the engine to its end, whatever that is. */
  async pulumi(args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
    const environment = { ...this.#environment, ...options.environment };
    const program = path.join(environment.PATH?.split(path.delimiter)[0] ?? "", "pulumi");
    const outcome = await outcomeOf(program, [...args, "--non-interactive", "--color", "never"], {
      ...options,
      cwd: this.folder,
      environment,
    });
    this.output += outcome.stdout + outcome.stderr;
    return outcome;
  }

  /** The same, and it must succeed. */
  async must(args: readonly string[], options: RunOptions = {}): Promise<string> {
    const { code, stdout, stderr } = await this.pulumi(args, options);
    if (code === 0) return stdout;
    throw new Error(`pulumi ${args.join(" ")} ended with ${code}:\n${stdout}\n${stderr}`);
  }

  up(...args: readonly string[]): Promise<string> {
    return this.must(["up", "--yes", "--skip-preview", ...args]);
  }

  destroy(): Promise<string> {
    return this.must(["destroy", "--yes", "--skip-preview"]);
  }

  async outputs<T>(): Promise<T> {
    const stdout = await this.must(["stack", "output", "--json", "--show-secrets"]);
    // What was asked for in clear is no leak.
    this.output = this.output.replace(stdout, "");
    return JSON.parse(stdout) as T;
  }

  /** What an `up` would change after a look at what is there. */
  async preview(): Promise<{
    readonly code: number | null;
    readonly steps: readonly PreviewStep[];
    readonly text: string;
  }> {
    const { code, stdout, stderr } = await this.pulumi(["preview", "--refresh", "--expect-no-changes", "--json"]);
    const start = stdout.indexOf("{");
    const plan = start < 0 ? {} : (JSON.parse(stdout.slice(start)) as { steps?: readonly PreviewStep[] });
    // The look itself is a step, too; what it found shows in the step that would put it right.
    const steps = (plan.steps ?? []).filter(({ op }) => op !== "refresh" && op !== "same");
    return { code, steps, text: stdout + stderr };
  }

  /** Every file of the state, as text. */
  async state(): Promise<string> {
    const folder = path.join(this.folder, "home");
    const files = await readdir(folder, { recursive: true, withFileTypes: true });
    const texts = files
      .filter((file) => file.isFile())
      .map((file) => readFile(path.join(file.parentPath, file.name), "utf8"));
    return (await Promise.all(texts)).join("\n");
  }

  /** Ends every server that was started here and removes the folder. */
  async [Symbol.asyncDispose](): Promise<void> {
    await stopAllServers(this.dataDir);
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  }
}
