import { combined, comparisonOf, figuresOf, spreadOf } from '../record/compare.ts'
import {
  coresOf,
  coreText,
  doubtsOf,
  errorsOf,
  failuresOf,
  formatFigure,
  type GoalResult,
  goalsOf,
  goalsOfScenario,
  none,
  ratioText,
  ratioWithSpread,
  spreadText,
  timesText,
} from '../record/findings.ts'
import type { LeftOut, Metric, RunRecord, ScenarioRecord } from '../record/record.ts'

/**
 * Lines of text with aligned columns: names to the left, the others to the right.
 * @param names - how many columns hold names, from the first
 */
export const formatTable = (
  rows: readonly (readonly string[])[],
  names = 1,
): string[] => {
  const widths: number[] = []
  for (const row of rows)
    for (const [column, cell] of row.entries())
      widths[column] = Math.max(widths[column] ?? 0, cell.length)
  return rows.map(row =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0
        return column < names ? cell.padEnd(width) : cell.padStart(width)
      })
      .join('  ')
      .trimEnd(),
  )
}

/** Text in lines of at most `width` characters, where its words allow that. */
export const wrapText = (text: string, width: number): string[] => {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(/\s+/)) {
    if (line === '') line = word
    else if (line.length + 1 + word.length <= width) line += ` ${word}`
    else {
      lines.push(line)
      line = word
    }
  }
  return line === '' ? lines : [...lines, line]
}

/** What tables take of a record; enough of it is there before a run has ended. */
type TableRecord = Pick<RunRecord, 'targets' | 'yardsticks'>

/** Names of the targets that were run in a scenario, in the record's order. */
const targetsIn = (
  scenario: ScenarioRecord,
  { targets }: Pick<RunRecord, 'targets'>,
): readonly string[] => {
  const ran = scenario.outcomes.map(({ target }) => target)
  const all = new Set([...targets.map(({ name }) => name), ...ran])
  return [...all].filter(name => ran.includes(name))
}

/** `900..1,900`; a single figure has no range. */
const rangeText = (figures: readonly number[], metric: Metric): string =>
  figures.length < 2 ? none : spreadText(spreadOf(figures), metric)

/** Columns of a terminal; a table is wider only when it can't be helped. */
const screenWidth = 120

/** What is known before anything was measured. */
export const introduction = (
  record: Pick<RunRecord, 'title' | 'machine' | 'setting'>,
): string[] => {
  const { cpus, model, kernel, node } = record.machine
  return [
    `${record.title}: ${cpus} CPUs (${model}), ${kernel}, Node ${node}`,
    ...record.setting.flatMap(([name, value]) => paragraph(`${name}: ${value}`)),
    '',
  ]
}

/** One scenario: a row for each target, then what to mind. */
export const reportScenario = (
  scenario: ScenarioRecord,
  record: TableRecord,
): string[] => {
  const targets = targetsIn(scenario, record)
  return [
    ...wrapText(`${scenario.name}: ${scenario.title}`, screenWidth),
    ...indent(targets.length > 0 ? tables(scenario, record, targets) : []),
    ...scenario.notes.flatMap(note => indent(paragraph(note))),
    ...goalsOfScenario(record, scenario).flatMap(({ text }) => indent([`goal: ${text}`])),
    ...targets.flatMap(target =>
      troublesWith(scenario, target).flatMap(text => indent(paragraph(text))),
    ),
    ...indent(leftOutLines(scenario.leftOut)),
  ]
}

/** A column of a table with a row for each target; '' where the cells have no unit. */
interface Column {
  readonly title: string
  readonly unit: string
  readonly cells: readonly string[]
}

const whoIsBusy = [
  ['generator', 'client'],
  ['backend', 'backend'],
  ['proxy', 'proxy'],
  ['others', 'others'],
] as const

/**
 * Everything in one table, or where that is too wide in two, or without the spread of
 * the ratios: medians of all metrics, of the first one with how far the rounds lay apart and the
 * ratio to each yardstick, and cores kept busy.
 */
const tables = (
  scenario: ScenarioRecord,
  { yardsticks }: TableRecord,
  targets: readonly string[],
): string[] => {
  const [first, ...others] = scenario.metrics
  const column = (title: string, unit: string, cell: (target: string) => string) => ({
    title,
    unit,
    cells: targets.map(cell),
  })
  const median = (metric: Metric): Column =>
    column(metric.title, metric.unit, target =>
      formatFigure(spreadOf(figuresOf(scenario, target, metric))?.median, metric),
    )
  const ofFirst = (of: (metric: Metric) => readonly Column[]): readonly Column[] =>
    first === undefined ? [] : of(first)
  const figures = ofFirst(metric => [
    median(metric),
    column('min..max', '', target =>
      rangeText(figuresOf(scenario, target, metric), metric),
    ),
  ])
  const ratios = (text: typeof ratioText): readonly Column[] =>
    ofFirst(metric =>
      yardsticks.map(yardstick =>
        column(`to ${yardstick}`, '', target =>
          target === yardstick
            ? none
            : text(comparisonOf(scenario, metric, target, yardstick)),
        ),
      ),
    )
  const details = [
    ...others.map(median),
    ...whoIsBusy.map(([who, title]) =>
      column(title, 'cores', target => coreText(coresOf(scenario, target)[who])),
    ),
  ]
  const upper = [...figures, ...ratios(ratioWithSpread)]
  const all = tableOf(targets, [...upper, ...details])
  if (fits(all)) return all
  const above = tableOf(targets, upper)
  return [
    ...(fits(above) ? above : tableOf(targets, [...figures, ...ratios(ratioText)])),
    ...tableOf(targets, details),
  ]
}

