import { statfsSync } from "node:fs";
import { freemem, totalmem } from "node:os";
import path from "node:path";
import { forgetClosedHosts, inspectToolchain, type ReportedPart, type ToolchainReport } from "../toolchain/index.ts";
import { exitCode } from "./support/outcome.ts";

/** What the reference cluster takes on local processes, in bytes: memory of its servers, and disk for their data. */
const CLUSTER_MEMORY = 2_000_000_000;
const CLUSTER_DISK = 3_000_000_000;

interface DoctorOptions {
  readonly json?: boolean;
  /** Forgets first which hosts could not be reached. */
  readonly retryNetwork?: boolean;
}

interface Machine {
  readonly freeMemory: number;
  readonly totalMemory: number;
  readonly freeDisk: number;
  readonly notes: readonly string[];
}

/**
 * Shows what was found of everything that the project runs with, and how to mend what is missing. Fetches nothing.
 * @returns exit code 0 when all is there, 1 when something is missing
 */
export async function doctor({ json = false, retryNetwork = false }: DoctorOptions): Promise<number> {
  if (retryNetwork) await forgetClosedHosts();
  const report = await inspectToolchain();
  const machine = inspectMachine();
  const ready = report.parts.every((part) => part.status === "found" || part.optional);
  if (json) console.log(JSON.stringify({ ready, ...report, machine }, null, 2));
  else console.log(render(report, machine, ready));
  return ready ? exitCode.fine : exitCode.couldNotTell;
}

function inspectMachine(): Machine {
  const { bavail, bsize } = statfsSync(".");
  const freeMemory = process.availableMemory?.() ?? freemem();
  const freeDisk = bavail * bsize;
  const notes: string[] = [];
  if (freeMemory < CLUSTER_MEMORY) {
    notes.push(`the local cluster takes about ${size(CLUSTER_MEMORY)} of memory; ${size(freeMemory)} are free`);
  }
  if (freeDisk < CLUSTER_DISK) {
    notes.push(`the local cluster's data takes about ${size(CLUSTER_DISK)} of disk; ${size(freeDisk)} are free here`);
  }
  if (process.platform === "win32") {
    notes.push("local processes are not supported on Windows: use WSL, or the docker stack");
  }
  return { freeMemory, totalMemory: totalmem(), freeDisk, notes };
}

const size = (bytes: number) => `${(bytes / 1e9).toFixed(1)} GB`;
const MARKS = { found: "✓", missing: "✗", unusable: "✗" } as const;

function render(report: ToolchainReport, machine: Machine, ready: boolean): string {
  const rows = report.parts.map((part) => [
    part.status !== "found" && part.optional ? "-" : MARKS[part.status],
    part.name,
    part.version ?? (part.status === "found" ? "" : part.status),
    part.source ?? "",
    part.path === undefined ? "" : shortened(part.path),
  ]);
  const widths = [0, 1, 2, 3].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const lines = rows.flatMap((row, index) => {
    const text = row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ");
    return [text.trimEnd(), ...remarks(report.parts[index])];
  });
  lines.push("", `cache     ${shortened(report.cache)}`, `platform  ${report.platform}`);
  lines.push(`memory    ${size(machine.freeMemory)} free of ${size(machine.totalMemory)}`);
  lines.push(`disk      ${size(machine.freeDisk)} free`);
  for (const { host, why } of report.closedHosts) lines.push(`network   ${host} ${why}`);
  for (const note of machine.notes) lines.push(`note      ${note}`);
  lines.push("", ready ? "Everything that npm run up needs is here." : "Something is missing: see the marks ✗ above.");
  return lines.join("\n");
}

function remarks(part: ReportedPart | undefined): string[] {
  if (!part) return [];
  const lines: string[] = [];
  if (part.why) lines.push(`     why:  ${part.why}`);
  if (part.status !== "found" && part.next) lines.push(`     next: ${part.next}`);
  return lines;
}

/** Paths below the working folder and the home folder in their short form. */
function shortened(file: string): string {
  const relative = path.relative(process.cwd(), file);
  if (!relative.startsWith("..") && !path.isAbsolute(relative)) return `./${relative}`;
  const home = process.env.HOME;
  return home && file.startsWith(`${home}/`) ? `~${file.slice(home.length)}` : file;
}
