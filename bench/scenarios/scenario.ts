import type { BackendName } from '../backends/backend.ts'
import type { CpuSeconds, Measured, Pids } from '../load/measure.ts'

/** What one run is given. */
export interface Run {
  /** Where the target listens on 127.0.0.1 for the scenario's backend. */
  readonly port: number
  /** Length of the measured window. */
  readonly seconds: number
  readonly pids: Pids
}

/** What one run has found. */
export interface Sample {
  /** The figure, in the scenario's unit. */
  readonly value: number
  /** The proxy's CPU time per piece of work, in the scenario's unit of cost. */
  readonly cost?: number
  /** Cores kept busy by each process within the window. */
  readonly cores?: CpuSeconds
  /** A second figure in the same unit; the scenario's `aside` says which. */
  readonly aside?: number
  readonly errors: Readonly<Record<string, number>>
}

export type Goal =
  | { readonly kind: 'ratio-to-pipe'; readonly atLeast: number }
  | { readonly kind: 'value'; readonly atMost: number }

export interface Scenario {
  /** As typed after `--only`. */
  readonly name: string
  readonly title: string
  readonly unit: string
  /** Decimals worth printing. */
  readonly decimals: number
  readonly costUnit?: string
  /** What a sample's `aside` is, to be read after its figure. */
  readonly aside?: string
  readonly backend: BackendName
  readonly goal: Goal
  /** True when there is nothing to measure without a proxy. */
  readonly needsProxy?: boolean
  /** True when every run needs a proxy that has just been started. */
  readonly freshProxy?: boolean
  /** Rough length of a run in seconds, for the estimate of time left. */
  expectedSeconds(window: number): number
  run(run: Run): Promise<Sample>
}

/** The goal of every scenario that measures a speed. */
export const speedGoal: Goal = { kind: 'ratio-to-pipe', atLeast: 0.9 }

/** The settling time before a window, and what starting and stopping takes. */
export const windowAndSettling = (window: number): number => window + 0.25

/**
 * Turns a count within a window into a rate and a cost.
 * @param perUnit - how many counted things make one of the rate's unit
 * @param cost - how many counted things the cost is for, and its units in a CPU second
 */
export const rateSample = (
  { done, seconds, cpu, errors }: Measured,
  perUnit: number,
  cost: { readonly of: number; readonly unitsPerSecond: number },
): Sample => {
  const share = (used: number | undefined) =>
    used === undefined ? undefined : used / seconds
  const spent = cpu.proxy
  return {
    value: done / seconds / perUnit,
    ...(spent === undefined || done === 0
      ? {}
      : { cost: (spent * cost.unitsPerSecond) / (done / cost.of) }),
    cores: {
      generator: share(cpu.generator),
      backend: share(cpu.backend),
      proxy: share(cpu.proxy),
      others: share(cpu.others),
    },
    errors,
  }
}

/** Microseconds of CPU time for one piece of work. */
export const microsecondsEach = { of: 1, unitsPerSecond: 1e6 } as const

/** Milliseconds of CPU time for 10^9 bytes. */
export const millisecondsPerGigabyte = { of: 1e9, unitsPerSecond: 1e3 } as const

export const bytesPerGigabit = 1e9 / 8
