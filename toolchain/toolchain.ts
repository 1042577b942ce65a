import type { Mongodb } from "./mongodb.ts";

/** A program with where it came from. */
export interface Tool {
  readonly path: string;
  readonly version: string;
  /** For people: "official release", "built from its Go modules", "on the PATH". */
  readonly source: string;
}

export interface Toolchain {
  /** `own`: the user installed it. `offline`: it came from package registries because the official host was closed. */
  readonly pulumi: Tool & { readonly own: boolean; readonly offline: boolean };
  readonly languageHost: Tool;
  readonly mongodb: Mongodb;
}

export type ToolName = "pulumi" | "mongodb";

/** One part of what a machine needs, as it was found. */
export interface ReportedPart {
  readonly name: string;
  readonly status: "found" | "missing" | "unusable";
  readonly path?: string;
  readonly version?: string;
  readonly source?: string;
  /** Why it is missing or unusable. */
  readonly why?: string;
  /** How to mend it. */
  readonly next?: string;
  /** Needed only to build or fetch something that is there already: its absence is no fault. */
  readonly optional: boolean;
}

export interface ToolchainReport {
  readonly cache: string;
  readonly platform: string;
  readonly parts: readonly ReportedPart[];
  /** Hosts of official downloads that are not asked at the moment, each with its reason. */
  readonly closedHosts: readonly { readonly host: string; readonly why: string }[];
}
