/** `npm run bench [name...]`: every figure is a ratio between two things measured in this run, on this machine. */
import { boot } from "./boot.ts";
import { driftCheck } from "./drift-check.ts";
import { type Benchmark, judge, type Measurement, seconds } from "./measure.ts";
import { unchangedUp } from "./unchanged-up.ts";

const benchmarks: readonly Benchmark[] = [boot, unchangedUp, driftCheck];

const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const unknown = wanted.filter((name) => !benchmarks.some((benchmark) => benchmark.name === name));
if (unknown.length > 0) {
  console.error(`error: no benchmark is called ${unknown.join(", ")}`);
  console.error(`  next:  choose among ${benchmarks.map(({ name }) => name).join(", ")}`);
  process.exit(1);
}

const results: Measurement[] = [];
for (const benchmark of benchmarks) {
  if (wanted.length > 0 && !wanted.includes(benchmark.name)) continue;
  console.error(`${benchmark.name}: ${benchmark.title}`);
  const result = await benchmark.run((line) => console.error(`  ${line}`));
  results.push(result);
  if (!process.argv.includes("--json")) print(result);
}
if (process.argv.includes("--json")) console.log(JSON.stringify(results, null, 2));

function print({ name, ours, compared, notes }: Measurement): void {
  console.log(`${name}: ${seconds(ours)}`);
  for (const comparison of compared) {
    const { met, figure } = judge(ours, comparison);
    console.log(`  ${met ? "✓" : "✗"} ${comparison.with}: ${seconds(comparison.theirs)}; ${figure}`);
  }
  for (const note of notes) console.log(`  ${note}`);
}
