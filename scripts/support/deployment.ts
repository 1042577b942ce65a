/** What a stack has built, read from its outputs, and how commands reach it. */
import { readFile } from "node:fs/promises";
import { Connections } from "../../infra/cluster/connections.ts";
import type { Operation } from "../../infra/cluster/context.ts";
import type { Connection, Credential } from "../../infra/model/connection.ts";
import { AlfabravoError } from "../../infra/model/problem.ts";
import type { ClusterSpec } from "../../infra/model/spec.ts";
import type { Progress } from "../../toolchain/index.ts";
import type { Engine } from "./engine.ts";
import { readOutputs } from "./stack.ts";

export interface Deployment {
  readonly stack: string;
  /** Connection strings of the application's user by datacenter, with its password. */
  readonly uris: Readonly<Record<string, string>>;
  /** The declaration with the place of every process filled in. */
  readonly spec: ClusterSpec;
  readonly connection: Connection;
  readonly memberCredential: Credential;
  readonly dataFolder: string;
}

/** @throws AlfabravoError when nothing is deployed */
export async function openDeployment(engine: Engine, stack: string): Promise<Deployment> {
  const deployment = await findDeployment(engine, stack);
  if (deployment) return deployment;
  throw new AlfabravoError(`nothing is deployed on stack ${stack}`, {
    where: `stack ${stack}`,
    next: `run \`npx alfabravo up --stack ${stack}\``,
  });
}

export async function findDeployment(engine: Engine, stack: string): Promise<Deployment | undefined> {
  const outputs = await readOutputs(engine, stack);
  if (!outputs) return undefined;
  const { spec, uris, keyfilePath, dataFolder } = outputs as Partial<Deployment> & { keyfilePath?: string };
  if (!spec || !uris || !keyfilePath || !dataFolder) return undefined;
  // The keyfile lies beside the data, readable by its owner alone: whoever may read it may already read everything.
  const keyfile = await readFile(keyfilePath, "utf8").catch((cause: unknown) => {
    throw new AlfabravoError("the cluster's keyfile cannot be read", {
      where: keyfilePath,
      next: "run the command as the user who ran `up`, or run `up` again if the data folder was deleted",
      cause,
    });
  });
  const credential: Credential = { kind: "keyfile", keyfile };
  const hosts = spec.routers.flatMap(({ host }) => host ?? []);
  return { stack, spec, uris, connection: { hosts, credential }, memberCredential: credential, dataFolder };
}

/** Runs something on the live cluster, interruptible, and closes every connection afterwards. */
export async function onCluster<T>(progress: Progress, label: string, work: (op: Operation) => Promise<T>): Promise<T> {
  const interrupt = new AbortController();
  const abort = () => interrupt.abort();
  process.once("SIGINT", abort).once("SIGTERM", abort);
  const step = progress.step(label);
  try {
    await using connections = new Connections();
    const result = await work({ connections, signal: interrupt.signal, progress: (text) => step.update(text) });
    step.done();
    return result;
  } catch (error) {
    step.fail();
    throw error;
  } finally {
    process.off("SIGINT", abort).off("SIGTERM", abort);
  }
}
