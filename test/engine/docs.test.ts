/** Every command in the README and the docs is run, in their order, in a copy of the checkout as a newcomer has it. */
import { cp, mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { outcomeOf, root, run } from "../support/command.ts";

/** Commands that are this very run, or that end it. */
const NOT_AGAIN = new Set(["npm test"]);

/** Milliseconds: the longest documented command builds a cluster. */
const COMMAND_DEADLINE = 120_000;

let copy: string;

beforeAll(async () => {
  copy = await mkdtemp(path.join(tmpdir(), "alfabravo-docs-"));
  const files = (await run("git", ["ls-files", "--cached", "--others", "--exclude-standard", "-z"])).split("\0");
  for (const file of files.filter((name) => name !== "")) {
    await mkdir(path.dirname(path.join(copy, file)), { recursive: true });
    await cp(path.join(root, file), path.join(copy, file), { force: true }).catch((error: NodeJS.ErrnoException) => {
      // Listed by git and deleted since.
      if (error.code !== "ENOENT") throw error;
    });
  }
  // Hard links: the packages as npm lays them out, in a moment.
  await run("cp", ["-al", path.join(root, "node_modules"), path.join(copy, "node_modules")]);
});

afterAll(async () => {
  for (const stack of ["local", "local-second"]) await command(`npx alfabravo down --stack ${stack} --purge`);
  await rm(copy, { recursive: true, force: true });
});

function command(line: string) {
  const environment = { ALFABRAVO_HOME: "" };
  return outcomeOf("bash", ["-c", line], { cwd: copy, environment });
}

interface Documented {
  readonly file: string;
  readonly lines: readonly string[];
}

/** The lines of all `sh` blocks of a page. */
async function documented(file: string): Promise<Documented> {
  const text = await readFile(path.join(root, file), "utf8");
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(([, block = ""]) => block);
  const lines = blocks.flatMap((block) => block.split("\n")).filter((line) => line !== "" && !line.startsWith("#"));
  return { file, lines };
}

const pages = await Promise.all(
  ["README.md", "CONTRIBUTING.md", ...(await readdir(path.join(root, "docs"))).map((name) => `docs/${name}`)]
    .filter((name) => name.endsWith(".md"))
    .sort()
    .map(documented),
);

describe.each(pages.filter(({ lines }) => lines.length > 0))("$file", ({ lines }) => {
  test.each(lines.filter((line) => !NOT_AGAIN.has(line)))(
    "%s",
    async (line) => {
      const outcome = await command(line);
      expect(outcome, `${outcome.stdout}\n${outcome.stderr}`).toMatchObject({ code: 0 });
    },
    COMMAND_DEADLINE,
  );
});

test("links between the pages lead somewhere", async () => {
  const broken: string[] = [];
  for (const { file } of pages) {
    const text = await readFile(path.join(root, file), "utf8");
    for (const [, target = ""] of text.matchAll(/\]\(([^)#\s]+)[^)]*\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      const at = path.join(root, path.dirname(file), target);
      await readFile(at).catch(() => broken.push(`${file}: ${target}`));
    }
  }
  expect(broken).toEqual([]);
});
