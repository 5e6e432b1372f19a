import {
  combined,
  type Combined,
  type Comparison,
  comparisonOf,
  figuresOf,
  spreadOf,
} from '../record/compare.ts'
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
} from '../record/findings.ts'
import type {
  Cores,
  LeftOut,
  Metric,
  RunRecord,
  ScenarioRecord,
} from '../record/record.ts'

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

/** A column of a table with a row for each target. */
interface Column {
  readonly title: string
  /** '' where the cells have no unit. */
  readonly unit: string
  readonly cells: readonly string[]
}

/** What tables take of a record; enough of it is there before a run has ended. */
type TableRecord = Pick<RunRecord, 'targets' | 'yardsticks'>

/** Names of the targets that were run in a scenario, in the record's order. */
const targetsIn = (
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
const figureColumns = (
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
const rangeText = (figures: readonly number[], metric: Metric): string =>
  figures.length < 2 ? none : spreadText(spreadOf(figures), metric)

/** The first metric's ratio to each yardstick. */
const ratioColumns = (
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
const furtherColumns = (
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
const coreColumns = (
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
const withoutEmpty = (columns: readonly Column[]): readonly Column[] =>
  columns.filter(({ cells }) => cells.some(cell => cell !== none))

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
const legend =
  'Ratios are figure/theirs, taken within each round: their median (min..max).' +
  ' "even": rounds disagree on which was ahead. "0.93?": they agree, but are too few or too far apart to be more than chance.'

/** How much a row has room for. */
interface OverviewText {
  readonly ratio: (comparison: Comparison | undefined) => string
  readonly withSpread: boolean
}

interface OverviewTable {
  /** How many columns hold names, from the first. */
  readonly names: number
  readonly rows: readonly (readonly string[])[]
}

/**
 * A table of all scenarios with a row for each that a subject has figures in, its head
 * first. Empty columns are left out.
 */
const overviewTable = (
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
    ...troublesOf(scenario, targets).flatMap(text => indent(paragraph(text))),
    ...indent(leftOutLines(scenario.leftOut)),
  ]
}

/**
 * Everything in one table, or where that is too wide in two, or without the spread of
 * the ratios.
 */
const tables = (
  scenario: ScenarioRecord,
  { yardsticks }: TableRecord,
  targets: readonly string[],
): string[] => {
  const figures = figureColumns(scenario, targets)
  const ratios = ratioColumns(scenario, targets, yardsticks)
  const short = ratioColumns(scenario, targets, yardsticks, ratioText)
  const details = [
    ...furtherColumns(scenario, targets),
    ...coreColumns(scenario, targets),
  ]
  const table = (...columns: readonly Column[][]) => tableOf(targets, columns.flat())
  const all = table([...figures, ...ratios, ...details])
  if (fits(all)) return all
  const first = table([...figures, ...ratios])
  const second = table(details)
  return [...(fits(first) ? first : table([...figures, ...short])), ...second]
}

const fits = (lines: readonly string[]): boolean =>
  lines.every(line => line.length <= screenWidth - 2)

const tableOf = (targets: readonly string[], columns: readonly Column[]): string[] => {
  const used = withoutEmpty(columns)
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

/** How Usher did in all scenarios, then goals and what is missing. */
export const summary = (record: RunRecord): string[] => {
  const variants = [
    { ratio: ratioWithSpread, withSpread: true },
    { ratio: ratioWithSpread, withSpread: false },
    { ratio: ratioText, withSpread: false },
  ]
    .map(text => overviewTable(record, text))
    .map(({ rows, names }) => formatTable(rows, names))
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

const paragraph = (text: string): string[] =>
  wrapText(text, screenWidth - 2).map((line, i) => (i === 0 ? line : `  ${line}`))

const indent = (lines: readonly string[]): string[] => lines.map(line => `  ${line}`)

/** What a reader has to mind of a scenario's figures, a sentence each. */
const troublesOf = (
  scenario: ScenarioRecord,
  targets: readonly string[],
): readonly string[] => targets.flatMap(target => troublesWith(scenario, target))

const troublesWith = (scenario: ScenarioRecord, target: string): string[] => [
  ...doubtsOf(scenario, target).map(doubt => `${target}: IN DOUBT, ${doubt}`),
  ...[...errorsOf(scenario, target)].map(
    ([name, times]) => `${target}: ERROR ${name} (${timesText(times)})`,
  ),
  ...[...failuresOf(scenario, target)].map(
    ([why, times]) => `${target}: RUN FAILED ${why} (${timesText(times)})`,
  ),
]

const timesText = (times: number): string =>
  times === 1 ? 'once' : `${formatFigure(times, { decimals: 0 })} times`

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
