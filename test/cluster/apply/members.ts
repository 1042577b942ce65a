import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import type { Credential } from "../../../infra/model/connection.ts";
import type { MemberState } from "../../../infra/model/state.ts";
import { Mongod, mongoBinDir } from "../../support/mongod.ts";
import { freePorts } from "../../support/processes.ts";

/** Started members that belong to no replica set yet, with one key file. */
export class Members implements AsyncDisposable {
  readonly folder: string;
  readonly key: string;
  readonly list: Mongod[] = [];

  constructor(folder: string, key: string) {
    this.folder = folder;
    this.key = key;
  }

  get credential(): Credential {
    return { kind: "keyfile", keyfile: this.key };
  }

  async add(count: number, replicaSet: string): Promise<readonly Mongod[]> {
    const binDir = await mongoBinDir();
    const ports = await freePorts(count);
    const added = ports.map(
      (port, index) =>
        new Mongod({
          binDir,
          replicaSet,
          index: this.list.length + index,
          port,
          folder: this.folder,
          keyFile: path.join(this.folder, "keyfile"),
          key: this.key,
          role: "shardsvr",
          tags: {},
          priority: 1,
          setParameters: {},
        }),
    );
    this.list.push(...added);
    await Promise.all(added.map((member) => member.start()));
    await Promise.all(added.map((member) => member.listening()));
    return added;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.list.map((member) => member.dispose()));
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  }
}

export async function startMembers(count: number, replicaSet: string): Promise<Members> {
  const folder = await mkdtemp(path.join(os.tmpdir(), "alfabravo-test-"));
  const key = randomBytes(96).toString("base64");
  await writeFile(path.join(folder, "keyfile"), `${key}\n`, { mode: 0o400 });
  const members = new Members(folder, key);
  try {
    await members.add(count, replicaSet);
    return members;
  } catch (error) {
    await members[Symbol.asyncDispose]();
    throw error;
  }
}

export function memberState(member: Mongod, given: Partial<MemberState> = {}): MemberState {
  return {
    host: member.address,
    priority: 1,
    votes: 1,
    hidden: false,
    arbiterOnly: false,
    secondaryDelaySecs: 0,
    tags: {},
    ...given,
  };
}
