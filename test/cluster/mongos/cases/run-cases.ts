import type { MongoClient } from "mongodb";
import { expect, test } from "vitest";
import { type CaseContext, outcomeOf, type RouterCase, wanted } from "./case.ts";
import { VERSION_DIFFERENCES } from "./version-differences.ts";

async function contextOf(client: MongoClient, name: string): Promise<CaseContext> {
  const db = client.db(`c_${name.replaceAll(/[^a-z0-9]/gi, "_").slice(0, 50)}`);
  const config = client.db("config");
  const shards = await config.collection<{ _id: string }>("shards").find().sort({ _id: 1 }).toArray();
  const [first, second] = shards.map((s) => s._id);
  if (first === undefined || second === undefined) throw new Error("These cases need a cluster of two shards.");
  return {
    ...{ client, db, config, admin: client.db("admin"), shards: [first, second] as const },
    ns: (collection) => `${db.databaseName}.${collection}`,
  };
}

/** Declares one test per case; a case asks all its steps and then lists every answer that differs. */
export function testCases(cases: readonly RouterCase[], clientOf: () => MongoClient): void {
  for (const each of cases) {
    test(each.name, async ({ skip }) => {
      const client = clientOf();
      const { version } = await client.db("admin").command({ buildInfo: 1 });
      const major = Number.parseInt(String(version), 10);
      skip(major < each.since, `these answers hold from ${each.since}.0 on; the server is ${version}`);
      const c = await contextOf(client, each.name);
      await c.db.dropDatabase();
      const differences: string[] = [];
      try {
        for (const [i, step] of each.steps(c).entries()) {
          const label = `${i} ${step.label(c)}`;
          const differs = VERSION_DIFFERENCES.find((d) => d.case === each.name && d.step === i && major >= d.since);
          const want = wanted(differs?.want ?? step.want);
          const got = await outcomeOf(step, c);
          try {
            expect(got).toEqual(want);
          } catch {
            differences.push(`step ${label}: wanted ${JSON.stringify(want)}, got ${JSON.stringify(got)}`);
          }
        }
      } finally {
        await each.cleanup?.(c);
        await c.db.dropDatabase();
      }
      expect(differences).toEqual([]);
    });
  }
}
