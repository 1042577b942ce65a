import { readdirSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { until } from "../../support/processes.ts";
import { TestProject } from "./project.ts";

let project: TestProject | undefined;

async function create(...args: Parameters<typeof TestProject.create>): Promise<TestProject> {
  project = await TestProject.create(...args);
  return project;
}

afterEach(async () => {
  await project?.remove();
  project = undefined;
});

const UP = ["up", "--yes", "--skip-preview"];

test("a TypeScript program runs: up, nothing to do, destroy", async () => {
  const { run } = bind(
    await create({
      "index.ts": `
        import * as pulumi from "@pulumi/pulumi";
        const config = new pulumi.Config();
        export const greeting: string = \`\${config.require("greeting")} from \${pulumi.getStack()} in \${pulumi.getProject()}\`;
        export const organization: string = pulumi.getOrganization();
      `,
    }),
  );
  expect(await run("config", "set", "greeting", "hello")).toMatchObject({ code: 0 });
  expect(await run(...UP)).toMatchObject({ code: 0, output: expect.stringContaining("+ 1 created") });
  const outputs = await run("stack", "output", "--json");
  expect(JSON.parse(outputs.output)).toEqual({
    greeting: "hello from test in toolchain-test",
    organization: "organization",
  });
  expect(await run("preview", "--expect-no-changes")).toMatchObject({ code: 0 });
  expect(await run("preview", "--refresh", "--expect-no-changes")).toMatchObject({ code: 0 });
  expect(await run("destroy", "--yes", "--skip-preview")).toMatchObject({
    code: 0,
    output: expect.stringContaining("- 1 deleted"),
  });
});

test("secret configuration reaches the program and shows nowhere", async () => {
  const secret = "correct horse battery staple";
  const created = await create({
    "index.ts": `
      import * as pulumi from "@pulumi/pulumi";
      export const secret = new pulumi.Config().requireSecret("password");
      export const length = secret.apply((text) => text.length);
    `,
  });
  const { run } = bind(created);
  expect(await run("config", "set", "--secret", "password", secret)).toMatchObject({ code: 0 });
  const up = await run(...UP);
  expect(up).toMatchObject({ code: 0, output: expect.stringContaining("[secret]") });
  expect(up.output).not.toContain(secret);
  for (const file of filesBelow(created.folder)) expect(readFileSync(file, "utf8"), file).not.toContain(secret);
  const shown = await run("stack", "output", "--show-secrets", "--json");
  expect(JSON.parse(shown.output)).toEqual({ secret, length: secret.length });
});

describe("a program that fails", () => {
  test("shows its own error once, with the place, and up does not succeed", async () => {
    const { run } = bind(await create({ "index.ts": `throw new Error("no datacenter named charlie");` }));
    const up = await run(...UP);
    expect(up.code).not.toBe(0);
    expect(up.output).toContain("no datacenter named charlie");
    expect(up.output).toContain("index.ts:1");
    expect(up.output).not.toContain("non-zero exit code");
  });

  test("by its exit code is told by its exit code", async () => {
    const { run } = bind(await create({ "index.ts": "process.exit(3);" }));
    const up = await run(...UP);
    expect(up.code).not.toBe(0);
    expect(up.output).toContain("exited with non-zero exit code: 3");
  });

  test("by a mistake in its text names the file", async () => {
    const { run } = bind(await create({ "index.ts": "export const = 1;" }));
    const up = await run(...UP);
    expect(up.code).not.toBe(0);
    expect(up.output).toContain("index.ts");
  });
});

const ENDLESS = `
  import { writeFileSync } from "node:fs";
  writeFileSync("pid", String(process.pid));
  setInterval(() => {}, 1000);
`;

describe("a program that does not end", () => {
  for (const signal of ["SIGINT", "SIGKILL"] as const) {
    test(`ends with the engine when that gets ${signal}`, async () => {
      const created = await create({ "index.ts": ENDLESS });
      const { child, ended } = created.start(...UP);
      const pid = await until("the program's start", 60_000, async () => {
        const text = await readFile(path.join(created.folder, "pid"), "utf8");
        return text === "" ? undefined : Number(text);
      });
      const languageHost = parentOf(pid);
      expect(alive(languageHost)).toBe(true);
      child.kill(signal);
      expect((await ended).code).not.toBe(0);
      await until("the program's end", 15_000, async () => (alive(pid) ? undefined : true));
      await until("the language host's end", 15_000, async () => (alive(languageHost) ? undefined : true));
    });
  }
});

test("a provider that is a Node.js project runs as it is", async () => {
  const { run } = bind(
    await create(
      {
        "provider/PulumiPlugin.yaml": "name: greeter\nruntime: nodejs\n",
        "provider/package.json": '{ "type": "module", "main": "server.ts" }',
        "provider/server.ts": `
          import * as provider from "@pulumi/pulumi/provider/index.js";
          const greeter: provider.Provider = {
            version: "1.0.0",
            create: async (_urn: string, inputs: { name: string }) => ({
              id: "greeting",
              outs: { ...inputs, text: \`hello \${inputs.name}\` },
            }),
          };
          await provider.main(greeter, process.argv.slice(2));
        `,
        "index.ts": `
          import * as pulumi from "@pulumi/pulumi";
          class Greeting extends pulumi.CustomResource {
            declare readonly text: pulumi.Output<string>;
            constructor(name: string, properties: { name: string }) {
              super("greeter:index:Greeting", name, { ...properties, text: undefined });
            }
          }
          export const text = new Greeting("greeting", { name: "alfa" }).text;
        `,
      },
      "plugins:\n  providers:\n    - name: greeter\n      path: ./provider\n",
    ),
  );
  const up = await run(...UP);
  expect(up.output).toContain("hello alfa");
  expect(up.code).toBe(0);
});

test("what the language host cannot do is said in plain words", async () => {
  const { run } = bind(await create({ "index.ts": "export const done = true;" }));
  const up = await run(...UP, "--attach-debugger");
  expect(up.code).not.toBe(0);
  expect(up.output).toContain("--attach-debugger is not supported by this project's language host");
});

test("pulumi about shows which Node.js runs the programs", async () => {
  const { run } = bind(await create({ "index.ts": "export const done = true;" }));
  const about = await run("about");
  expect(about.code).toBe(0);
  expect(about.output).toContain(`version='${process.version}'`);
});

function bind(created: TestProject): Pick<TestProject, "run"> {
  return { run: created.run.bind(created) };
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const at = path.join(folder, entry.name);
    if (entry.isDirectory()) return filesBelow(at);
    return entry.isFile() ? [at] : [];
  });
}

function parentOf(pid: number): number {
  return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
}

/** Whether a process runs; one that ended and was not waited for yet does not. */
function alive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
