import type { MongoClient } from "mongodb";
import { afterAll, beforeAll, describe } from "vitest";
import { type ShardedCluster, startShardedCluster } from "../../support/sharded-cluster.ts";
import { crudCases } from "./cases/crud.ts";
import { testCases } from "./cases/run-cases.ts";
import { shardingCases } from "./cases/sharding.ts";

let cluster: ShardedCluster;
let client: MongoClient;

beforeAll(async () => {
  cluster = await startShardedCluster();
  client = await cluster.connect();
});

afterAll(() => cluster?.[Symbol.asyncDispose]());

describe("sharding administration", () => testCases(shardingCases, () => client));
describe("reads, writes and DDL", () => testCases(crudCases, () => client));
