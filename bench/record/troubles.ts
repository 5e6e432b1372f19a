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

const parties = ['generator', 'backend', 'busiestBackend', 'proxy', 'others'] as const

/** Median over the rounds of the cores that each kept busy. */
export const coresOf = (scenario: ScenarioRecord, target: string): Cores => {
  const samples = samplesOf(scenario, target)
  const cores: { -readonly [Who in keyof Cores]: number } = {}
  for (const who of parties) {
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
  const cores = coresOf(scenario, target)
  const { others = 0 } = cores
  return [
    ...bottleneckOf('the generator', cores.generator, cores.proxy),
    ...bottleneckOf('a backend', cores.busiestBackend, cores.proxy),
    ...latenessOf(scenario, target),
    ...(others > quiet ? [`other programs used ${coreText(others)} cores`] : []),
  ]
}

const bottleneckOf = (who: string, busy = 0, proxy?: number): readonly string[] => {
  if (busy <= saturated || (proxy ?? 0) >= unsaturated) return []
  const rest = proxy === undefined ? '' : `, the proxy ${coreText(proxy)}`
  return [`${who} was the bottleneck (${coreText(busy)} of a core${rest})`]
}

/** A request that is sent late by the generator is timed from when it was due all the same. */
const latenessOf = (scenario: ScenarioRecord, target: string): readonly string[] => {
  const [late = 0, p99 = Infinity] = ['late p99', 'p99'].map(name => {
    const figures = samplesOf(scenario, target).flatMap(s => s.figures[name] ?? [])
    return spreadOf(figures)?.median
  })
  if (late * 2 <= p99) return []
  return [
    `half of its p99 or more may be the generator's, which was ${late.toFixed(2)} ms late itself`,
  ]
}
