/**
 * Everything that one run of a bench has found: plain data, written as JSON, and all that
 * reports are made of. Both benches, of the data path and of the control plane, fill it.
 */
export interface RunRecord {
  /** Changes when a reader of older files would go wrong. */
  readonly format: 'usher-bench/1'
  readonly title: string
  /** ISO 8601. */
  readonly startedAt: string
  readonly seconds: number
  /** False when it was interrupted: what is there was measured, the rest was not. */
  readonly complete: boolean
  /** The command line that repeats it. */
  readonly command: string
  readonly machine: Machine
  /** Programs by name, with their versions. */
  readonly versions: Readonly<Record<string, string>>
  /** How it was measured, each as a name and a value in words. */
  readonly setting: readonly (readonly [name: string, value: string])[]
  readonly targets: readonly TargetRecord[]
  /** Targets and parts of it that could not be measured here, and why. */
  readonly leftOut: readonly LeftOut[]
  /** Targets that the others are compared with, in the order of the columns. */
  readonly yardsticks: readonly string[]
  readonly scenarios: readonly ScenarioRecord[]
}

export interface LeftOut {
  readonly name: string
  readonly why: string
  /** It should have worked: it did not start, or it died. */
  readonly failed?: true
}

/** Which part a target plays, for its colour and its place in a report. */
export type TargetKind = 'direct' | 'floor' | 'usher' | 'peer' | 'given'

export interface TargetRecord {
  readonly name: string
  /** What it is, in a few words. */
  readonly title: string
  readonly kind: TargetKind
  /** How it was started; '' for the direct path. */
  readonly command: string
  /** Its configuration file, '' when it has none. */
  readonly config: string
}

export interface ScenarioRecord {
  readonly name: string
  /** Scenarios of one group stand together. */
  readonly group: string
  readonly title: string
  /** What the figure tells, in a sentence or two. */
  readonly about: string
  /** The first is the one that ratios are of and pictures show. */
  readonly metrics: readonly Metric[]
  /** What a reader has to know of this run of it, such as the rate that was offered. */
  readonly notes: readonly string[]
  readonly goals: readonly Goal[]
  readonly outcomes: readonly Outcome[]
  readonly leftOut: readonly LeftOut[]
}

export interface Metric {
  /** Key in `Sample.figures`. */
  readonly name: string
  readonly title: string
  readonly unit: string
  readonly better: 'higher' | 'lower'
  /** Decimals worth printing. */
  readonly decimals: number
}

/** What a target has to reach: a ratio to another's figure, or a figure. */
export interface Goal {
  readonly target: string
  readonly metric: string
  /** Missing when the figure itself counts. */
  readonly to?: string
  readonly atLeast?: number
  readonly atMost?: number
}

/** The round of runs that warm up: their figures don't count, their errors do. */
export const warmUpRound = -1

/** What became of one run. */
export type Outcome =
  | { readonly target: string; readonly round: number; readonly sample: Sample }
  | { readonly target: string; readonly round: number; readonly failure: string }

export interface Sample {
  /** By the metric's name. */
  readonly figures: Readonly<Record<string, number>>
  /** Cores kept busy within the window, by who did; missing where the system doesn't tell. */
  readonly cores?: Cores
  /** What went wrong, by errno code or in words, and how often. */
  readonly errors: Readonly<Record<string, number>>
}

export interface Cores {
  readonly generator?: number
  readonly backend?: number
  /** Of those the process that was busiest; each has one thread that works. */
  readonly busiestBackend?: number
  readonly proxy?: number
  /** Programs that are not of the bench. */
  readonly others?: number
}

/** What figures depend on. */
export interface Machine {
  readonly cpus: number
  readonly model: string
  readonly kernel: string
  readonly node: string
  readonly memoryBytes: number
}
