import { combined, type Combined, type Comparison, figuresOf } from '../record/compare.ts'
import type { RunRecord, ScenarioRecord } from '../record/record.ts'
import { formatFigure, none } from '../record/words.ts'
import { rangeText } from './scenario-table.ts'

/** Whose ratios an overview shows: Usher's, or of all that are no yardstick, or of all. */
const subjectsOf = ({
  targets,
  yardsticks,
}: Pick<RunRecord, 'targets' | 'yardsticks'>): readonly string[] => {
  const measured = targets.filter(({ name }) => !yardsticks.includes(name))
  const ushers = measured.filter(({ kind }) => kind === 'usher')
  const subjects = [ushers, measured].find(({ length }) => length > 0) ?? targets
  return subjects.map(({ name }) => name)
}

/** How ratios are to be read. */
export const legend =
  'Ratios are figure/theirs, taken within each round: their median (min..max).' +
  ' "even": rounds disagree on which was ahead. "0.93?": they agree, but are too few or too far apart to be more than chance.'

/** How much a row has room for. */
export interface OverviewText {
  readonly ratio: (comparison: Comparison | undefined) => string
  readonly withSpread: boolean
}

export interface OverviewTable {
  /** How many columns hold names, from the first. */
  readonly names: number
  readonly rows: readonly (readonly string[])[]
}

/**
 * A table of all scenarios with a row for each that a subject has figures in, its head
 * first. Empty columns are left out.
 */
export const overviewTable = (
  record: Pick<RunRecord, 'targets' | 'yardsticks' | 'scenarios'>,
  { ratio, withSpread }: OverviewText,
): OverviewTable => {
  const subjects = subjectsOf(record)
  const lines = record.scenarios.flatMap(scenario => linesOf(record, scenario, subjects))
  const columns: readonly (readonly string[])[] = [
    ['scenario', ...lines.map(nameIfNew)],
    subjects.length > 1 ? ['target', ...lines.map(({ target }) => target)] : [],
    [
      'figure',
      ...lines.map(({ metric, figure }) => formatFigure(figure?.median, metric)),
    ],
    withSpread
      ? ['min..max', ...lines.map(({ metric, figures }) => rangeText(figures, metric))]
      : [],
    ['unit', ...lines.map(({ metric }) => metric.unit)],
    ['better', ...lines.map(({ metric }) => metric.better)],
    ...record.yardsticks.map((yardstick, i) => [
      `to ${yardstick}`,
      ...lines.map(({ ratios }) => ratio(ratios[i])),
    ]),
  ]
  const used = columns.filter(([, ...cells]) => cells.some(cell => cell !== none))
  const rows = ['head', ...lines].map((_, row) => used.map(column => column[row] ?? none))
  return { names: subjects.length > 1 ? 2 : 1, rows }
}

interface Line extends Combined {
  readonly target: string
  readonly figures: readonly number[]
}

/** Its name stands at the first of a scenario's rows. */
const nameIfNew = (line: Combined, i: number, all: readonly Combined[]): string =>
  all[i - 1]?.scenario === line.scenario ? '' : line.scenario.name

const linesOf = (
  record: Pick<RunRecord, 'yardsticks'>,
  scenario: ScenarioRecord,
  subjects: readonly string[],
): readonly Line[] =>
  subjects.flatMap(target => {
    const line = combined(record, scenario, target)
    if (line === undefined) return []
    return [{ ...line, target, figures: figuresOf(scenario, target, line.metric) }]
  })
