import { stripVTControlCharacters } from "node:util";

/** One line of work that takes a while. Exactly one of `done` and `fail` ends it; what follows is ignored. */
export interface Step {
  /** Replaces the text behind the label, such as "812 of 1734 packages". */
  update(text: string): void;
  done(text?: string): void;
  fail(text?: string): void;
}

export interface Progress {
  step(label: string): Step;
  /** A line of its own that stays, above the live ones. */
  log(line: string): void;
  /** Takes the live lines away and stops the clock; unfinished steps leave nothing behind. */
  stop(): void;
}

/** The part of a stream that progress needs. */
export interface ProgressStream {
  write(chunk: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

export interface ProgressOptions {
  readonly stream?: ProgressStream;
  /** Silent: results go to standard output as JSON and nothing else is wanted. */
  readonly json?: boolean;
  /** How often a running step speaks where there is no terminal, in milliseconds. */
  readonly plainIntervalMs?: number;
  /** Lines that are redrawn in place; by default on a terminal that is not a CI's. */
  readonly live?: boolean;
  /** The time in milliseconds; replaced in tests. */
  readonly now?: () => number;
}

const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const FRAME_MS = 100;
const PLAIN_INTERVAL_MS = 10_000;

const SILENT_STEP: Step = { update() {}, done() {}, fail() {} };
const SILENT: Progress = { step: () => SILENT_STEP, log() {}, stop() {} };

/**
 * Progress of the steps that run at once: live lines with the elapsed time on a terminal, plain lines elsewhere (at the
 * start, every ten seconds, at the end), nothing with `json`.
 */
export function createProgress(options: ProgressOptions = {}): Progress {
  if (options.json) return SILENT;
  const stream = options.stream ?? process.stderr;
  const now = options.now ?? Date.now;
  const live = options.live ?? (stream.isTTY === true && process.env.TERM !== "dumb" && !process.env.CI);
  return live ? liveProgress(stream, now) : plainProgress(stream, now, options.plainIntervalMs ?? PLAIN_INTERVAL_MS);
}

/** Elapsed time for people: 0.4 s, 12 s, 4 min 05 s. */
export function formatElapsed(milliseconds: number): string {
  if (milliseconds < 9_950) return `${(milliseconds / 1000).toFixed(1)} s`;
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 60) return `${seconds} s`;
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
}

interface Running {
  readonly label: string;
  readonly startedAt: number;
  text: string;
  spokenAt: number;
}

function line(mark: string, label: string, text: string, elapsedMs: number): string {
  return `${mark} ${label}${text === "" ? "" : `: ${text}`} (${formatElapsed(elapsedMs)})`;
}

function plainProgress(stream: ProgressStream, now: () => number, intervalMs: number): Progress {
  const running = new Set<Running>();
  let timer: NodeJS.Timeout | undefined;
  const tick = () => {
    for (const step of running) {
      if (now() - step.spokenAt < intervalMs) continue;
      step.spokenAt = now();
      stream.write(`${line("·", step.label, step.text, now() - step.startedAt)}\n`);
    }
  };
  const end = (step: Running, mark: string, text: string) => {
    if (!running.delete(step)) return;
    if (running.size === 0) stop();
    stream.write(`${line(mark, step.label, text, now() - step.startedAt)}\n`);
  };
  const stop = () => {
    clearInterval(timer);
    timer = undefined;
  };
  return {
    step(label) {
      const step: Running = { label, startedAt: now(), spokenAt: now(), text: "" };
      running.add(step);
      stream.write(`· ${label}\n`);
      timer ??= setInterval(tick, Math.min(1000, intervalMs)).unref();
      return {
        update: (text) => {
          step.text = text;
        },
        done: (text = "") => end(step, "✓", text),
        fail: (text = "") => end(step, "✗", text),
      };
    },
    log: (text) => stream.write(`${text}\n`),
    stop() {
      running.clear();
      stop();
    },
  };
}

function liveProgress(stream: ProgressStream, now: () => number): Progress {
  const running = new Set<Running>();
  let drawn = 0;
  let frame = 0;
  let timer: NodeJS.Timeout | undefined;

  const cut = (text: string) => {
    const width = Math.max(20, (stream.columns ?? 80) - 1);
    return stripVTControlCharacters(text).length <= width ? text : `${text.slice(0, width - 1)}…`;
  };
  // One write per frame, and every line is cleared only behind its new text: nothing flickers.
  const draw = (permanent: readonly string[] = []) => {
    const mark = FRAMES[frame % FRAMES.length] ?? "·";
    const lines = [...running].map((step) => cut(line(mark, step.label, step.text, now() - step.startedAt)));
    const up = drawn === 0 ? "" : `\x1b[${drawn}A\r`;
    const body = [...permanent, ...lines].map((text) => `${text}\x1b[K\n`).join("");
    drawn = lines.length;
    if (up !== "" || body !== "") stream.write(`${up}${body}\x1b[J`);
  };
  const stopClock = () => {
    clearInterval(timer);
    timer = undefined;
  };
  const end = (step: Running, mark: string, text: string) => {
    if (!running.delete(step)) return;
    if (running.size === 0) stopClock();
    draw([line(mark, step.label, text, now() - step.startedAt)]);
  };
  return {
    step(label) {
      const step: Running = { label, startedAt: now(), spokenAt: now(), text: "" };
      running.add(step);
      draw();
      timer ??= setInterval(() => {
        frame += 1;
        draw();
      }, FRAME_MS).unref();
      return {
        update: (text) => {
          step.text = text;
        },
        done: (text = "") => end(step, "\x1b[32m✓\x1b[0m", text),
        fail: (text = "") => end(step, "\x1b[31m✗\x1b[0m", text),
      };
    },
    log: (text) => draw([text]),
    stop() {
      running.clear();
      stopClock();
      draw();
    },
  };
}
