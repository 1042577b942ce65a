/** The stack's own program: which environment it picks, and what it says about a declaration with mistakes. */
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createProgress, prepareToolchain, toolEnvironment } from "../../toolchain/index.ts";
import { type Outcome, outcomeOf, root } from "../support/command.ts";

let folder: string;
let environment: Record<string, string>;

/** A copy of the checkout's program, since a test must not write into the checkout. */
beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), "alfabravo-stack-"));
  for (const part of ["infra", "stacks", "Pulumi.yaml", "package.json"]) {
    await cp(path.join(root, part), path.join(folder, part), { recursive: true });
  }
  await symlink(path.join(root, "node_modules"), path.join(folder, "node_modules"));
  const toolchain = await prepareToolchain({ progress: createProgress({ json: true }) });
  const own = { ALFABRAVO_HOME: path.join(folder, "home") };
  environment = { ...toolEnvironment(toolchain, folder, { ...process.env, ...own }), ...own };
});

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function preview(stack: string): Promise<Outcome & { readonly text: string }> {
  const program = path.join(environment.PATH?.split(path.delimiter)[0] ?? "", "pulumi");
  const run = (args: readonly string[]) =>
    outcomeOf(program, [...args, "--non-interactive", "--color", "never"], { cwd: folder, environment });
  await run(["stack", "select", "--create", stack]);
  const outcome = await run(["preview", "--stack", stack]);
  return { ...outcome, text: outcome.stdout + outcome.stderr };
}

test("the reference deployment can be previewed from nothing", async () => {
  const { code, text } = await preview("local-first");
  expect(code, text).toBe(0);
  for (const [type, count] of Object.entries({
    LocalProcess: 11,
    ReplicaSet: 3,
    Shard: 2,
    ShardedCollection: 2,
    User: 2,
  })) {
    const created = text.match(new RegExp(`alfabravo:index:${type} \\S+ create`, "g")) ?? [];
    expect(new Set(created).size, type).toBe(count);
  }
});

test("an environment that is not there is told in one sentence", async () => {
  for (const stack of ["docker", "atlas-eu"]) {
    const { code, text } = await preview(stack);
    expect(code).not.toBe(0);
    expect(text).toContain(`the environment "${stack.replace(/-.*/, "")}" is not there yet`);
    expect(text).not.toContain("at deploy");
  }
  expect((await preview("moon")).text).toContain('there is no environment "moon"');
});

test("a declaration with a dozen mistakes tells all of them, each with its path, and no stack trace", async () => {
  const file = path.join(folder, "stacks", "reference.ts");
  const good = await readFile(file, "utf8");
  const mistakes = `
    import { defineCluster, perDatacenter, unique } from "../infra/model/index.ts";
    export const reference = defineCluster({
      name: "not a name!",
      datacenters: ["alfa", "bravo"],
      shards: [
        { name: "s0", home: "alfa", members: [{ datacenter: "alfa", priority: 2000 }, { datacenter: "alfa", votes: 2 as 1 }] },
        { name: "s1", home: "charlie" },
      ],
      collections: {
        "nodot": unique({ a: 1 }),
        "chat.hashed": unique({ a: "hashed" }),
        "chat.messages": perDatacenter({ userid: 1 }, { values: { x: "nowhere" } }),
        "chat.users": unique({ userid: 1 }, { indexes: [{ key: { email: 1 }, unique: true }], chunkSizeMiB: 4096 }),
      },
      balancer: { activeWindow: { start: "25:00", stop: "06:00" } },
    });`;
  await writeFile(file, mistakes);
  try {
    const { code, text } = await preview("local-mistakes");
    expect(code).not.toBe(0);
    expect(text).toMatch(/the declaration has 12 mistakes/);
    for (const place of [
      "- name:",
      "shards[0].members: 2 voting",
      "datacenters[1]",
      "shards[0].members[0].priority",
      "shards[0].members[1].votes",
      "shards[1].home",
      "collections.nodot",
      'collections["chat.hashed"]',
      'collections["chat.messages"]',
      'collections["chat.users"].indexes[0]',
      'collections["chat.users"].chunkSizeMiB',
      "balancer.activeWindow",
    ]) {
      expect(text).toContain(place);
    }
    expect(text).not.toMatch(/\n\s+at .*\.ts:\d+/);
  } finally {
    await writeFile(file, good);
  }
});