const fits = (lines: readonly string[]): boolean =>
  lines.every(line => line.length <= screenWidth - 2)

/** A column in which no target has anything says nothing. */
const tableOf = (targets: readonly string[], columns: readonly Column[]): string[] => {
  const used = columns.filter(({ cells }) => cells.some(cell => cell !== none))
  if (used.length === 0) return []
  const heads = headLines([['target'], ...used.map(headOf)])
  const rows = targets.map((target, row) => [
    target,
    ...used.map(({ cells }) => cells[row] ?? ''),
  ])
  return formatTable([...heads, ...rows])
}

/** A long title over several lines, its unit below. */
const headOf = ({ title, unit, cells }: Column): string[] => {
  const width = Math.max(14, ...cells.map(cell => cell.length))
  const unitFits = unit !== '' && title.length + unit.length + 1 <= width
  if (unitFits) return [`${title} ${unit}`]
  return [...wrapText(title, width), ...(unit === '' ? [] : [unit])]
}

/** Heads of different height, all standing on the rows. */
const headLines = (heads: readonly (readonly string[])[]): string[][] => {
  const height = Math.max(...heads.map(head => head.length))
  return Array.from({ length: height }, (_, line) =>
    heads.map(head => head[line - (height - head.length)] ?? ''),
  )
}

const leftOutLines = (leftOut: readonly LeftOut[]): string[] =>
  leftOut.flatMap(({ name, why }) => paragraph(`left out: ${name}: ${why}`))

/** How ratios are to be read. */
const legend =
  'Ratios are figure/theirs, taken within each round: their median (min..max).' +
  ' "even": rounds disagree on which was ahead. "0.93?": they agree, but are too few or too far apart to be more than chance.'

/** How Usher did in all scenarios, then goals and what is missing. */
export const summary = (record: RunRecord): string[] => {
  const variants = [
    overviewTable(record, ratioWithSpread, true),
    overviewTable(record, ratioWithSpread, false),
    overviewTable(record, ratioText, false),
  ]
  const goals = goalSummary(record).map((text, i) => (i === 0 ? text : `  ${text}`))
  const table = variants.find(fits) ?? variants.at(-1) ?? []
  return [
    `Summary of ${record.title}`,
    ...indent(table.length > 1 ? table : ['nothing was measured']),
    ...(record.yardsticks.length > 0 ? indent(paragraph(legend)) : []),
    ...goals,
    ...leftOutLines(record.leftOut),
    ...(record.complete ? [] : ['Interrupted: this is what had been measured by then.']),
  ]
}

/** Whose ratios an overview shows: Usher's, or of all that are no yardstick, or of all. */
const subjectsOf = ({ targets, yardsticks }: TableRecord): readonly string[] => {
  const measured = targets.filter(({ name }) => !yardsticks.includes(name))
  const ushers = measured.filter(({ kind }) => kind === 'usher')
  const subjects = [ushers, measured].find(({ length }) => length > 0) ?? targets
  return subjects.map(({ name }) => name)
}

/**
 * A table of all scenarios with a row for each that a subject has figures in, its head
 * first. Empty columns are left out.
 */
const overviewTable = (
  record: RunRecord,
  ratio: typeof ratioText,
  withSpread: boolean,
): string[] => {
  const subjects = subjectsOf(record)
  const lines = record.scenarios.flatMap(scenario =>
    subjects.flatMap(target => {
      const line = combined(record, scenario, target)
      return line === undefined ? [] : [{ ...line, target }]
    }),
  )
  const columns: readonly (readonly string[])[] = [
    [
      'scenario',
      // Its name stands at the first of a scenario's rows.
      ...lines.map(({ scenario }, i) =>
        lines[i - 1]?.scenario === scenario ? '' : scenario.name,
      ),
    ],
    subjects.length > 1 ? ['target', ...lines.map(({ target }) => target)] : [],
    ['figure', ...lines.map(one => formatFigure(one.figure?.median, one.metric))],
    withSpread
      ? ['min..max', ...lines.map(one => rangeText(one.figures, one.metric))]
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
  return formatTable(rows, subjects.length > 1 ? 2 : 1)
}

const paragraph = (text: string): string[] =>
  wrapText(text, screenWidth - 2).map((line, i) => (i === 0 ? line : `  ${line}`))

const indent = (lines: readonly string[]): string[] => lines.map(line => `  ${line}`)

/** What a reader has to mind of a scenario's figures, a sentence each. */
const troublesWith = (scenario: ScenarioRecord, target: string): string[] => [
  ...doubtsOf(scenario, target).map(doubt => `${target}: IN DOUBT, ${doubt}`),
  ...[...errorsOf(scenario, target)].map(
    ([name, times]) => `${target}: ERROR ${name} (${timesText(times)})`,
  ),
  ...[...failuresOf(scenario, target)].map(
    ([why, times]) => `${target}: RUN FAILED ${why} (${timesText(times)})`,
  ),
]

/** How many goals were reached, and each that was not; empty without goals. */
const goalSummary = (record: RunRecord): readonly string[] => {
  const results = goalsOf(record)
  if (results.length === 0) return []
  const of = (wanted: GoalResult['verdict']) =>
    results.filter(({ verdict }) => verdict === wanted)
  const [missed, unknown] = [of('MISSED'), of('not measured')]
  return [
    `Goals: ${of('reached').length} reached, ${missed.length} MISSED,` +
      ` ${unknown.length} not measured`,
    ...[...missed, ...unknown].map(({ scenario, text }) => `${scenario}: ${text}`),
  ]
}
