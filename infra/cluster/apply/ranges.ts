import type { MongoClient } from "mongodb";
import { readableBson } from "../../model/bson-text.ts";
import type { CollectionState, ZoneRange } from "../../model/state.ts";
import { boundForServer } from "../../model/zone-range.ts";
import { planRanges, type RangeStep } from "../../plan/range-steps.ts";
import { mapConcurrently } from "../concurrency.ts";
import type { Operation } from "../context.ts";
import { told } from "../errors.ts";
import { admin, readConfig, WRITE_MILLIS } from "../metadata.ts";
import { waitFor } from "../wait.ts";

/** The config servers take changes of ranges one after another; a few under way hide the way to them and their majority. */
const AT_A_TIME = 8;

/** Carries out the planned changes of zone ranges of one namespace. */
export async function applyRanges(
  op: Operation,
  client: MongoClient,
  desired: CollectionState,
  observed: Pick<CollectionState, "ranges" | "key" | "balancing">,
): Promise<void> {
  const { namespace, key } = desired;
  const { steps } = planRanges({
    namespace,
    key,
    desired: desired.ranges,
    observed: observed.ranges,
    sharded: observed.key.length > 0,
    balancing: { observed: observed.balancing, desired: desired.balancing },
  });
  if (steps.length === 0) return;
  op.progress(`${namespace}: ${steps.length} change${steps.length === 1 ? "" : "s"} of zone ranges`);
  for (const batch of batches(steps)) {
    op.signal.throwIfAborted();
    await mapConcurrently(batch, AT_A_TIME, (step) => carryOut(op, client, desired, step));
  }
}

/** Only assignments that stand alone may run side by side: any other step waits for those before it. */
function batches(steps: readonly RangeStep[]): RangeStep[][] {
  const list: RangeStep[][] = [];
  let replacing = false;
  for (const step of steps) {
    replacing ||= step.kind !== "assign";
    const last = list.at(-1);
    if (last && !replacing && step.kind === "assign") last.push(step);
    else list.push([step]);
  }
  return list;
}

async function carryOut(op: Operation, client: MongoClient, state: CollectionState, step: RangeStep): Promise<void> {
  const { namespace } = state;
  switch (step.kind) {
    case "assign":
    case "remove": {
      const { zone, min, max } = step.range;
      await told(
        `${step.kind} the zone range ${rangeText(step.range)}`,
        namespace,
        () =>
          admin(client, {
            updateZoneKeyRange: namespace,
            min: boundForServer(state.key, min),
            max: boundForServer(state.key, max),
            zone: step.kind === "assign" ? zone : null,
            maxTimeMS: WRITE_MILLIS,
          }),
        "a range needs a shard that carries its zone, and must not overlap another; enableSharding alone cannot change ranges before 8.0.24",
      );
      return;
    }
    case "pauseBalancing":
      op.progress(`${namespace}: pausing its balancing while ranges change`);
      await setBalancing(client, namespace, false);
      await waitFor(
        `migrations of ${namespace} to end`,
        async () => {
          const running = await readConfig(client, "migrations", { ns: namespace });
          return running.length === 0 ? { done: true, value: undefined } : { done: false, seen: running.length };
        },
        {
          deadlineMillis: 10 * WRITE_MILLIS,
          intervalMillis: 250,
          signal: op.signal,
          describe: (count) => `${count} under way`,
        },
      );
      return;
    case "resumeBalancing":
      await setBalancing(client, namespace, true);
      return;
  }
}

/** Whether the balancer may move a sharded collection's chunks. What `sh.enableBalancing` and `sh.disableBalancing` do. */
export async function setBalancing(client: MongoClient, namespace: string, on: boolean): Promise<void> {
  await told(`switch the balancing of ${namespace} ${on ? "on" : "off"}`, namespace, () =>
    client
      .db("config")
      .collection("collections")
      .updateOne({ _id: namespace as never }, on ? { $unset: { noBalance: "" } } : { $set: { noBalance: true } }, {
        writeConcern: { w: "majority", wtimeoutMS: WRITE_MILLIS },
        maxTimeMS: WRITE_MILLIS,
      }),
  );
}

function rangeText({ zone, min, max }: ZoneRange): string {
  return `from ${readableBson(min)} to ${readableBson(max)} in zone ${zone}`;
}
