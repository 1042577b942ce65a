import path from "node:path";
import * as pulumi from "@pulumi/pulumi";
import { LocalCluster } from "../infra/components/local-cluster.ts";
import type { ClusterSpec } from "../infra/model/index.ts";

const root = path.resolve(import.meta.dirname, "..");

/** @throws pulumi.RunError when nothing says where the servers' programs are */
export function deployLocal(declared: ClusterSpec) {
  const config = new pulumi.Config();
  const binDir = process.env.MONGODB_BIN_DIR;
  if (!binDir) {
    throw new pulumi.RunError(
      "MONGODB_BIN_DIR is not set: set it to a folder that holds mongod and mongos, or use `npm run up`, which brings them",
    );
  }
  const dataFolder = path.resolve(
    root,
    config.get("dataDir") || path.join(process.env.ALFABRAVO_HOME || ".alfabravo", "data", pulumi.getStack()),
  );
  const cluster = new LocalCluster(declared.name, {
    spec: declared,
    dataDir: dataFolder,
    binDir: path.resolve(root, binDir),
    ports: config.getObject<Record<string, number>>("ports"),
  });
  const { uris, endpoints, spec, topology, connection, keyfilePath } = cluster;
  return { uris, endpoints, spec, topology, connection, keyfilePath, dataFolder };
}
