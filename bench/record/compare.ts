import {
  type Metric,
  type RunRecord,
  type ScenarioRecord,
  warmUpRound,
} from './record.ts'

/** The middle of a set of figures, and how far apart they lay. */
export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

/** Undefined when there are no figures. */
export const spreadOf = (values: readonly number[]): Spread | undefined => {
  const sorted = values.toSorted((a, b) => a - b)
  const low = sorted[Math.floor((sorted.length - 1) / 2)]
  const high = sorted[Math.ceil((sorted.length - 1) / 2)]
  const [min] = sorted
  const max = sorted.at(-1)
  if (low === undefined || high === undefined || min === undefined || max === undefined)
    return undefined
  return { median: (low + high) / 2, min, max }
}

/**
 * `values` over `base`, round by round: what slowed the whole machine for a while slowed
 * both, so a ratio within one round is steadier than a ratio of medians. Rounds in which
 * either is missing, or the base is not positive, are left out.
 */
export const ratiosByRound = (
  values: readonly (number | undefined)[],
  base: readonly (number | undefined)[],
): number[] => {
  const ratios: number[] = []
  for (const [round, value] of values.entries()) {
    const over = base[round]
    if (value !== undefined && over !== undefined && over > 0) ratios.push(value / over)
  }
  return ratios
}

/** Two-sided 95 % points of Student's t, by degrees of freedom from 1; 1.96 without end. */
const studentsT = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262] as const
const studentsTOfMore = 2.228

/**
 * Whether ratios that scatter like these have a middle other than 1, with an error of 5 %
 * when they have not: Student's t of their logarithms, in which a half and twice as much
 * are as far from one. Two zeros or more are nothing against something, which needs no
 * test; a single ratio tells nothing.
 */
const differFromOne = (ratios: readonly number[]): boolean => {
  const count = ratios.length
  if (count < 2) return false
  if (ratios.filter(ratio => ratio === 0).length * 2 > count) return true
  const least = Math.min(...ratios.filter(ratio => ratio > 0))
  const logs = ratios.map(ratio => Math.log(Math.max(ratio, least)))
  const mean = sumOf(logs) / count
  const variance = sumOf(logs.map(log => (log - mean) ** 2)) / (count - 1)
  const t = studentsT[count - 2] ?? studentsTOfMore
  return Math.abs(mean) > t * Math.sqrt(variance / count)
}

const sumOf = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0)

/** Whether a target did better or worse than what it is compared with. */
type Verdict = 'better' | 'worse' | 'even'

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
  readonly figures: readonly number[]
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
  const figures = figuresOf(scenario, target, metric)
  const figure = spreadOf(figures)
  if (figure === undefined) return undefined
  const ratios = record.yardsticks.map(yardstick =>
    yardstick === target ? undefined : comparisonOf(scenario, metric, target, yardstick),
  )
  return { scenario, metric, figures, figure, ratios }
}
