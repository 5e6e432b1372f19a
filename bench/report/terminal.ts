import { type GoalResult, goalsOf, goalsOfScenario } from '../record/goals.ts'
import type { LeftOut, RunRecord, ScenarioRecord } from '../record/record.ts'
import { doubtsOf, errorsOf, failuresOf } from '../record/troubles.ts'
import { formatFigure, ratioText, ratioWithSpread } from '../record/words.ts'
import { legend, overviewTable } from './overview.ts'
import {
  type Column,
  coreColumns,
  figureColumns,
  furtherColumns,
  ratioColumns,
  type TableRecord,
  targetsIn,
  withoutEmpty,
} from './scenario-table.ts'
import { formatTable, wrapText } from './table.ts'

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
