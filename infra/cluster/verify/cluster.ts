import type { Operation } from "../context.ts";
import { checkAvailability } from "./availability.ts";
import { type Check, type Findings, runCheck } from "./check.ts";
import { type Facts, gatherFacts, type VerifyRequest } from "./facts.ts";
import { checkDatacenters, checkMembers, checkPlacement, checkRanges, checkZones } from "./placement.ts";
import { checkTargeting, checkWarmth } from "./routing.ts";
import { checkUniqueness } from "./uniqueness.ts";

export type { Check } from "./check.ts";
export type { VerifyRequest } from "./facts.ts";

interface Rule {
  readonly id: string;
  readonly title: string;
  readonly look: (op: Operation, facts: Facts, found: Findings) => Promise<void>;
}

const RULES: readonly Rule[] = [
  {
    id: "M1",
    title: "each shard has its members, priorities and tags, and its primary at home",
    look: (_, facts, found) => checkMembers(facts, found),
  },
  { id: "M2", title: "each shard carries its home's zone", look: (_, facts, found) => checkZones(facts, found) },
  {
    id: "M3",
    title: "shard keys and zone ranges are those declared",
    look: (_, facts, found) => checkRanges(facts, found),
  },
  { id: "M4", title: "each datacenter can go on without another", look: checkAvailability },
  { id: "M5", title: "every document lies in its zone", look: checkPlacement },
  {
    id: "M9",
    title: "every datacenter has its shards, ranges and routers",
    look: (_, facts, found) => checkDatacenters(facts, found),
  },
  { id: "M10", title: "what names a datacenter reaches only that datacenter", look: checkTargeting },
  { id: "M11", title: "every member has served a routed read", look: checkWarmth },
  { id: "U1", title: "a duplicate of a unique shard key is refused", look: checkUniqueness },
];

/**
 * Proves rule by rule that the live cluster is what the declaration promises. All rules are looked at, and at the same
 * time. It changes nothing: what U1 tries is aborted, and M11 only reads.
 *
 * @returns a check for each rule, in the order of the rules
 */
export async function verifyCluster(op: Operation, request: VerifyRequest): Promise<Check[]> {
  const facts = await gatherFacts(op, request);
  return Promise.all(
    RULES.map(async ({ id, title, look }) => {
      const check = await runCheck(id, title, op.signal, (found) => look(op, facts, found));
      op.progress(`${id} ${title}: ${check.status}`);
      return check;
    }),
  );
}
