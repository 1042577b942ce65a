/** What a router does while a shard elects another primary. */
import { expect, test } from "vitest";
import { until } from "../../support/processes.ts";
import { startShardedCluster } from "../../support/sharded-cluster.ts";

test("an election under load loses no acknowledged write and applies none twice", async () => {
  await using cluster = await startShardedCluster({ shards: 1, membersPerShard: 3 });
  const client = await cluster.connect();
  await client.db("admin").command({ shardCollection: "chat.messages", key: { k: 1 } });
  const messages = client.db("chat").collection("messages");
  const acknowledged: number[] = [];
  let stop = false;
  const writing = (async () => {
    for (let userid = 1000; !stop; userid++) {
      await messages.insertOne({ k: userid });
      acknowledged.push(userid);
    }
  })();
  const [first, second] = cluster.shards[0]?.members ?? [];
  try {
    // Under load the candidate is often an entry behind, and then refuses.
    await until("the election of the other member", 30_000, async () =>
      second?.admin({ replSetStepUp: 1 }).then(
        () => true as const,
        () => undefined,
      ),
    );
    await second?.inState("primary");
    await first?.inState("member");
    const before = acknowledged.length;
    await until("writes after the election", 30_000, async () =>
      acknowledged.length > before + 50 ? true : undefined,
    );
  } finally {
    stop = true;
    await writing;
  }
  const counts = await messages
    .aggregate<{ _id: number; c: number }>([
      { $match: { k: { $gte: 1000 } } },
      { $group: { _id: "$k", c: { $sum: 1 } } },
    ])
    .toArray();
  const found = new Map(counts.map((one) => [one._id, one.c]));
  expect(acknowledged.filter((userid) => found.get(userid) !== 1)).toEqual([]);
  expect([...found.values()].every((c) => c === 1)).toBe(true);
});
