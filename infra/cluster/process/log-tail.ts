import { open } from "node:fs/promises";

const TAIL_BYTES = 32_768;
const LINE_LIMIT = 400;

/** The last lines of a log that say why a server died: warnings and worse first of all, in the order of the log. */
export async function tellingLines(paths: readonly string[], count = 8): Promise<readonly string[]> {
  const lines = (await Promise.all(paths.map(tail))).flat().map(parse);
  const grave = lines.filter((line) => line.grave).slice(-count);
  const rest = lines.slice(-Math.max(3, count - grave.length));
  return [...new Set([...grave, ...rest])].sort((a, b) => lines.indexOf(a) - lines.indexOf(b)).map((line) => line.text);
}

interface LogLine {
  readonly text: string;
  readonly grave: boolean;
}

/** A line of a server's structured log as `level component message details`, any other line as it is. */
function parse(line: string): LogLine {
  try {
    const { s, c, msg, attr } = JSON.parse(line) as { s?: string; c?: string; msg?: string; attr?: unknown };
    if (msg === undefined) return { text: limit(line), grave: false };
    const details = attr === undefined ? "" : ` ${JSON.stringify(attr)}`;
    return { text: limit(`${s ?? "?"} ${c ?? "-"} ${msg}${details}`), grave: s === "E" || s === "F" || s === "W" };
  } catch {
    return { text: limit(line), grave: /error|fatal|fail/i.test(line) };
  }
}

function limit(text: string): string {
  return text.length > LINE_LIMIT ? `${text.slice(0, LINE_LIMIT)}…` : text;
}

async function tail(path: string): Promise<readonly string[]> {
  const file = await open(path, "r").catch(() => undefined);
  if (!file) return [];
  try {
    const { size } = await file.stat();
    const start = Math.max(0, size - TAIL_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - start), 0, size - start, start);
    return buffer.subarray(0, bytesRead).toString("utf8").split("\n").filter(Boolean);
  } finally {
    await file.close();
  }
}
