import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { CommandHome, root, run } from "../test/support/command.ts";
import { createProgress, prepareToolchain, toolEnvironment } from "../toolchain/index.ts";
import { type Benchmark, medianOf } from "./measure.ts";

const RUNS = 3;

/** A second `pulumi up`, with nothing to do, against the same engine on a program that declares nothing. */
export const unchangedUp: Benchmark = {
  name: "unchanged-up",
  title: "an update of the reference cluster without changes",
  async run(log) {
    const toolchain = await prepareToolchain({ progress: createProgress() });
    const folder = await mkdtemp(path.join(tmpdir(), "alfabravo-bench-"));
    const update = ["up", "--yes", "--skip-preview", "--stack"];
    try {
      await using home = await CommandHome.make();
      await home.alfabravo(["up"]);
      const environment = {
        ...toolEnvironment(toolchain, root, { ...process.env, ...home.environment }),
        ...home.environment,
      };
      const ours = await medianOf(RUNS, () => run(toolchain.pulumi.path, [...update, home.stack], { environment }));
      const command = await medianOf(RUNS, () => home.alfabravo(["up", "--skip-verify"]));
      const verified = await medianOf(RUNS, () => home.alfabravo(["up"]));
      log(`pulumi up: ${Math.round(ours)} ms`);

      const empty = await emptyProgram(path.join(folder, "empty"));
      const options = { environment: toolEnvironment(toolchain, empty), cwd: empty };
      await run(toolchain.pulumi.path, ["stack", "init", "empty"], options);
      const updateEmpty = () => run(toolchain.pulumi.path, [...update, "empty"], options);
      await updateEmpty();
      const theirs = await medianOf(RUNS, updateEmpty);
      return {
        name: "unchanged-up",
        ours,
        compared: [{ with: "an empty program", theirs, goal: { kind: "difference", atMostMillis: 1_000 } }],
        notes: [`alfabravo up: ${Math.round(verified)} ms, of which without verification ${Math.round(command)} ms`],
      };
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

/** A Pulumi project that declares nothing. */
async function emptyProgram(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  await writeFile(
    path.join(folder, "Pulumi.yaml"),
    "name: empty\nruntime:\n  name: nodejs\n  options: {typescript: false}\nmain: index.ts\n",
  );
  await writeFile(path.join(folder, "package.json"), '{"name":"empty","type":"module"}\n');
  await writeFile(path.join(folder, "index.ts"), "export const nothing: number = 0;\n");
  await symlink(path.join(root, "node_modules"), path.join(folder, "node_modules"));
  return folder;
}
