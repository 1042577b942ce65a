import type { MongoClient } from "mongodb";
import { afterAll, beforeAll } from "vitest";
import { type ShardedCluster, startShardedCluster } from "../../support/sharded-cluster.ts";
import { administrationCases } from "./cases/administration.ts";
import { explainCases } from "./cases/explain.ts";
import { testCases } from "./cases/run-cases.ts";

let cluster: ShardedCluster;
let client: MongoClient;

beforeAll(async () => {
  // Resharding waits five minutes for writers by default; there are none here.
  cluster = await startShardedCluster({ setParameters: { reshardingMinimumOperationDurationMillis: 0 } });
  client = await cluster.connect();
});

afterAll(() => cluster?.[Symbol.asyncDispose]());

testCases([...administrationCases, ...explainCases], () => client);
