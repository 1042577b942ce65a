/** Resources that live inside a running cluster: what they have in common. */
import { describeError } from "../cluster/errors.ts";
import type { Change } from "../plan/change.ts";
import { fieldDiffs } from "./changes.ts";
import { reachableField } from "./connection-fields.ts";
import { valueDiff } from "./diff.ts";
import type { Fields } from "./fields.ts";
import type { FieldDiff, Recorded, Resource, ResourceOperation } from "./resource.ts";

/** Whether the thing could be looked at the last time. */
export interface Reachable {
  readonly reachable: boolean;
}

export interface LiveResource<Inputs extends object, Extra extends object> {
  readonly name: string;
  readonly description: string;
  readonly inputs: Fields;
  /** Outputs beyond the inputs. */
  readonly extra?: Fields;
  rules?: Resource<Inputs, Inputs & Extra & Reachable>["rules"];
  preflight?: Resource<Inputs, Inputs & Extra & Reachable>["preflight"];
  /** The planner's comparison. */
  changes(desired: Inputs, observed: Inputs & Extra): readonly Change[];
  /** Fields outside the planner's view that are compared as a whole. */
  readonly plain: readonly (keyof Inputs & string)[];
  identify(inputs: Inputs): string;
  /** What is known of `Extra` before anything is done. */
  known?(inputs: Partial<Inputs>, previous: (Inputs & Extra) | undefined): Partial<Extra>;
  /** Makes it so; returns what was seen afterwards. */
  apply(op: ResourceOperation, inputs: Inputs, previous: (Inputs & Extra) | undefined): Promise<Inputs & Extra>;
  /** Undefined when it is gone. */
  observe(op: ResourceOperation, state: Inputs & Extra, declared: Inputs): Promise<(Inputs & Extra) | undefined>;
  delete(op: ResourceOperation, state: Inputs & Extra): Promise<void>;
}

/**
 * A cluster that is down is no reason for a refresh to fail, since the next update may be the one that brings it up
 * again. What cannot be looked at keeps its state, says so, and counts as a difference.
 */
export function live<Inputs extends object, Extra extends object>(
  resource: LiveResource<Inputs, Extra>,
): Resource<Inputs, Inputs & Extra & Reachable> {
  type State = Inputs & Extra & Reachable;
  const { name, description, inputs } = resource;
  return {
    name,
    description,
    inputs,
    outputs: { ...inputs, ...resource.extra, reachable: reachableField },
    ...(resource.rules ? { rules: resource.rules } : {}),
    ...(resource.preflight ? { preflight: resource.preflight } : {}),

    diff(state, news): readonly FieldDiff[] {
      return [
        ...fieldDiffs(resource.changes(news, state), news, state),
        ...resource.plain.flatMap((field) => valueDiff([field], state[field], news[field])),
        ...valueDiff(["reachable"], state.reachable, true),
      ];
    },

    preview(known, state) {
      return { ...known, ...resource.known?.(known, state), reachable: true } as Partial<State>;
    },

    async converge(op, news, previous): Promise<Recorded<State>> {
      const seen = await resource.apply(op, news, previous);
      return { id: resource.identify(news), state: { ...seen, reachable: true } };
    },

    async read(op, state, declared) {
      try {
        const seen = await resource.observe(op, state, declared);
        return seen && { ...seen, reachable: true };
      } catch (error) {
        op.signal.throwIfAborted();
        op.warn(`could not be looked at, and keeps its last known state: ${describeError(error)}`);
        return { ...state, reachable: false };
      }
    },

    delete: (op, state) => resource.delete(op, state),
  };
}
