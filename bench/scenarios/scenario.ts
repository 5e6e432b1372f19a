import type { HttpGenerator, LoadAnswer, Traffic } from '../load/question.ts'
import type { Goal, Metric, Sample, TargetKind } from '../record/record.ts'
import type { BenchService, Endpoint, StandardService } from '../services.ts'
import type { RunningTarget, Target } from '../targets/target.ts'
import type { Lane } from '../topology/topology.ts'

/** One thing to measure about every target. */
export interface Scenario {
  /** As typed after `--only`; so is its group. */
  readonly name: string
  readonly group: Group
  readonly title: string
  readonly about: string
  /** The first is the one that counts. */
  readonly metrics: readonly Metric[]
  readonly goals?: readonly Goal[]
  /** Part of `--quick`. */
  readonly quick?: true
  /** Asks HTTP servers only, so that any address that serves HTTP can take part. */
  readonly httpOnly?: true
  /** The only targets that have to do with it; all without it. */
  readonly targets?: readonly string[]
  /** Why nothing of it can be measured here, such as a server that isn't installed; or ''. */
  readonly unsupportedReason?: () => string
  /** In place of the standard services. */
  readonly services?: (backends: Backends) => readonly BenchService[]
  /** Which of those to wait for until they serve; all without it. */
  readonly awaited?: readonly string[]
  /** Every run needs a target that has just been started. */
  readonly fresh?: true
  /** Targets are started so that another process can take their place. */
  readonly replaces?: true
  /** Rounds, when each takes too long for as many as the others have. */
  readonly mostRounds?: number
  /** Why there is nothing to measure with such a target; '' when there is. */
  readonly leavesOut?: (target: Candidate) => string
  /** Called once before the rounds. */
  readonly prepare?: (runsOf: RunsOf) => Promise<Prepared>
  /** Servers of its own for each run, which ends them; `fresh` then. */
  readonly site?: (lane: Lane, workDir: string) => Promise<Site>
  /** Rough length of a run in seconds, for the estimate of the time left. */
  readonly expectedSeconds: (window: number) => number
  /** Not called where there is a site. */
  readonly run: (run: Run, prepared: Prepared) => Promise<Sample>
}

export const groups = {
  requests: 'Requests on kept connections',
  connections: 'New connections',
  bulk: 'Bulk',
  latency: 'Latency at a fixed rate',
  mixed: 'Small traffic beside bulk',
  idle: 'Idle connections',
  udp: 'UDP',
  failure: 'When backends fail or change',
  upgrade: 'When the proxy itself is replaced',
  first: 'The first connection to a Service',
  sidecar: 'Beside an application, when its servers fail or change',
} as const

export type Group = keyof typeof groups

/** Whether a target tells something in that scenario that its siblings don't. */
export const isMainlyFor = (
  target: Pick<Target, 'name' | 'mainlyFor'>,
  { name, group, targets }: Pick<Scenario, 'name' | 'group' | 'targets'>,
): boolean => {
  if (targets !== undefined) return targets.includes(target.name)
  const { mainlyFor } = target
  return mainlyFor === undefined || mainlyFor.includes(name) || mainlyFor.includes(group)
}

/** What a run has started on the target's node, besides the target. */
export interface Site {
  readonly services: readonly BenchService[]
  /** As in a scenario. */
  readonly awaited?: readonly string[]
  /** In place of the scenario's. */
  run(run: Run): Promise<Sample>
  stop(): Promise<void>
}

/** For scenarios that need to start a target, to know its processes, or to change it. */
export const notGivenReason = ({ kind }: Candidate): string =>
  kind === 'given' ? 'it was not started by the bench' : ''

/** What is known of a target before it is started. */
export interface Candidate {
  readonly name: string
  readonly kind: TargetKind
}

/** Runs of those targets that are wanted and serve, be they left out of the rounds or not. */
export type RunsOf = (wanted: (target: Candidate) => boolean) => Promise<readonly Run[]>

/** What was found out before the rounds. */
export interface Prepared {
  /** For the report. */
  readonly notes: readonly string[]
  readonly value?: number
}

/** The endpoints of the standard services, as one node sees them. */
export interface Backends {
  readonly endpoints: (service: StandardService) => readonly Endpoint[]
  /** Addresses that refuse, so many of them. */
  readonly refusing: (count: number) => readonly Endpoint[]
  /** Takes no connection and does not refuse either. */
  readonly silent: Endpoint
}

/** One run against one running target. */
export interface Run {
  readonly target: Candidate
  readonly running: RunningTarget
  readonly backends: Backends
  /** Where the scenario has one. */
  readonly site?: Site
  /** Length of the measured window. */
  readonly seconds: number
  readonly generator: HttpGenerator
  /** Where clients dial it. Throws for a service that the target doesn't have. */
  readonly to: (service: string) => Endpoint
  /** Has the generator do it. Rejects with the reason when it fails. */
  readonly load: (traffic: Traffic, seconds?: number) => Promise<LoadAnswer>
}
