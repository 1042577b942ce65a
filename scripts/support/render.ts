/** Pure texts of what the commands print. */
import type { Check } from "../../infra/cluster/verify/cluster.ts";
import type { ClusterSpec } from "../../infra/model/spec.ts";

const marks: Record<Check["status"], string> = { passed: "✓", failed: "✗", unknown: "?" };

/** Every check with its evidence; problems beneath the check that has them. */
export function renderChecks(checks: readonly Check[]): string {
  const width = Math.max(...checks.map(({ id }) => id.length));
  return checks
    .flatMap((check) => [
      `${marks[check.status]} ${check.id.padEnd(width)}  ${check.title}`,
      ...check.evidence.map((fact) => `  ${" ".repeat(width)}    ${fact}`),
      ...check.problems.map((problem) => `  ${" ".repeat(width)}  ! ${problem}`),
    ])
    .join("\n");
}

/** One line per check; evidence is left to `verify`, problems are not. */
export function renderCheckTitles(checks: readonly Check[]): string {
  return renderChecks(checks.map((check) => ({ ...check, evidence: [] })));
}

/** One line: how many checks passed, and which did not. */
export function renderVerdict(checks: readonly Check[]): string {
  const not = checks.filter(({ status }) => status !== "passed");
  const passed = `${checks.length - not.length} of ${checks.length} checks passed`;
  return not.length === 0 ? passed : `${passed}; not: ${not.map(({ id, status }) => `${id} (${status})`).join(", ")}`;
}

/** One line per router: where to connect in each datacenter. */
export function renderConnections(uris: Readonly<Record<string, string>>): string {
  const width = Math.max(...Object.keys(uris).map((name) => name.length));
  return Object.entries(uris)
    .map(([datacenter, uri]) => `  ${datacenter.padEnd(width)}  ${uri}`)
    .join("\n");
}

/** The password of a connection string replaced; everything else is kept. */
export function maskPassword(uri: string): string {
  return uri.replace(/^(mongodb(?:\+srv)?:\/\/[^:@/]+:)[^@/]*@/, "$1<password>@");
}

/** `chat`: 2 datacenters, 2 shards, 2 sharded collections. */
export function renderSummary(spec: ClusterSpec): string {
  const count = (n: number, what: string) => `${n} ${what}${n === 1 ? "" : "s"}`;
  return [
    count(spec.datacenters.length, "datacenter"),
    count(spec.shards.length, "shard"),
    count(spec.routers.length, "router"),
    count(spec.collections.length, "sharded collection"),
  ].join(", ");
}
