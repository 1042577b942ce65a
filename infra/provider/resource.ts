import type { Operation } from "../cluster/context.ts";
import type { Problem } from "../model/problem.ts";
import type { Fields } from "./fields.ts";
import type { Path } from "./properties.ts";

/** An operation on behalf of a resource. */
export interface ResourceOperation extends Operation {
  /** Called with one line that people must not miss. Never with a secret. */
  readonly warn: (text: string) => void;
}

/** One field that differs between what the state says and what is declared now. */
export interface FieldDiff {
  readonly path: Path;
  readonly kind: "add" | "delete" | "update";
  /** The resource has to be replaced for it. */
  readonly replace?: boolean;
}

/** What a resource is to the engine after it was made, changed or read. */
export interface Recorded<State> {
  readonly id: string;
  readonly state: State;
}

/**
 * One kind of thing that the provider manages.
 *
 * `Inputs` is what a program declares, `State` what lies in Pulumi's state; both are plain data. Creating and updating
 * are the same convergent routine: look, compare, apply. So a create that finds the work of a killed one takes it over.
 */
export interface Resource<Inputs extends object, State extends object> {
  /** `alfabravo:index:<name>` is its type. */
  readonly name: string;
  readonly description: string;
  readonly inputs: Fields;
  readonly outputs: Fields;

  /** Rules beyond the form of each field. Fields that are not known yet are absent. */
  rules?(inputs: Partial<Inputs>): readonly Problem[];

  /**
   * What stands in the way in the cluster as it is: asked in previews too, before anything is touched, whenever the
   * declaration is new and all of it is known. A cluster that cannot be reached has nothing to say here.
   */
  preflight?(op: ResourceOperation, inputs: Inputs): Promise<readonly Problem[]>;

  /** What would have to change, by the planner's own comparison. Fields that are not known yet have their old value. */
  diff(state: State, inputs: Inputs): readonly FieldDiff[] | Promise<readonly FieldDiff[]>;

  /** What is known of the state before anything is done. */
  preview(inputs: Partial<Inputs>, state: State | undefined): Partial<State>;

  /** @param previous the state before, undefined when it is made anew */
  converge(op: ResourceOperation, inputs: Inputs, previous: State | undefined): Promise<Recorded<State>>;

  /**
   * Undefined when the thing is gone.
   * @param inputs what was declared last
   */
  read(op: ResourceOperation, state: State, inputs: Inputs): Promise<State | undefined>;

  delete(op: ResourceOperation, state: State): Promise<void>;
}

/** A resource whose types only its own module knows; values reach it checked. */
export type AnyResource = Resource<Record<string, unknown>, Record<string, unknown>>;

/** Forgets the types of a resource, so that the server can hold all of them in one table. */
export function erased<Inputs extends object, State extends object>(resource: Resource<Inputs, State>): AnyResource {
  return resource as unknown as AnyResource;
}
