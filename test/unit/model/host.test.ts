import { describe, expect, test } from "vitest";
import { hostProblem, normaliseHost, processNames, sameHost, withHosts } from "../../../infra/model/host.ts";
import { reference } from "../../../stacks/reference.ts";

describe("hosts", () => {
  test.each([
    ["db1.alfa.example.net:27017", "db1.alfa.example.net:27017"],
    ["DB1.Alfa.Example.net:27017", "db1.alfa.example.net:27017"],
    [" 127.0.0.1:1 ", "127.0.0.1:1"],
    ["[::1]:27017", "[::1]:27017"],
    ["[2001:DB8::1]:65535", "[2001:db8::1]:65535"],
    ["db1.example.net.:27017", "db1.example.net:27017"],
    ["host:01", "host:1"],
  ])("%s is %s", (text, normal) => {
    expect(normaliseHost(text)).toBe(normal);
    expect(sameHost(text, normal)).toBe(true);
  });

  test.each([
    ["db1", /no port/],
    ["db1:", /no port/],
    ["[::1]", /no port/],
    ["::1", /without brackets/],
    ["2001:db8::1:27017", /without brackets/],
    ["db1:0", /not a port/],
    ["db1:65536", /not a port/],
    ["db1:http", /not a port/],
    [":27017", /names no host/],
    ["", /empty/],
    ["mongodb://db1:27017", /not a host/],
    ["/tmp/mongodb-27017.sock", /not a host/],
    ["a b:27017", /not a host name/],
    ["[db1]:27017", /not a host name/],
  ])("%j is refused", (text, message) => {
    expect(hostProblem(text)?.message).toMatch(message);
    expect(() => normaliseHost(text)).toThrow(message);
  });
});

describe("withHosts", () => {
  test("gives each process its place and leaves the others", () => {
    const names = processNames(reference);
    expect(names).toHaveLength(11);
    const spec = withHosts(reference, { "shard0000-alfa-1": "A:1", "mongos-bravo": "b:2" });
    expect(spec.shards[0]?.replicaSet.members.map(({ host }) => host)).toEqual([undefined, "a:1", undefined]);
    expect(spec.routers.map(({ host }) => host)).toEqual([undefined, "b:2"]);
  });
  test("refuses a name that the cluster does not have", () => {
    expect(() => withHosts(reference, { "shard0000-alfa-9": "a:1" })).toThrow(/no process shard0000-alfa-9/);
  });
});
