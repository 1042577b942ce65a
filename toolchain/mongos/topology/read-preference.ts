/** Read preferences: reading them from commands and choosing among members. Pure. */
import type { Doc } from "../bson/document.ts";
import { primaryRead, type ReadMode, type ReadPreference } from "../context.ts";
import { CommandError, errorCode } from "../errors.ts";

const modes: readonly string[] = ["primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"];

/** Members within this many milliseconds of the fastest one are equally near. */
export const latencyWindowMs = 15;

/** Reads `$readPreference`. FailedToParse (9) or BadValue for what the server refuses. */
export function parseReadPreference(doc: Doc | undefined): ReadPreference {
  if (doc === undefined) return primaryRead;
  const mode = doc.string("mode");
  if (mode === undefined || !modes.includes(mode))
    throw new CommandError(
      errorCode.FailedToParse,
      `Could not parse $readPreference mode '${mode ?? ""}'. Only the modes '${modes.join("', '")}' are supported.`,
    );
  const tags = doc.docs("tags").map((set) => {
    const out: Record<string, string> = {};
    for (const element of set.elements()) out[element.name] = element.text();
    return out;
  });
  if (mode === "primary" && tags.some((set) => Object.keys(set).length > 0))
    throw new CommandError(errorCode.BadValue, "Only empty tags are allowed with primary read preference");
  const maxStalenessSeconds = doc.number("maxStalenessSeconds");
  if (maxStalenessSeconds !== undefined && maxStalenessSeconds > 0) {
    if (mode === "primary")
      throw new CommandError(errorCode.BadValue, "mode 'primary' does not support maxStalenessSeconds");
    if (maxStalenessSeconds < 90)
      throw new CommandError(160, "maxStalenessSeconds must be at least 90 seconds", {
        codeName: "MaxStalenessOutOfRange",
      });
    return { mode: mode as ReadMode, tags, maxStalenessSeconds };
  }
  return { mode: mode as ReadMode, tags };
}

export interface Candidate {
  readonly host: string;
  readonly kind: "primary" | "secondary" | "other" | "unknown";
  readonly tags: Readonly<Record<string, string>>;
  /** Average round trip, milliseconds. */
  readonly rttMs: number;
  /** Wall clock of the member's last write and of the answer that told it, milliseconds. */
  readonly lastWriteMs?: number | undefined;
  readonly lastUpdateMs?: number | undefined;
}

function fresh(members: readonly Candidate[], preference: ReadPreference): readonly Candidate[] {
  const limit = preference.maxStalenessSeconds;
  if (limit === undefined) return members;
  const lag = (m: Candidate): number => (m.lastUpdateMs ?? 0) - (m.lastWriteMs ?? 0);
  const primary = members.find((m) => m.kind === "primary");
  const newest = Math.max(...members.map((m) => m.lastWriteMs ?? 0));
  return members.filter((m) => {
    if (m.kind !== "secondary") return true;
    const staleness = primary !== undefined ? lag(m) - lag(primary) : newest - (m.lastWriteMs ?? 0);
    return staleness + 10_000 <= limit * 1000;
  });
}

function tagged(members: readonly Candidate[], preference: ReadPreference): readonly Candidate[] {
  if (preference.tags.length === 0) return members;
  for (const set of preference.tags) {
    const fitting = members.filter((m) => Object.entries(set).every(([tag, value]) => m.tags[tag] === value));
    if (fitting.length > 0) return fitting;
  }
  return [];
}

function near(members: readonly Candidate[]): readonly Candidate[] {
  const fastest = Math.min(...members.map((m) => m.rttMs));
  return members.filter((m) => m.rttMs <= fastest + latencyWindowMs);
}

/** Members that a read preference allows, all equally good; empty when none fits. */
export function eligible(members: readonly Candidate[], preference: ReadPreference): readonly Candidate[] {
  const primaries = members.filter((m) => m.kind === "primary");
  const usable = fresh(
    members.filter((m) => m.kind === "primary" || m.kind === "secondary"),
    preference,
  );
  const secondaries = usable.filter((m) => m.kind === "secondary");
  switch (preference.mode) {
    case "primary":
      return primaries;
    case "primaryPreferred":
      return primaries.length > 0 ? primaries : near(tagged(secondaries, preference));
    case "secondary":
      return near(tagged(secondaries, preference));
    case "secondaryPreferred": {
      const fitting = near(tagged(secondaries, preference));
      return fitting.length > 0 ? fitting : primaries;
    }
    case "nearest":
      return near(tagged(usable, preference));
  }
}
