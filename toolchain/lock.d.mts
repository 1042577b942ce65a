export interface LockHolder {
  /** 0 when the file does not say. */
  readonly pid: number;
  readonly text: string;
  readonly lives: boolean;
}

/** Who holds a lock file; undefined when there is none. */
export function lockHolder(file: string): LockHolder | undefined;

/**
 * Takes a lock that other processes respect, waiting while a living process holds it. A lock whose process is gone is
 * taken over. Returns the function that gives it back.
 */
export function acquireLock(file: string, options?: { onWait?: (pid: number) => void }): Promise<() => void>;
