import { coreText } from './words.ts'
import { type Cores, type Sample, type ScenarioRecord, warmUpRound } from './record.ts'
import { spreadOf } from './statistics.ts'

/** Everything that went wrong with a target's connections, with how often; warm-up included. */
export const errorsOf = (
  scenario: ScenarioRecord,
  target: string,
): ReadonlyMap<string, number> => {
  const errors = new Map<string, number>()
  for (const outcome of scenario.outcomes)
    if (outcome.target === target && 'sample' in outcome)
      for (const [name, times] of Object.entries(outcome.sample.errors))
        errors.set(name, (errors.get(name) ?? 0) + times)
  return errors
}

/** Why runs of a target gave no sample, with how often; warm-up included. */
export const failuresOf = (
  scenario: ScenarioRecord,
  target: string,
): ReadonlyMap<string, number> => {
  const failures = new Map<string, number>()
  for (const outcome of scenario.outcomes)
    if (outcome.target === target && 'failure' in outcome)
      failures.set(outcome.failure, (failures.get(outcome.failure) ?? 0) + 1)
  return failures
}

/** Median over the rounds of the cores that each kept busy. */
export const coresOf = (scenario: ScenarioRecord, target: string): Cores => {
  const samples = samplesOf(scenario, target)
  const cores: { -readonly [Who in keyof Cores]: number } = {}
  for (const who of ['generator', 'backend', 'proxy', 'others'] as const) {
    const spread = spreadOf(samples.flatMap(sample => sample.cores?.[who] ?? []))
    if (spread !== undefined) cores[who] = spread.median
  }
  return cores
}

const samplesOf = (scenario: ScenarioRecord, target: string): readonly Sample[] =>
  scenario.outcomes.flatMap(outcome =>
    outcome.target === target && outcome.round !== warmUpRound && 'sample' in outcome
      ? [outcome.sample]
      : [],
  )

/** Shares of a core from which, and up to which, a process counts as busy and as not. */
const saturated = 0.9
const unsaturated = 0.8
/** Cores that programs outside the bench may use before a figure is in doubt. */
const quiet = 0.1

/** Why a target's figures may not be its own, in words; empty when nothing speaks against them. */
export const doubtsOf = (scenario: ScenarioRecord, target: string): readonly string[] => {
  const { generator = 0, proxy, others = 0 } = coresOf(scenario, target)
  const doubts: string[] = []
  if (generator > saturated && (proxy ?? 0) < unsaturated) {
    const rest = proxy === undefined ? '' : `, the proxy ${coreText(proxy)}`
    doubts.push(
      `the generator was the bottleneck (${coreText(generator)} of a core${rest})`,
    )
  }
  if (others > quiet) doubts.push(`other programs used ${coreText(others)} cores`)
  return doubts
}
