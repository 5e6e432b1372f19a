import type { HttpGenerator, LoadAnswer, Traffic } from '../load/question.ts'
import type { Goal, Metric, Sample } from '../record/record.ts'
import type { BenchService, Endpoint, StandardService } from '../services.ts'
import type { RunningTarget } from '../targets/target.ts'

export interface Scenario {
  readonly name: string
  readonly group: string
  readonly title: string
  readonly about: string
  /** The first is the one that counts. */
  readonly metrics: readonly Metric[]
  readonly goals?: readonly Goal[]
  /** In place of the standard services, by a target that is started for each run. */
  readonly services?: (backends: Backends) => readonly BenchService[]
  /** Those of them to wait for; all without it. */
  readonly awaited?: readonly string[]
  /** True when every run needs a target that has just been started. */
  readonly fresh?: boolean
  /** No more rounds than this: each takes long. */
  readonly mostRounds?: number
  /** Why there is nothing to measure with a target, '' when there is. */
  whyNot?(target: { readonly kind: string }, running?: RunningTarget): string
  /** Called once before the rounds, with every target that takes part; notes for the report. */
  prepare?(runs: readonly Run[]): Promise<Prepared>
  /** Rough length of a run in seconds, for the estimate of time left. */
  expectedSeconds(window: number): number
  run(run: Run, prepared: Prepared): Promise<Sample>
}

/** What was found out before the rounds. */
export interface Prepared {
  readonly notes: readonly string[]
  readonly perSecond?: number
}

/** The endpoints of the standard services, as one node sees them. */
export interface Backends {
  endpoints(service: StandardService): readonly Endpoint[]
  /** Ports on which nobody listens, so many of them. */
  refusing(count: number): readonly Endpoint[]
  /** Takes no connection and does not refuse either. */
  silent: Endpoint
}

/** One run against one running target. */
export interface Run {
  readonly target: { readonly name: string; readonly kind: string }
  readonly running: RunningTarget
  readonly backends: Backends
  /** Length of the measured window. */
  readonly seconds: number
  readonly generator: HttpGenerator
  /** Where clients dial it. Throws for a service that the target doesn't have. */
  to(service: string): Endpoint
  /** Has the generator do it. Rejects with the reason when it fails. */
  load(traffic: Traffic, seconds?: number): Promise<LoadAnswer>
}


