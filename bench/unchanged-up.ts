import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createProgress, prepareToolchain, toolEnvironment } from "../toolchain/index.ts";
import { alfabravo, root, run, stackOf } from "./command.ts";
import { type Benchmark, medianOf } from "./measure.ts";

const RUNS = 3;

/** A second `pulumi up`, with nothing to do, against the same engine on a program that declares nothing. */
export const unchangedUp: Benchmark = {
  name: "unchanged-up",
  title: "an update of the reference cluster without changes",
  async run(log) {
    const toolchain = await prepareToolchain({ progress: createProgress() });
    const folder = await mkdtemp(path.join(tmpdir(), "alfabravo-bench-"));
    const update = (cwd: string, stack: string) => {
      const environment = { ...toolEnvironment(toolchain, folder), ALFABRAVO_HOME: folder };
      return run(toolchain.pulumi.path, ["up", "--yes", "--skip-preview", "--stack", stack], environment, cwd);
    };
    try {
      await alfabravo(folder, ["up"]);
      try {
        const ours = await medianOf(RUNS, () => update(root, stackOf(folder)));
        log(`pulumi up: ${Math.round(ours)} ms`);
        const command = await medianOf(RUNS, () => alfabravo(folder, ["up", "--skip-verify"]));
        const verified = await medianOf(RUNS, () => alfabravo(folder, ["up"]));
        const empty = await emptyProgram(path.join(folder, "empty"));
        const init = toolEnvironment(toolchain, empty);
        await run(toolchain.pulumi.path, ["stack", "init", "empty"], init, empty);
        const updateEmpty = () =>
          run(toolchain.pulumi.path, ["up", "--yes", "--skip-preview", "--stack", "empty"], init, empty);
        await updateEmpty();
        const theirs = await medianOf(RUNS, updateEmpty);
        return {
          name: "unchanged-up",
          ours,
          compared: [{ with: "an empty program", theirs, goal: { kind: "difference", atMostMillis: 1_000 } }],
          notes: [`alfabravo up --skip-verify: ${Math.round(command)} ms; alfabravo up: ${Math.round(verified)} ms`],
        };
      } finally {
        await alfabravo(folder, ["down", "--purge"]);
      }
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
