import { describe, expect, test } from "vitest";
import {
  hashInChecksums,
  mongodbArchive,
  mongodbBuild,
  type Platform,
  parseOsRelease,
  pulumiArchive,
  type SourceKind,
  sourceOrder,
} from "../../../toolchain/sources.ts";
import { atLeast, MONGODB_SHA256, versionIn } from "../../../toolchain/versions.ts";

const linux = (arch: string, id: string, versionId: string, like: string[] = []): Platform => ({
  os: "linux",
  arch,
  distribution: { id, versionId, like },
});

describe("the order of sources", () => {
  const nothing = { named: false, onPath: false, cachedOfficial: false, cachedFallback: false };
  test.each<[string, Partial<typeof nothing>, SourceKind[]]>([
    ["nothing is there: the official release first", {}, ["official", "fallback"]],
    ["a variable wins over everything", { named: true, onPath: true, cachedOfficial: true }, ["named"]],
    ["the user's own wins over the cache", { onPath: true, cachedOfficial: true, cachedFallback: true }, ["path"]],
    [
      "an official release in the cache wins over a built one",
      { cachedOfficial: true, cachedFallback: true },
      ["cached official"],
    ],
    ["what was built once is not fetched again", { cachedFallback: true }, ["cached fallback"]],
  ])("%s", (_rule, found, expected) => {
    expect(sourceOrder({ ...nothing, ...found })).toEqual(expected);
  });
});

describe("the official MongoDB build", () => {
  test.each<[string, Platform, string | undefined]>([
    ["Debian 12", linux("x64", "debian", "12"), "linux-x86_64-debian12"],
    ["Debian without a version (testing)", linux("x64", "debian", ""), "linux-x86_64-debian12"],
    ["Debian 12 on arm64, which has no build of its own", linux("arm64", "debian", "12"), "linux-aarch64-ubuntu2204"],
    ["Debian 11", linux("x64", "debian", "11"), "linux-x86_64-ubuntu2004"],
    ["Ubuntu 24.04", linux("x64", "ubuntu", "24.04", ["debian"]), "linux-x86_64-ubuntu2404"],
    ["Ubuntu 26.10", linux("arm64", "ubuntu", "26.10", ["debian"]), "linux-aarch64-ubuntu2404"],
    ["Ubuntu 22.04", linux("arm64", "ubuntu", "22.04", ["debian"]), "linux-aarch64-ubuntu2204"],
    ["Ubuntu 20.04", linux("x64", "ubuntu", "20.04", ["debian"]), "linux-x86_64-ubuntu2004"],
    ["a derivative of Ubuntu", linux("x64", "linuxmint", "21.3", ["ubuntu", "debian"]), "linux-x86_64-ubuntu2204"],
    ["Rocky 9", linux("x64", "rocky", "9.4", ["rhel", "centos", "fedora"]), "linux-x86_64-rhel93"],
    ["RHEL 8", linux("arm64", "rhel", "8.10", ["fedora"]), "linux-aarch64-rhel8"],
    ["Fedora, whose versions count differently", linux("x64", "fedora", "41"), "linux-x86_64-rhel93"],
    ["Alpine has none", linux("x64", "alpine", "3.20"), undefined],
    ["Linux that does not say what it is", { os: "linux", arch: "x64" }, undefined],
    ["another processor", linux("riscv64", "debian", "13"), undefined],
    ["macOS on Apple silicon", { os: "darwin", arch: "arm64" }, "macos-arm64"],
    ["macOS on Intel", { os: "darwin", arch: "x64" }, "macos-x86_64"],
    ["Windows", { os: "win32", arch: "x64" }, undefined],
  ])("%s", (_name, platform, expected) => {
    expect(mongodbBuild(platform)).toBe(expected);
    if (expected) expect(MONGODB_SHA256[expected]).toMatch(/^[0-9a-f]{64}$/);
  });

  test("comes with its pinned hash and from the folder of its system", () => {
    expect(mongodbArchive({ os: "darwin", arch: "arm64" }, "https://example.test")).toEqual({
      url: "https://example.test/osx/mongodb-macos-arm64-8.0.32.tgz",
      name: "mongodb-macos-arm64-8.0.32.tgz",
      sha256: MONGODB_SHA256["macos-arm64"],
    });
  });
});

test("the official Pulumi release exists for Linux and macOS on two processors", () => {
  expect(pulumiArchive({ os: "linux", arch: "arm64" }, "https://example.test")).toEqual({
    url: "https://example.test/pulumi-v3.276.0-linux-arm64.tar.gz",
    name: "pulumi-v3.276.0-linux-arm64.tar.gz",
    checksums: "https://example.test/pulumi-3.276.0-checksums.txt",
  });
  expect(pulumiArchive({ os: "linux", arch: "riscv64" })).toBeUndefined();
  expect(pulumiArchive({ os: "freebsd", arch: "x64" })).toBeUndefined();
});

test("/etc/os-release is read with and without quotes", () => {
  const text = 'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n';
  expect(parseOsRelease(text)).toEqual({ id: "rocky", versionId: "9.4", like: ["rhel", "centos", "fedora"] });
  expect(parseOsRelease("ID=debian\n")).toEqual({ id: "debian", versionId: "", like: [] });
});

test("a hash is taken from the line of exactly this file", () => {
  const hash = "a".repeat(64);
  const text = `${"b".repeat(64)}  other-pulumi.tar.gz\n${hash}  pulumi.tar.gz\nnot-a-hash  broken.tar.gz\n`;
  expect(hashInChecksums(text, "pulumi.tar.gz")).toBe(hash);
  expect(hashInChecksums(text, "broken.tar.gz")).toBeUndefined();
  expect(hashInChecksums(text, "absent.tar.gz")).toBeUndefined();
});

test.each([
  ["db version v6.0.5\nBuild Info: {", "6.0.5"],
  ["v3.276.0\n", "3.276.0"],
  ["v3.277.0-alpha.1+dirty", "3.277.0"],
  ["go1.26", "1.26"],
  ["no version here", undefined],
])("the version in %j is %s", (text, expected) => {
  expect(versionIn(text)).toBe(expected);
});

test.each([
  ["3.276.0", "3.200.0", true],
  ["3.99.9", "3.200.0", false],
  ["5.0", "5.0.0", true],
  ["10.0.0", "9.9.9", true],
  ["1.26.5", "1.26.6", false],
])("version %s is at least %s: %s", (version, oldest, expected) => {
  expect(atLeast(version, oldest)).toBe(expected);
});
