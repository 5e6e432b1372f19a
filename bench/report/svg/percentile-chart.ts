import { figuresOf } from '../../record/compare.ts'
import type { Metric, RunRecord, ScenarioRecord } from '../../record/record.ts'
import { spreadOf } from '../../record/statistics.ts'
import { formatFigure } from '../../record/words.ts'
import type { Drawing } from './drawing.ts'
import { element, label, widthOf } from './element.ts'
import {
  axis,
  axisHeight,
  type ChartOptions,
  fontSize,
  gapLabel,
  headOf,
  type Layout,
  layoutOf,
  marksOf,
  middleOf,
  nameLabel,
  titled,
} from './layout.ts'
import { type Percentiles, percentileText } from './percentiles.ts'
import { gapText, type Row, rowsOf } from './rows.ts'
import { logScale, logTicks, type Scale } from './scale.ts'

/**
 * For each target its percentiles (medians of the rounds) as dots on a line, on a
 * logarithmic axis, and as text. Undefined when there is none above zero to draw.
 */
export const percentileChart = (
  record: Pick<RunRecord, 'targets'>,
  scenario: ScenarioRecord,
  { of, metrics }: Percentiles,
  { width, heading, within = [] }: ChartOptions,
): Drawing | undefined => {
  const [first] = metrics
  if (first === undefined) return undefined
  const lines = rowsOf(record, scenario, first).map(row => ({
    row,
    values: metrics.map(metric => medianOf(scenario, row, metric)),
  }))
  const drawable = lines.flatMap(({ values }) => values.filter(isDrawable))
  if (drawable.length === 0) return undefined
  const low = Math.min(...drawable, ...within)
  const high = Math.max(...drawable, ...within)

  const what =
    of === ''
      ? `Percentiles, ${first.unit}`
      : `${sentence(of)}: percentiles, ${first.unit}`
  const names = metrics.map(percentileText)
  const head = headOf(heading, `${what} (less is better), log axis`, width)
  const columnWidths = metrics.map((metric, column) =>
    Math.max(
      widthOf(names[column] ?? '', 11),
      ...lines.map(({ values }) =>
        widthOf(formatFigure(values[column], metric), fontSize),
      ),
    ),
  )
  const columns = { ends: columnEnds(columnWidths, width), names }
  const values = width - (columns.ends[0] ?? width) + (columnWidths[0] ?? 0) + 12
  const layout = layoutOf(
    lines.map(({ row }) => row),
    { width, top: head.height + 18, values },
  )
  const ticks = logTicks(low, high, 7)
  const scale = logScale(
    ticks[0] ?? low,
    ticks.at(-1) ?? high,
    layout.left + 6,
    layout.right - 8,
  )
  const marks = marksOf(ticks, scale)
  const drawn = lines.map((line, index) =>
    lineOf(layout, { ...line, index, scale, metrics, ends: columns.ends }),
  )
  return {
    width,
    height: layout.bottom + axisHeight,
    body: [head.body, columnHeads(layout, columns), axis(layout, marks), ...drawn].join(
      '',
    ),
    title: `${scenario.title}: percentiles${of === '' ? '' : ` of ${of}`} in ${first.unit}`,
    description: lines
      .map(({ row, values: each }) => describe(row, metrics, each))
      .join('; '),
  }
}

/** A logarithm is of something above zero. */
const isDrawable = (value: number | undefined): value is number =>
  value !== undefined && value > 0

/** All medians that a chart of these percentiles draws, for axes that are to be the same. */
export const drawnPercentiles = (
  record: Pick<RunRecord, 'targets'>,
  scenario: ScenarioRecord,
  { metrics }: Percentiles,
): readonly number[] =>
  metrics.flatMap(metric =>
    rowsOf(record, scenario, metric)
      .map(({ spread }) => spread?.median)
      .filter(isDrawable),
  )

const medianOf = (
  scenario: ScenarioRecord,
  { target }: Row,
  metric: Metric,
): number | undefined => spreadOf(figuresOf(scenario, target.name, metric))?.median

const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

/** Right edges of the columns of text. */
const columnEnds = (widths: readonly number[], width: number): readonly number[] => {
  const ends: number[] = []
  let right = width
  for (const each of widths.toReversed()) {
    ends.unshift(right)
    right -= each + 8
  }
  return ends
}

/** The names of the columns, with the mark that each percentile has on the lines. */
const columnHeads = (
  { top }: Layout,
  {
    ends,
    names,
  }: { readonly ends: readonly number[]; readonly names: readonly string[] },
): string =>
  ends
    .map((end, column) => {
      const text = names[column] ?? ''
      const mark = markAt(end - widthOf(text, 11) / 2, top - 20, column)
      return `${label(end, top - 5, text, { class: 'small muted end' })}<g class="peer">${mark}</g>`
    })
    .join('')

interface Line {
  readonly row: Row
  readonly values: readonly (number | undefined)[]
  readonly index: number
  readonly scale: Scale
  readonly metrics: readonly Metric[]
  readonly ends: readonly number[]
}

const lineOf = (layout: Layout, line: Line): string => {
  const { row, values, index, scale, metrics, ends } = line
  const name = nameLabel(layout, row, index)
  if (values.every(value => value === undefined))
    return name + gapLabel(layout, { row, index, text: gapText(row) })
  const y = middleOf(layout, index)
  const places = values.map(value =>
    value !== undefined && value > 0 ? scale(value) : undefined,
  )
  const known = places.filter(place => place !== undefined)
  const range = { x1: Math.min(...known), x2: Math.max(...known), y1: y, y2: y }
  const marks = places.map((x, column) => (x === undefined ? '' : markAt(x, y, column)))
  const texts = values.map((value, column) =>
    label(
      ends[column] ?? 0,
      y + 4,
      formatFigure(value, metrics[column] ?? { decimals: 2 }),
      { class: row.look === 'usher' ? 'end strong' : 'end' },
    ),
  )
  const drawn =
    known.length === 0
      ? ''
      : element(
          'g',
          { class: row.look },
          titled(describe(row, metrics, values)),
          element('line', { class: 'range', ...range }),
          // The highest first: where they meet, the lower one is seen.
          ...marks.toReversed(),
        )
  return name + drawn + texts.join('')
}

/** Lower percentiles are fuller: told apart without colour. */
const markAt = (x: number, y: number, column: number): string => {
  if (column === 0) return element('circle', { cx: x, cy: y, r: 4.5 })
  if (column === 1) return element('circle', { cx: x, cy: y, r: 2.5 })
  if (column === 2) return element('circle', { class: 'hollow', cx: x, cy: y, r: 3.5 })
  const d = `M${x.toFixed(1)} ${y - 6}v12`
  return element('path', { class: 'range', d, fill: 'none' })
}

const describe = (
  row: Row,
  metrics: readonly Metric[],
  values: readonly (number | undefined)[],
): string => {
  if (values.every(value => value === undefined))
    return `${row.target.name} ${gapText(row)}`
  const texts = metrics.map(
    (metric, column) =>
      `${percentileText(metric)} ${formatFigure(values[column], metric)}`,
  )
  return `${row.target.name} ${texts.join(', ')}`
}
