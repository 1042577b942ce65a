/** A small table of who runs where, for `up` and `status`. Pure. */
import type { ClusterSpec } from "../model/spec.ts";
import { textTable } from "./text-table.ts";

export interface TopologyOptions {
  /** State of each process by name, e.g. `PRIMARY`; a column more when given. */
  readonly states?: Readonly<Record<string, string>> | undefined;
}

/**
 * A row for each replica set and one for the routers, a column for each datacenter. A member is shown by its port when
 * all hosts are the loopback address, else by host and port, and by its name until it has a place; `p0` marks priority 0.
 */
export function topologyTable(spec: ClusterSpec, { states }: TopologyOptions = {}): string {
  const placed = [spec.configServers, ...spec.shards.map((shard) => shard.replicaSet)].flatMap(
    ({ members }) => members,
  );
  const loopback = [...placed, ...spec.routers].every(
    ({ host }) => host === undefined || /^(127\.0\.0\.1|localhost|\[::1\]):/.test(host),
  );
  const cell = (process: { name: string; host: string | undefined }, marks: readonly (string | false)[]) => {
    const place =
      process.host === undefined ? process.name : loopback ? process.host.replace(/^.*:/, ":") : process.host;
    return [place, states?.[process.name], ...marks].filter(Boolean).join(" ");
  };
  const row = (
    title: string,
    note: string,
    processes: readonly { datacenter: string; text: string }[],
  ): readonly string[] => [
    title,
    note,
    ...spec.datacenters.map(
      ({ name }) =>
        processes
          .filter(({ datacenter }) => datacenter === name)
          .map(({ text }) => text)
          .join(", ") || "-",
    ),
  ];
  const members = (set: ClusterSpec["configServers"]) =>
    set.members.map((member) => ({
      datacenter: member.datacenter,
      text: cell(member, [
        member.arbiterOnly ? "arbiter" : member.priority === 0 && "p0",
        member.hidden && "hidden",
        member.votes === 0 && "no vote",
      ]),
    }));
  return textTable(
    ["", "zones", ...spec.datacenters.map(({ label }) => label)],
    [
      row(`${spec.configServers.name} (config)`, "", members(spec.configServers)),
      ...spec.shards.map((shard) => row(shard.name, shard.zones.join(", "), members(shard.replicaSet))),
      row(
        "mongos",
        "",
        spec.routers.map((router) => ({ datacenter: router.datacenter, text: cell(router, []) })),
      ),
    ],
  );
}
