import type { Connections } from "./connections.ts";

/** What every effect on a cluster needs: connections that live as long as the operation, a voice, and a way to be stopped. */
export interface Operation {
  readonly connections: Connections;
  /** Called with one line for people whenever there is news. Never with a secret. */
  readonly progress: (text: string) => void;
  /** Aborts waits between steps; what is half-way then converges on the next run. */
  readonly signal: AbortSignal;
}
