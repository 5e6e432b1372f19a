import type { TargetKind } from '../record/record.ts'
import type { BenchService, Endpoint } from '../services.ts'
import type { Lane, Topology } from '../topology/topology.ts'

/** A way from the client to the backends that can be measured. */
export interface Target {
  readonly name: string
  readonly title: string
  readonly kind: TargetKind
  /**
   * Scenarios and groups that it is measured in unless it is asked for by name, for a
   * variant that elsewhere tells no more than its sibling; all of them without it.
   */
  readonly mainlyFor?: readonly string[]
  /** Why it can't be measured here, such as that it isn't installed; '' when it can. */
  unsupportedReason(topology: Pick<Topology, 'kind'>): Promise<string>
  /**
   * Starts it on its node in front of `services` and waits until clients are served by all
   * of `awaited` (by name; all of them without it).
   * Rejects with the reason when it doesn't serve, or when `signal` says that none waits
   * for it any more.
   */
  start(order: Order): Promise<RunningTarget>
}

export interface Order {
  readonly services: readonly BenchService[]
  readonly awaited?: readonly string[]
  readonly lane: Lane
  readonly client: Topology['client']
  /** It is started so that another process can take its place, and is to be gone a second later. */
  readonly isToBeReplaced?: true
  /** A directory of the target's own is made under this. */
  readonly workDir: string
  readonly signal: AbortSignal
}

export interface RunningTarget {
  /** Where clients dial a service; undefined for one that this target can't lead to. */
  addressOf(service: string): Endpoint | undefined
  /** The processes in the middle, with their children; none for the direct path. */
  pids(): readonly number[]
  /** How it was started, and with which configuration file; '' for none. */
  readonly command: string
  readonly config: string
  /** Of cgroup v2: clients have to be in it. */
  readonly cgroup?: string
  /** Changes the endpoints of a service while it serves; missing where it can't. */
  setEndpoints?(service: string, endpoints: readonly Endpoint[]): Promise<void>
  /**
   * Has another process take its place while it serves; gives the milliseconds until the one
   * before was gone. Missing where it was not started for that.
   */
  replace?(): Promise<number>
  /** That it ended, or the last line of what it has written; '' when all is quiet. */
  complaint(): string
  stop(): Promise<void>
}
