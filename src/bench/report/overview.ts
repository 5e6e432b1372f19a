import { combined, type Combined, type Comparison } from '../record/compare.ts'
import type { RunRecord, ScenarioRecord } from '../record/record.ts'
import { formatFigure, none, spreadText } from '../record/words.ts'

/** Whose ratios an overview shows: Usher's, or those of all that are no yardstick. */
export const subjectsOf = ({
  targets,
  yardsticks,
}: Pick<RunRecord, 'targets' | 'yardsticks'>): readonly string[] => {
  const measured = targets.filter(({ name }) => !yardsticks.includes(name))
  const ushers = measured.filter(({ kind }) => kind === 'usher')
  return (ushers.length > 0 ? ushers : measured).map(({ name }) => name)
}

/** How ratios are to be read. */
export const legend =
  'Ratios are figure/theirs, taken within each round: their median (min..max).' +
  ' "even": rounds disagree on which was ahead. "0.93?": of a single round, which has no spread.'

/** How much a row has room for. */
export interface OverviewText {
  readonly ratio: (comparison: Comparison | undefined) => string
  readonly withSpread: boolean
}

/**
 * A table of all scenarios with a row for each that a subject has figures in, its head
 * first. Columns in which nobody has anything are left out.
 */
export const overviewRows = (
  record: Pick<RunRecord, 'targets' | 'yardsticks' | 'scenarios'>,
  { ratio, withSpread }: OverviewText,
): readonly (readonly string[])[] => {
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
      ? ['min..max', ...lines.map(({ metric, figure }) => spreadText(figure, metric))]
      : [],
    ['unit', ...lines.map(({ metric }) => metric.unit)],
    ['better', ...lines.map(({ metric }) => metric.better)],
    ...record.yardsticks.map((yardstick, i) => [
      `to ${yardstick}`,
      ...lines.map(({ ratios }) => ratio(ratios[i])),
    ]),
  ]
  const used = columns.filter(([, ...cells]) => cells.some(cell => cell !== none))
  return ['head', ...lines].map((_, row) => used.map(column => column[row] ?? none))
}

/** Its name stands at the first of a scenario's rows. */
const nameIfNew = (line: Combined, i: number, all: readonly Combined[]): string =>
  all[i - 1]?.scenario === line.scenario ? '' : line.scenario.name

const linesOf = (
  record: Pick<RunRecord, 'yardsticks'>,
  scenario: ScenarioRecord,
  subjects: readonly string[],
): readonly (Combined & { readonly target: string })[] =>
  subjects.flatMap(target => {
    const line = combined(record, scenario, target)
    return line === undefined ? [] : [{ ...line, target }]
  })
