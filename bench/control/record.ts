import {
  lower,
  type Metric,
  type Outcome,
  type Sample,
  type ScenarioRecord,
} from '../record/record.ts'

/** The name of Usher as a process, the target of most that is measured here. */
export const usherName = 'usher'

/** Is told what is going on. */
export type Say = (what: string) => void

/** Takes scenarios as they are done. */
export type Take = (scenarios: readonly ScenarioRecord[]) => void

/** How long something that was done many times took. */
export const percentiles: readonly Metric[] = [
  lower('p99', '99 of 100', 'ms', 1),
  lower('p50', 'Median', 'ms', 1),
  lower('max', 'Longest', 'ms', 1),
]

/** No figures when there is nothing: then the goal is not measured, rather than reached. */
export const percentilesOf = (values: readonly number[]): Sample['figures'] => {
  const [p50, p99, max] = [0.5, 0.99, 1].map(share => quantile(values, share))
  return p50 === undefined || p99 === undefined || max === undefined
    ? {}
    : { p50, p99, max }
}

/** The value below which a share of all lie; undefined when there are none. */
export const quantile = (
  values: readonly number[],
  share: number,
): number | undefined => {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
}

export type Told = Pick<ScenarioRecord, 'name' | 'group' | 'title' | 'metrics'> & {
  /** What the target is held to at most, by the metric's name. */
  readonly limits?: Readonly<Record<string, number>>
} & Partial<ScenarioRecord>

/** A scenario of one target, with figures of each round. */
export const scenarioOf = (
  { limits = {}, ...own }: Told,
  rounds: readonly Sample['figures'][] = [],
  target = usherName,
): ScenarioRecord => ({
  about: '',
  notes: [],
  leftOut: [],
  goals: Object.entries(limits).map(([metric, atMost]) => ({ target, metric, atMost })),
  outcomes: roundsOf(target, rounds),
  ...own,
})

export const roundsOf = (
  target: string,
  rounds: readonly Sample['figures'][],
): readonly Outcome[] =>
  rounds.map((figures, round) => ({ target, round, sample: { figures, errors: {} } }))

/** `12,345`. */
export const count = (n: number): string => n.toLocaleString('en-US')
