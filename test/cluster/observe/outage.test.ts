import { expect, it } from "vitest";
import { applyCollection } from "../../../infra/cluster/apply/collection.ts";
import { observeCollections } from "../../../infra/cluster/observe/collections.ts";
import { desiredCollection } from "../../../infra/plan/desired.ts";
import { startReferenceCluster, TestOperation } from "../reference-cluster.ts";

it("collections are seen while a shard has no primary, one by one and from the catalog", async () => {
  await using reference = await startReferenceCluster();
  await using op = new TestOperation();
  for (const spec of reference.spec.collections) {
    await applyCollection(op, reference.connection, desiredCollection(spec));
  }
  const names = reference.spec.collections.map(({ namespace }) => namespace);
  const before = await observeCollections(op, reference.connection, names);
  await Promise.all(reference.cluster.shards[1]?.members.slice(0, 2).map((member) => member.kill()) ?? []);
  await using outage = new TestOperation();
  const many = [...names, ...Array.from({ length: 30 }, (_, n) => `absent.c${n}`)];
  expect(await observeCollections(outage, reference.connection, names)).toEqual(before);
  expect(await observeCollections(outage, reference.connection, many)).toEqual(before);
});
