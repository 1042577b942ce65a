/** Log lines as mongod writes them: one JSON object a line. */
import { closeSync, openSync, writeSync } from "node:fs";

export type Severity = "F" | "E" | "W" | "I" | "D1";

let fd = 1;

/** Sends log lines to a file (a new one, or appended). */
export function logTo(path: string, append: boolean): void {
  fd = openSync(path, append ? "a" : "w", 0o600);
}

export function closeLog(): void {
  if (fd !== 1) closeSync(fd);
  fd = 1;
}

/** The ids under which tools look for these lines in a real server's log. */
export const LogId = { buildInfo: 23403, waitingForConnections: 23016 } as const;

/** Writes one line. Never pass secrets in. */
export function log(
  severity: Severity,
  component: string,
  message: string,
  attributes?: Readonly<Record<string, unknown>>,
  context = "mongos",
  id = 0,
): void {
  const line = {
    t: { $date: new Date().toISOString() },
    s: severity,
    c: component,
    id,
    ctx: context,
    msg: message,
    ...(attributes === undefined ? {} : { attr: attributes }),
  };
  try {
    writeSync(fd, `${JSON.stringify(line)}\n`);
  } catch {
    // A full disk or a closed pipe must not stop the routing.
  }
}
