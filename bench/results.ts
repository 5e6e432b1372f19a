import type { Sample, Scenario } from './scenarios/scenario.ts'

/** The round of runs that warm up: their figures don't count, their errors do. */
export const warmUpRound = -1

/** What became of one run. */
export type Outcome =
  | { readonly target: string; readonly round: number; readonly sample: Sample }
  | { readonly target: string; readonly round: number; readonly failure: string }

/** One scenario's runs against every target, in the order in which they were made. */
export interface ScenarioResult {
  readonly scenario: Omit<Scenario, 'run' | 'expectedSeconds'>
  readonly outcomes: Outcome[]
}

export const samplesOf = (result: ScenarioResult, target: string): Sample[] =>
  result.outcomes.flatMap(outcome =>
    outcome.target === target && outcome.round !== warmUpRound && 'sample' in outcome
      ? [outcome.sample]
      : [],
  )

/** A target's figures indexed by round, with gaps where a run failed. */
export const valuesByRound = (
  result: ScenarioResult,
  target: string,
): (number | undefined)[] => {
  const values: (number | undefined)[] = []
  for (const outcome of result.outcomes) {
    if (outcome.target !== target || outcome.round === warmUpRound) continue
    values[outcome.round] = 'sample' in outcome ? outcome.sample.value : undefined
  }
  return values
}

/** Everything that went wrong with a target in a scenario, with how often. */
export const errorsOf = (
  result: ScenarioResult,
  target: string,
): ReadonlyMap<string, number> => {
  const errors = new Map<string, number>()
  const add = (name: string, times: number) =>
    errors.set(name, (errors.get(name) ?? 0) + times)
  for (const outcome of result.outcomes) {
    if (outcome.target !== target) continue
    if ('failure' in outcome) add(`run failed: ${outcome.failure}`, 1)
    else
      for (const [name, times] of Object.entries(outcome.sample.errors)) add(name, times)
  }
  return errors
}
