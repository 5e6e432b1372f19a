import {
  type Metric,
  type RunRecord,
  type ScenarioRecord,
  warmUpRound,
} from './record.ts'
import { differFromOne, ratiosByRound, type Spread, spreadOf } from './statistics.ts'

/** Whether a target did better or worse than what it is compared with. */
export type Verdict = 'better' | 'worse' | 'even'

/** The ratios of a target's figures to a yardstick's, one of each round that has both. */
export interface Comparison extends Spread {
  readonly rounds: number
  readonly verdict: Verdict
}

/**
 * A target's figures of one metric, indexed by round, with gaps where there is none. The
 * warm-up doesn't count, and what is not a finite number is no figure.
 */
export const figuresByRound = (
  scenario: ScenarioRecord,
  target: string,
  metric: Pick<Metric, 'name'>,
): (number | undefined)[] => {
  const figures: (number | undefined)[] = []
  for (const outcome of scenario.outcomes) {
    if (outcome.target !== target || outcome.round === warmUpRound) continue
    const figure = 'sample' in outcome ? outcome.sample.figures[metric.name] : undefined
    figures[outcome.round] = Number.isFinite(figure) ? figure : undefined
  }
  return figures
}

/** The same without gaps. */
export const figuresOf = (
  scenario: ScenarioRecord,
  target: string,
  metric: Pick<Metric, 'name'>,
): number[] =>
  figuresByRound(scenario, target, metric).flatMap(figure =>
    figure === undefined ? [] : [figure],
  )

/**
 * A target beside a yardstick: value/yardstick within each round, whatever is better; two
 * zeros are a ratio of one. Undefined when no round has both figures, or only a yardstick
 * of zero: that has no ratio.
 */
export const comparisonOf = (
  scenario: ScenarioRecord,
  metric: Pick<Metric, 'name' | 'better'>,
  target: string,
  yardstick: string,
): Comparison | undefined => {
  const values = figuresByRound(scenario, target, metric)
  const base = figuresByRound(scenario, yardstick, metric)
  const bothZero = values.filter((value, round) => value === 0 && base[round] === 0)
  const ratios = [...ratiosByRound(values, base), ...bothZero.map(() => 1)]
  const spread = spreadOf(ratios)
  if (spread === undefined) return undefined
  const rounds = ratios.length
  return { ...spread, rounds, verdict: verdictOf(spread, ratios, metric.better) }
}

/**
 * Even when rounds disagree on which of the two was ahead, or when they agree as they
 * would by chance: three rounds of two that are alike do so every fourth time. So is a
 * single round: it has no spread, and nothing tells its ratio from chance.
 */
const verdictOf = (
  { min, max }: Spread,
  ratios: readonly number[],
  better: Metric['better'],
): Verdict => {
  if (ratios.length < 2 || (min <= 1 && max >= 1)) return 'even'
  if (!differFromOne(ratios)) return 'even'
  return min > 1 === (better === 'higher') ? 'better' : 'worse'
}

/** One line of an overview: a scenario's first metric, as one target had it. */
export interface Combined {
  readonly scenario: ScenarioRecord
  readonly metric: Metric
  readonly figure: Spread | undefined
  /** To each yardstick of the record, in their order; undefined to itself. */
  readonly ratios: readonly (Comparison | undefined)[]
}

/** Undefined when the scenario has no metric or the target no figure in it. */
export const combined = (
  record: Pick<RunRecord, 'yardsticks'>,
  scenario: ScenarioRecord,
  target: string,
): Combined | undefined => {
  const [metric] = scenario.metrics
  if (metric === undefined) return undefined
  const figure = spreadOf(figuresOf(scenario, target, metric))
  if (figure === undefined) return undefined
  const ratios = record.yardsticks.map(yardstick =>
    yardstick === target ? undefined : comparisonOf(scenario, metric, target, yardstick),
  )
  return { scenario, metric, figure, ratios }
}
