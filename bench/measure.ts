/** What a benchmark yields: our time, the times it is compared with, measured in the same run, and the goal. */
export interface Measurement {
  readonly name: string;
  /** Milliseconds. */
  readonly ours: number;
  readonly compared: readonly Comparison[];
  /** Facts beside the times, such as memory. */
  readonly notes: readonly string[];
}

export interface Comparison {
  readonly with: string;
  /** Milliseconds. */
  readonly theirs: number;
  readonly goal: Goal;
}

/** `ours / theirs` at most `ratio`, `theirs / ours` at least `factor`, or `ours - theirs` at most `millis`. */
export type Goal =
  | { readonly kind: "ratio"; readonly atMost: number }
  | { readonly kind: "factor"; readonly atLeast: number }
  | { readonly kind: "difference"; readonly atMostMillis: number };

export interface Benchmark {
  readonly name: string;
  readonly title: string;
  readonly run: (log: (line: string) => void) => Promise<Measurement>;
}

/** Milliseconds that `work` takes. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** The median of several runs in milliseconds: one slow run on a busy machine does not decide. */
export async function medianOf(runs: number, work: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let run = 0; run < runs; run += 1) times.push(await timed(work));
  return median(times);
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** Whether the goal is met, and the figure that decides it, as text. */
export function judge(ours: number, { theirs, goal }: Comparison): { met: boolean; figure: string } {
  switch (goal.kind) {
    case "ratio":
      return {
        met: ours / theirs <= goal.atMost,
        figure: `${(ours / theirs).toFixed(2)} of it (goal: at most ${goal.atMost})`,
      };
    case "factor":
      return {
        met: theirs / ours >= goal.atLeast,
        figure: `${(theirs / ours).toFixed(1)} times faster (goal: at least ${goal.atLeast})`,
      };
    case "difference":
      return {
        met: ours - theirs <= goal.atMostMillis,
        figure: `${Math.round(ours - theirs)} ms more (goal: at most ${goal.atMostMillis})`,
      };
  }
}

export function seconds(millis: number): string {
  return millis < 1000 ? `${millis.toFixed(0)} ms` : `${(millis / 1000).toFixed(2)} s`;
}
