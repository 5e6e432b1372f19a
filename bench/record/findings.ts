import {
  type Comparison,
  comparisonOf,
  figuresOf,
  type Spread,
  spreadOf,
} from './compare.ts'
import {
  type Cores,
  type Goal,
  type Metric,
  type RunRecord,
  type Sample,
  type ScenarioRecord,
  warmUpRound,
} from './record.ts'

/** Stands where there is no figure. */
export const none = '-'

/**
 * A figure without its unit: `12,345`, `0.93`. What would be rounded to zero and isn't is
 * `<0.01`.
 */
export const formatFigure = (
  value: number | undefined,
  { decimals }: Pick<Metric, 'decimals'>,
): string => {
  if (value === undefined || !Number.isFinite(value)) return none
  const least = 10 ** -decimals
  if (value > 0 && value < least / 2) return `<${fixed(least, decimals)}`
  // Without the sign of what rounds to -0.
  return fixed(Math.abs(value) < least / 2 ? 0 : value, decimals)
}

/** `900..1,900`. */
export const spreadText = (
  spread: Spread | undefined,
  metric: Pick<Metric, 'decimals'>,
): string =>
  spread === undefined
    ? none
    : `${formatFigure(spread.min, metric)}..${formatFigure(spread.max, metric)}`

/**
 * `0.93`, `1.24`, `-` for nothing to compare; `even` when one lies within the spread, so
 * that rounds disagree on which was ahead. `0.93?` are rounds that agree, but are too few or
 * too far apart for that to be more than chance.
 */
export const ratioText = (comparison: Comparison | undefined): string => {
  if (comparison === undefined) return none
  const { median, min, max, rounds, verdict } = comparison
  if (rounds > 1 && min <= 1 && max >= 1) return 'even'
  if (verdict === 'even') return `${numberText(median)}?`
  const text = numberText(median)
  // It isn't even, so that is not what its figure shall say.
  return text === '1.00' ? median.toFixed(3) : text
}

/** `0.93 (0.90..0.97)`, `even (0.97..1.04)`, `0.80? (0.61..0.99)`, `0.93?`, `-`. */
export const ratioWithSpread = (comparison: Comparison | undefined): string => {
  const text = ratioText(comparison)
  if (comparison === undefined || comparison.rounds < 2) return text
  return `${text} (${numberText(comparison.min)}..${numberText(comparison.max)})`
}

/** `once`, `1,234 times`. */
export const timesText = (times: number): string =>
  times === 1 ? 'once' : `${formatFigure(times, { decimals: 0 })} times`

/** `0.45`. */
export const coreText = (cores: number | undefined): string =>
  formatFigure(cores, { decimals: 2 })

/** Two digits that say something at any size: `0.012`, `0.93`, `24.5`, `1,234`. */
const numberText = (ratio: number): string => {
  const size = Math.abs(ratio)
  if (size >= 99.95) return fixed(ratio, 0)
  if (size >= 9.995) return fixed(ratio, 1)
  if (size >= 0.0995 || size === 0) return ratio.toFixed(2)
  if (size >= 0.000_95) return ratio.toFixed(size >= 0.00995 ? 3 : 4)
  return ratio > 0 ? '<0.001' : '0.00'
}

const fixed = (value: number, decimals: number): string =>
  value.toLocaleString('en-US', {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  })

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

/** A goal and what became of it. */
export interface GoalResult {
  readonly scenario: string
  readonly goal: Goal
  /** The median that counts: of the ratios by round, or of the figures. */
  readonly value: number | undefined
  readonly verdict: 'reached' | 'MISSED' | 'not measured'
  /** `usher/pipe req/s >= 0.9: 0.950, reached`. */
  readonly text: string
}

/** All goals of targets that took part, with what they are held to, scenario by scenario. */
export const goalsOf = (record: RunRecord): readonly GoalResult[] =>
  record.scenarios.flatMap(scenario => goalsOfScenario(record, scenario))

/** The same of one scenario. */
export const goalsOfScenario = (
  { targets }: Pick<RunRecord, 'targets'>,
  scenario: ScenarioRecord,
): readonly GoalResult[] =>
  scenario.goals
    .filter(({ target, to = target }) =>
      [target, to].every(needed => targets.some(({ name }) => name === needed)),
    )
    .map(goal => resultOf(scenario, goal))

const resultOf = (scenario: ScenarioRecord, goal: Goal): GoalResult => {
  const metric = scenario.metrics.find(({ name }) => name === goal.metric)
  const value = metric && valueOf(scenario, goal, metric)
  const verdict = verdictOn(goal, value)
  const text = `${wantedText(goal, metric)}: ${valueText(goal, metric, value)}, ${verdict}`
  return { scenario: scenario.name, goal, value, verdict, text }
}

const valueOf = (
  scenario: ScenarioRecord,
  { target, to }: Goal,
  metric: Metric,
): number | undefined =>
  to === undefined
    ? spreadOf(figuresOf(scenario, target, metric))?.median
    : comparisonOf(scenario, metric, target, to)?.median

const verdictOn = (goal: Goal, value: number | undefined): GoalResult['verdict'] => {
  if (value === undefined) return 'not measured'
  const { atLeast = -Infinity, atMost = Infinity } = goal
  return value >= atLeast && value <= atMost ? 'reached' : 'MISSED'
}

const wantedText = (goal: Goal, metric: Metric | undefined): string => {
  const { target, to, atLeast, atMost } = goal
  const name = metric?.title ?? goal.metric
  const unit = to === undefined && metric !== undefined ? ` ${metric.unit}` : ''
  const bounds = [
    ...(atLeast === undefined ? [] : [`>= ${atLeast}${unit}`]),
    ...(atMost === undefined ? [] : [`<= ${atMost}${unit}`]),
  ]
  return `${to === undefined ? target : `${target}/${to}`} ${name} ${bounds.join(' and ')}`
}

/** A digit more than the figure has elsewhere, for what is just missed. */
const valueText = (
  { to }: Goal,
  metric: Metric | undefined,
  value: number | undefined,
): string =>
  formatFigure(value, {
    decimals: to === undefined && metric !== undefined ? metric.decimals + 1 : 3,
  })
