import { describe, expect, test } from "vitest";
import { createProgress, formatElapsed } from "../../../toolchain/progress.ts";

/** What a terminal shows after what was written to it: its lines without colours. */
function terminal() {
  const lines: string[] = [""];
  let row = 0;
  let atStart = true;
  const moves: Record<string, () => void> = {
    "\n": () => {
      row += 1;
      lines[row] ??= "";
      atStart = true;
    },
    "\r": () => {
      atStart = true;
    },
    "\x1b[J": () => {
      lines.length = row + 1;
      lines[row] = "";
    },
    "\x1b[K": () => {
      if (atStart) lines[row] = "";
    },
  };
  return {
    columns: 60,
    write(text: string) {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: terminal sequences are what is read here.
      for (const token of text.split(/(\x1b\[\d*[AJKm]|\r|\n)/)) {
        // biome-ignore lint/suspicious/noControlCharactersInRegex: likewise.
        const up = /^\x1b\[(\d+)A$/.exec(token);
        if (token === "" || (token.endsWith("m") && token.startsWith("\x1b"))) continue;
        if (up) row -= Number(up[1]);
        else if (moves[token]) moves[token]();
        else {
          lines[row] = atStart ? token : `${lines[row]}${token}`;
          atStart = false;
        }
      }
    },
    shown: () => lines.filter((line) => line !== ""),
  };
}

test.each([
  [0, "0.0 s"],
  [9_940, "9.9 s"],
  [9_960, "10 s"],
  [59_400, "59 s"],
  [59_600, "1 min 00 s"],
  [245_000, "4 min 05 s"],
])("%s ms is shown as %s", (milliseconds, expected) => {
  expect(formatElapsed(milliseconds)).toBe(expected);
});

describe("without a terminal", () => {
  test("a step speaks at its start, every so often, and at its end", async () => {
    const said: string[] = [];
    let now = 0;
    const progress = createProgress({
      stream: { write: (text) => said.push(text) },
      plainIntervalMs: 10,
      now: () => now,
    });
    const step = progress.step("engine");
    step.update("12 of 34 packages");
    now = 12_000;
    await expect.poll(() => said.length).toBe(2);
    now = 15_000;
    step.done("3.276.0");
    step.done("twice");
    expect(said.slice(0, 2)).toEqual(["· engine\n", "· engine: 12 of 34 packages (12 s)\n"]);
    expect(said.at(-1)).toBe("✓ engine: 3.276.0 (15 s)\n");
    expect(said.filter((line) => line.startsWith("✓"))).toHaveLength(1);
  });

  test("nothing is said with json", () => {
    const said: string[] = [];
    const progress = createProgress({ stream: { write: (text) => said.push(text) }, json: true });
    progress.step("engine").fail("broken");
    progress.log("line");
    progress.stop();
    expect(said).toEqual([]);
  });
});

describe("on a terminal", () => {
  test("steps that run at once have a line each; what is done and what is noted stays above them", () => {
    const screen = terminal();
    const progress = createProgress({ stream: screen, live: true, now: () => 0 });
    const engine = progress.step("engine");
    const server = progress.step("server");
    engine.update("linking");
    progress.log("a note");
    expect(screen.shown()).toEqual(["a note", "⠋ engine: linking (0.0 s)", "⠋ server (0.0 s)"]);
    server.done("6.0.5");
    expect(screen.shown()).toEqual(["a note", "✓ server: 6.0.5 (0.0 s)", "⠋ engine: linking (0.0 s)"]);
    engine.fail("no source has it");
    expect(screen.shown()).toEqual(["a note", "✓ server: 6.0.5 (0.0 s)", "✗ engine: no source has it (0.0 s)"]);
  });

  test("a line never wraps, or it could not be drawn over", () => {
    const screen = terminal();
    const progress = createProgress({ stream: screen, live: true, now: () => 0 });
    progress.step("engine").update("x".repeat(200));
    progress.log("");
    expect(Math.max(...screen.shown().map((line) => line.length))).toBe(59);
    progress.stop();
    expect(screen.shown()).toEqual([]);
  });
});
