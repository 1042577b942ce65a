import { expect, test } from "vitest";
import type { Check } from "../../../infra/cluster/verify/cluster.ts";
import type { Change } from "../../../infra/plan/change.ts";
import { driftCode, renderDrift } from "../../../scripts/drift.ts";
import { maskPassword, renderChecks, renderVerdict } from "../../../scripts/support/render.ts";
import { verdictCode } from "../../../scripts/verify.ts";

const check = (id: string, status: Check["status"]): Check => ({
  id,
  title: `${id} holds`,
  status,
  evidence: [],
  problems: [],
});
const change: Change = {
  resource: { kind: "ReplicaSet", name: "shard0000" },
  action: "update",
  path: "members[127.0.0.1:27018].priority",
  desired: 1,
  observed: 3,
};

test("exit codes of verify: 0 all passed, 2 when one failed, 1 when one could not be made and none failed", () => {
  expect(verdictCode([check("M1", "passed")])).toBe(0);
  expect(verdictCode([check("M1", "passed"), check("M2", "unknown")])).toBe(1);
  expect(verdictCode([check("M1", "unknown"), check("M2", "failed")])).toBe(2);
});

test("O3: exit codes of drift: 0 clean, 2 drift, 1 when part could not be seen", () => {
  const unseen = [{ path: "shard0001", message: "no member answers" }];
  expect(driftCode([], [])).toBe(0);
  expect(driftCode([], unseen)).toBe(1);
  expect(driftCode([change], unseen)).toBe(2);
});

test("O3: a drift report names the field and both values, and never calls a half-seen cluster clean", () => {
  const drifted = renderDrift({ stack: "local", drifted: [change], seen: [], unseen: [] });
  expect(drifted).toContain("members[127.0.0.1:27018].priority");
  expect(drifted).toMatch(/\b3\b.*\b1\b|\b1\b.*\b3\b/);
  const half = renderDrift({
    stack: "local",
    drifted: [],
    seen: [],
    unseen: [{ path: "shard0001", message: "no member answers" }],
  });
  expect(half).not.toContain("no drift");
  expect(half).toContain("shard0001: no member answers");
});

test("the verdict counts, and names what did not pass", () => {
  const checks = [check("M1", "passed"), check("M10", "failed"), check("U1", "unknown")];
  expect(renderVerdict(checks)).toBe("1 of 3 checks passed; not: M10 (failed), U1 (unknown)");
  expect(renderVerdict([check("M1", "passed")])).toBe("1 of 1 checks passed");
});

test("every check is shown with its evidence and its problems", () => {
  const shown = renderChecks([{ ...check("M5", "failed"), evidence: ["20000 documents"], problems: ["3 misplaced"] }]);
  expect(shown.split("\n").map((line) => line.trim())).toEqual(["✗ M5  M5 holds", "20000 documents", "! 3 misplaced"]);
});

test("a password never stays in a connection string that is shown", () => {
  expect(maskPassword("mongodb://app:s%3Acret@127.0.0.1:1/chat?authSource=admin")).toBe(
    "mongodb://app:<password>@127.0.0.1:1/chat?authSource=admin",
  );
  expect(maskPassword("mongodb://127.0.0.1:1/?a=b@c")).toBe("mongodb://127.0.0.1:1/?a=b@c");
});
