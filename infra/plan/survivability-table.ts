/** The survivability of a cluster as a table for people. Pure. */
import type { Scenario, SurvivabilityRow } from "./survivability.ts";
import { textTable } from "./text-table.ts";

export function scenarioText(scenario: Scenario): string {
  if (scenario.kind === "lost") return `${scenario.datacenter} lost`;
  const [one, other] = scenario.sides.map((side) => side.join("+"));
  return `${one} | ${other} cut, from ${scenario.seenFrom.join("+")}`;
}

/** One line a scenario; a column for each zone (`write`, `read`, `partly` or `-`) and one for metadata. */
export function survivabilityTable(rows: readonly SurvivabilityRow[]): string {
  const zones = [...new Set(rows.flatMap((row) => row.zones.map(({ zone }) => zone)))];
  const collections = [...new Set(rows.flatMap((row) => row.collections.map(({ namespace }) => namespace)))];
  const access = (write: string, read: string) =>
    write === "yes"
      ? "write"
      : write === "partly"
        ? "partly"
        : read === "yes"
          ? "read"
          : read === "partly"
            ? "read partly"
            : "-";
  return textTable(
    ["when", ...zones.map((zone) => `zone ${zone}`), ...collections, "metadata", "routers"],
    rows.map((row) => [
      scenarioText(row.scenario),
      ...zones.map((name) => {
        const zone = row.zones.find((one) => one.zone === name);
        return zone ? access(zone.write, zone.read) : "-";
      }),
      ...collections.map((namespace) => {
        const collection = row.collections.find((one) => one.namespace === namespace);
        return collection ? access(collection.write, collection.read) : "-";
      }),
      row.metadata.write ? "write" : row.metadata.read ? "read" : "-",
      row.routers.join(", ") || "none",
    ]),
  );
}

/** The reasons behind a table: a line for each replica set that cannot be written, per scenario. */
export function survivabilityReasons(rows: readonly SurvivabilityRow[]): string {
  return rows
    .flatMap((row) =>
      row.replicaSets
        .filter((set) => !set.writable)
        .map(
          (set) =>
            `${scenarioText(row.scenario)}: ${set.role === "config" ? "config servers" : set.name}: ${set.reason}`,
        ),
    )
    .join("\n");
}
