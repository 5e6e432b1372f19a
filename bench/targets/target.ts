import type { Ports } from '../backends/backend.ts'

/** A way from the client to the backends that can be measured. */
export interface Target {
  readonly name: string
  /**
   * Starts it in front of `backends`. Rejects with the reason when it doesn't serve, or
   * when `signal` says that nobody waits for it any more.
   */
  start(backends: Ports, signal: AbortSignal): Promise<RunningTarget>
}

export interface RunningTarget {
  /** Where clients find each backend through this target. */
  readonly ports: Ports
  /** The process in the middle; missing for the direct path. */
  readonly pid?: number
  /** That it ended, or the last line of what it has written; '' when all is quiet. */
  complaint(): string
  stop(): Promise<void>
}
