import { comparisonOf, figuresOf } from './compare.ts'
import type { Goal, Metric, RunRecord, ScenarioRecord } from './record.ts'
import { spreadOf } from './statistics.ts'
import { formatFigure } from './words.ts'

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
  const verdict = verdictOf(goal, value)
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

const verdictOf = (goal: Goal, value: number | undefined): GoalResult['verdict'] => {
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
