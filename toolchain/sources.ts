/** Where each tool may come from on a machine like this one: pure, so that it can be tested for every kind of machine. */
import {
  atLeast,
  MONGODB_ARCHIVES,
  MONGODB_SHA256,
  MONGODB_VERSION,
  PULUMI_RELEASES,
  PULUMI_VERSION,
} from "./versions.ts";

export interface Platform {
  readonly os: NodeJS.Platform;
  readonly arch: string;
  /** From /etc/os-release on Linux. */
  readonly distribution?: { readonly id: string; readonly versionId: string; readonly like: readonly string[] };
}

/** Reads the fields of /etc/os-release that name a distribution. */
export function parseOsRelease(text: string): NonNullable<Platform["distribution"]> {
  const field = (name: string) => new RegExp(`^${name}=["']?(.*?)["']?$`, "m").exec(text)?.[1] ?? "";
  return { id: field("ID"), versionId: field("VERSION_ID"), like: field("ID_LIKE").split(" ").filter(Boolean) };
}

/** The official MongoDB build for a platform as it is named in archives, or undefined where there is none. */
export function mongodbBuild({ os, arch, distribution }: Platform): string | undefined {
  const machine = { x64: "x86_64", arm64: os === "darwin" ? "arm64" : "aarch64" }[arch];
  if (!machine) return undefined;
  if (os === "darwin") return `macos-${machine}`;
  if (os !== "linux" || !distribution) return undefined;
  const target = linuxTarget(distribution, machine);
  return target && `linux-${machine}-${target}`;
}

function linuxTarget(
  { id, versionId, like }: NonNullable<Platform["distribution"]>,
  machine: string,
): string | undefined {
  const kin = [id, ...like];
  // Rolling releases name no version: they are the newest.
  const version = versionId === "" ? "999" : versionId;
  if (id === "ubuntu") {
    return atLeast(version, "24.04") ? "ubuntu2404" : atLeast(version, "22.04") ? "ubuntu2204" : "ubuntu2004";
  }
  if (id === "debian") {
    // Debian 11 has the OpenSSL of Ubuntu 20.04; there is no Debian build for arm64, and Ubuntu 22.04's runs on 12.
    if (!atLeast(version, "12")) return "ubuntu2004";
    return machine === "x86_64" ? "debian12" : "ubuntu2204";
  }
  if (kin.some((name) => ["rhel", "fedora", "centos"].includes(name))) {
    return id === "fedora" || atLeast(version, "9") ? "rhel93" : "rhel8";
  }
  if (kin.includes("ubuntu") || kin.includes("debian")) return "ubuntu2204";
  return undefined;
}

export interface Archive {
  readonly url: string;
  /** The pinned hash, or undefined where it is read from `checksums`. */
  readonly sha256?: string;
  /** A text with one line for each archive: its SHA-256 and its name. */
  readonly checksums?: string;
  readonly name: string;
}

export function mongodbArchive(platform: Platform, base = MONGODB_ARCHIVES): Archive | undefined {
  const build = mongodbBuild(platform);
  const sha256 = build && MONGODB_SHA256[build];
  if (!build || !sha256) return undefined;
  const name = `mongodb-${build}-${MONGODB_VERSION}.tgz`;
  return { url: `${base}/${platform.os === "darwin" ? "osx" : "linux"}/${name}`, sha256, name };
}

export function pulumiArchive({ os, arch }: Platform, base = PULUMI_RELEASES): Archive | undefined {
  if ((os !== "linux" && os !== "darwin") || (arch !== "x64" && arch !== "arm64")) return undefined;
  const name = `pulumi-v${PULUMI_VERSION}-${os}-${arch}.tar.gz`;
  return { url: `${base}/${name}`, checksums: `${base}/pulumi-${PULUMI_VERSION}-checksums.txt`, name };
}

/** The hash of one file in a list of "hash  name" lines. */
export function hashInChecksums(text: string, name: string): string | undefined {
  return text
    .split("\n")
    .map((line) => line.trim().split(/\s+\*?/))
    .find(([hash, file]) => file === name && /^[0-9a-f]{64}$/i.test(hash ?? ""))?.[0];
}

/** What was found of one tool before anything is fetched. */
export interface Findings {
  /** The user named it by a variable; then nothing else counts. */
  readonly named: boolean;
  /** The user's own on the PATH, new enough. */
  readonly onPath: boolean;
  readonly cachedOfficial: boolean;
  readonly cachedFallback: boolean;
}

export type SourceKind = "named" | "path" | "cached official" | "official" | "cached fallback" | "fallback";

/**
 * The sources to try, in order. What the user has wins; what is in the cache comes before anything that costs time; the
 * official release comes before what package registries have instead.
 */
export function sourceOrder(found: Findings): SourceKind[] {
  if (found.named) return ["named"];
  if (found.onPath) return ["path"];
  if (found.cachedOfficial) return ["cached official"];
  if (found.cachedFallback) return ["cached fallback"];
  return ["official", "fallback"];
}
