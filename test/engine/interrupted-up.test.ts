/** `up` that is killed, doubled or fed a foreign folder: real engine, real servers. */
import type { ChildProcess } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { CommandHome } from "../support/command.ts";

const ROUNDS = 4;
const KILLS_A_ROUND = 5;
/** Milliseconds: a first `up` takes about as long, so a kill may fall on any of its steps. */
const LONGEST = 9_000;

/** Numbers from 0 to 1 that a seed repeats (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const seed = Number(process.env.ALFABRAVO_SEED ?? Date.now() % 1_000_000);

/** Starts `up` in a process group of its own and kills the whole group after so many milliseconds. */
async function killedUp(home: CommandHome, afterMillis: number): Promise<void> {
  let child: ChildProcess | undefined;
  const ended = home.outcome(["up", "--skip-verify"], {
    detached: true,
    onStart: (started) => {
      child = started;
    },
  });
  await Promise.race([delay(afterMillis), ended]);
  if (child?.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGKILL");
  await ended;
}

for (let round = 0; round < ROUNDS; round += 1) {
  test(`O7: killed ${KILLS_A_ROUND} times at random moments, then up converges and verifies (round ${round + 1}, ALFABRAVO_SEED=${seed})`, async () => {
    const random = randomFrom(seed + round);
    await using home = await CommandHome.make();
    const moments: number[] = [];
    for (let kill = 0; kill < KILLS_A_ROUND; kill += 1) {
      const moment = Math.round(random() * LONGEST);
      moments.push(moment);
      await killedUp(home, moment);
    }
    const up = await home.outcome(["up"]);
    expect(up, `killed after ${moments.join(", ")} ms\n${up.stdout}\n${up.stderr}`).toMatchObject({ code: 0 });
    expect(await home.outcome(["drift"])).toMatchObject({ code: 0 });
  });
}

test("interrupted with Ctrl-C, up stops in good order and the next one goes on", async () => {
  await using home = await CommandHome.make();
  let child: ChildProcess | undefined;
  const interrupted = home.outcome(["up"], {
    onStart: (started) => {
      child = started;
    },
  });
  await delay(4_000);
  child?.kill("SIGINT");
  expect((await interrupted).code).not.toBe(0);
  const up = await home.outcome(["up"]);
  expect(up, up.stderr).toMatchObject({ code: 0 });
});

test("two at once: one builds the cluster, the other says who is at it and changes nothing", async () => {
  await using home = await CommandHome.make();
  const both = await Promise.all([home.outcome(["up"]), home.outcome(["up"])]);
  const codes = both.map(({ code }) => code).sort();
  expect(codes, both.map(({ stderr }) => stderr).join("\n---\n")).toEqual([0, 1]);
  const refused = both.find(({ code }) => code === 1);
  expect(refused?.stderr).toMatch(/being changed by another|locked by/);
  expect(await home.outcome(["verify"])).toMatchObject({ code: 0 });
});
