import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { processFolder } from "../../../infra/cluster/process/folder.ts";
import {
  type LocalProcessInputs,
  type LocalProcessState,
  localProcess,
} from "../../../infra/provider/resources/local-process.ts";

let root: string;

beforeEach(async () => {
  root = await mkdtemp(path.join(os.tmpdir(), "alfabravo-local-process-"));
});

afterEach(() => rm(root, { recursive: true, force: true }));

function declared(dataDir: string): LocalProcessInputs {
  return {
    ...{ cluster: "c", name: "m0", program: "mongod", binDir: "/bin", role: "shardsvr", replicaSet: "s" },
    ...{ dataDir, port: 0, keyfile: path.join(dataDir, "keyfile"), purge: false },
  } as LocalProcessInputs;
}

function recorded(dataDir: string): LocalProcessState {
  const { logPath } = processFolder(dataDir, "m0");
  return { ...declared(dataDir), running: true, pid: 1, host: "127.0.0.1:1", actualPort: 1, logPath, version: "6.0.5" };
}

const namesOf = async (state: LocalProcessState, news: LocalProcessInputs) =>
  (await localProcess.diff(state, news)).map(({ path: [name] }) => name);

describe("another data folder", () => {
  test("is refused while the old one holds data, and taken once that was moved there", async () => {
    const [from, to] = [path.join(root, "from"), path.join(root, "to")];
    const { dbPath } = processFolder(from, "m0");
    await mkdir(dbPath, { recursive: true });
    await writeFile(path.join(dbPath, "WiredTiger.wt"), "data");
    await expect(namesOf(recorded(from), declared(to))).rejects.toMatchObject({
      message: `the data of m0 lies in ${path.join(from, "m0")}; in the data folder ${to}, which is declared now, it would start empty`,
      next: expect.stringContaining(`set the data folder back to ${from}`),
    });
    expect(await namesOf(recorded(from), declared(from))).toEqual(["running"]);
    await rename(from, to);
    expect(await namesOf(recorded(from), declared(to))).toContain("dataDir");
  });

  test("replaces a process that has no data yet", async () => {
    expect(await namesOf(recorded(path.join(root, "from")), declared(path.join(root, "to")))).toContain("dataDir");
  });
});
