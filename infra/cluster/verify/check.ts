import { AlfabravoError } from "../../model/problem.ts";
import { describeError } from "../errors.ts";

/** One rule, and whether it holds. */
export interface Check {
  /** The rule it proves, e.g. `M5`. */
  readonly id: string;
  readonly title: string;
  /** `unknown`: it could not be told, and `problems` says why. */
  readonly status: "passed" | "failed" | "unknown";
  /** What was seen, with numbers. */
  readonly evidence: readonly string[];
  readonly problems: readonly string[];
}

/** Collects what a check finds. */
export class Findings {
  readonly evidence: string[] = [];
  /** What breaks the rule. */
  readonly problems: string[] = [];
  /** Why a part of it could not be told. */
  readonly unknown: string[] = [];

  saw(text: string): void {
    this.evidence.push(text);
  }

  wrong(text: string): void {
    this.problems.push(text);
  }

  blind(reason: unknown): void {
    this.unknown.push(reasonText(reason));
  }
}

/** Runs one check. What it throws makes it unknown, but for what it had found wrong before. */
export async function runCheck(
  id: string,
  title: string,
  signal: AbortSignal,
  look: (found: Findings) => Promise<void>,
): Promise<Check> {
  const found = new Findings();
  try {
    await look(found);
  } catch (error) {
    signal.throwIfAborted();
    found.blind(error);
  }
  const { evidence, problems, unknown } = found;
  const status = problems.length > 0 ? "failed" : unknown.length > 0 ? "unknown" : "passed";
  return { id, title, status, evidence, problems: [...new Set([...problems, ...unknown])] };
}

function reasonText(reason: unknown): string {
  if (typeof reason === "string") return reason;
  if (reason instanceof AlfabravoError) return reason.next ? `${reason.message} (${reason.next})` : reason.message;
  return describeError(reason);
}

export function count(n: number, what: string): string {
  return `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
}
