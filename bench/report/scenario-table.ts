import { comparisonOf, figuresOf } from '../record/compare.ts'
import type { Cores, Metric, RunRecord, ScenarioRecord } from '../record/record.ts'
import { spreadOf } from '../record/statistics.ts'
import { coresOf } from '../record/troubles.ts'
import {
  coreText,
  formatFigure,
  none,
  ratioWithSpread,
  spreadText,
} from '../record/words.ts'

/** A column of a table with a row for each target. */
export interface Column {
  readonly title: string
  /** '' where the cells have no unit. */
  readonly unit: string
  readonly cells: readonly string[]
}

/** What tables take of a record; enough of it is there before a run has ended. */
export type TableRecord = Pick<RunRecord, 'targets' | 'yardsticks'>

/** Names of the targets that were run in a scenario, in the record's order. */
export const targetsIn = (
  scenario: ScenarioRecord,
  { targets }: Pick<RunRecord, 'targets'>,
): readonly string[] => {
  const ran = new Set(scenario.outcomes.map(({ target }) => target))
  const known = targets.map(({ name }) => name)
  return [
    ...known.filter(name => ran.has(name)),
    ...[...ran].filter(n => !known.includes(n)),
  ]
}

/** The first metric: its median, and how far the rounds lay apart. */
export const figureColumns = (
  scenario: ScenarioRecord,
  targets: readonly string[],
): readonly Column[] => {
  const [metric] = scenario.metrics
  if (metric === undefined) return []
  const figures = targets.map(target => figuresOf(scenario, target, metric))
  return [
    {
      title: metric.title,
      unit: metric.unit,
      cells: figures.map(all => formatFigure(spreadOf(all)?.median, metric)),
    },
    {
      title: 'min..max',
      unit: '',
      cells: figures.map(all => rangeText(all, metric)),
    },
  ]
}

/** `900..1,900`; a single figure has no range. */
export const rangeText = (figures: readonly number[], metric: Metric): string =>
  figures.length < 2 ? none : spreadText(spreadOf(figures), metric)

/** The first metric's ratio to each yardstick. */
export const ratioColumns = (
  scenario: ScenarioRecord,
  targets: readonly string[],
  yardsticks: readonly string[],
  text = ratioWithSpread,
): readonly Column[] => {
  const [metric] = scenario.metrics
  if (metric === undefined) return []
  return yardsticks.map(yardstick => ({
    title: `to ${yardstick}`,
    unit: '',
    cells: targets.map(target =>
      target === yardstick
        ? none
        : text(comparisonOf(scenario, metric, target, yardstick)),
    ),
  }))
}

/** Medians of the other metrics. */
export const furtherColumns = (
  scenario: ScenarioRecord,
  targets: readonly string[],
): readonly Column[] =>
  scenario.metrics.slice(1).map(metric => ({
    title: metric.title,
    unit: metric.unit,
    cells: targets.map(target =>
      formatFigure(spreadOf(figuresOf(scenario, target, metric))?.median, metric),
    ),
  }))

const whoIsBusy: readonly (readonly [keyof Cores, string])[] = [
  ['generator', 'client'],
  ['backend', 'backend'],
  ['proxy', 'proxy'],
  ['others', 'others'],
]

/** Cores kept busy. */
export const coreColumns = (
  scenario: ScenarioRecord,
  targets: readonly string[],
): readonly Column[] => {
  const cores = targets.map(target => coresOf(scenario, target))
  return whoIsBusy.map(([who, title]) => ({
    title,
    unit: 'cores',
    cells: cores.map(busy => coreText(busy[who])),
  }))
}

/** A column in which no target has anything says nothing. */
export const withoutEmpty = (columns: readonly Column[]): readonly Column[] =>
  columns.filter(({ cells }) => cells.some(cell => cell !== none))
