import { readFileSync } from "node:fs";
import { type Platform, parseOsRelease } from "./sources.ts";

/** This machine. */
export function currentPlatform(): Platform {
  const base = { os: process.platform, arch: process.arch };
  if (process.platform !== "linux") return base;
  try {
    return { ...base, distribution: parseOsRelease(readFileSync("/etc/os-release", "utf8")) };
  } catch {
    return base;
  }
}

/** A name for people: "linux x64 (debian 12)". */
export function describePlatform({ os, arch, distribution }: Platform): string {
  return `${os} ${arch}${distribution ? ` (${distribution.id} ${distribution.versionId})` : ""}`;
}
