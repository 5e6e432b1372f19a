import { figuresOf } from '../../record/compare.ts'
import type { Metric, RunRecord, ScenarioRecord } from '../../record/record.ts'
import { spreadOf } from '../../record/statistics.ts'
import { formatFigure } from '../../record/words.ts'
import {
  type ChartOptions,
  drawChart,
  fontSize,
  type Layout,
  type Place,
  titled,
  valueClass,
} from './chart.ts'
import type { Drawing } from './drawing.ts'
import { element, label, widthOf } from './element.ts'
import { type Percentiles, percentileText } from './percentiles.ts'
import { gapText, type Row, rowsOf } from './rows.ts'
import { logScale, logTicks } from './scale.ts'
import { capitalized } from './verdicts.ts'

/**
 * For each target its percentiles (medians of the rounds) as dots on a line, on a
 * logarithmic axis, and as text. Undefined when there is none above zero to draw.
 */
export const percentileChart = (
  record: Pick<RunRecord, 'targets'>,
  scenario: ScenarioRecord,
  { of, metrics }: Percentiles,
  options: ChartOptions,
): Drawing | undefined => {
  const [first] = metrics
  if (first === undefined) return undefined
  const rows = rowsOf(record, scenario, first)
  const lines = rows.map(row => metrics.map(metric => medianOf(scenario, row, metric)))
  const drawable = lines.flat().filter(isDrawable)
  if (drawable.length === 0) return undefined
  const drawn = [...drawable, ...(options.within ?? [])]
  const [low, high] = [Math.min(...drawn), Math.max(...drawn)]
  const ticks = logTicks(low, high, 7)
  const columns = columnsOf(metrics, lines, options.width)
  const lineOf = (row: Row, index: number): Line => ({
    row,
    metrics,
    values: lines[index] ?? [],
  })
  const chart = {
    rows,
    title: `${scenario.title}: percentiles${of === '' ? '' : ` of ${of}`} in ${first.unit}`,
    counted: `${of === '' ? 'Percentiles' : `${capitalized(of)}: percentiles`}, ${first.unit} (less is better), log axis`,
    ticks,
    scale: (left: number, right: number) =>
      logScale(ticks[0] ?? low, ticks.at(-1) ?? high, left + 6, right),
    values: columns.width,
    valueHeads: {
      height: 18,
      body: (layout: Layout) => columnHeads(layout, metrics, columns.ends),
    },
    marks: (place: Place) => marksOf(place, lineOf(place.row, place.index), columns.ends),
    describe: (row: Row, index: number) => describe(lineOf(row, index)),
  }
  return drawChart(chart, options)
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

/** The columns of text: their right edges, and how much room they take. */
const columnsOf = (
  metrics: readonly Metric[],
  lines: readonly (readonly (number | undefined)[])[],
  width: number,
): { readonly ends: readonly number[]; readonly width: number } => {
  const widths = metrics.map((metric, column) =>
    Math.max(
      widthOf(percentileText(metric), 11),
      ...lines.map(values => widthOf(formatFigure(values[column], metric), fontSize)),
    ),
  )
  const ends: number[] = []
  let right = width
  for (const each of widths.toReversed()) {
    ends.unshift(right)
    right -= each + 8
  }
  return { ends, width: width - right + 4 }
}

/** The names of the columns, with the mark that each percentile has on the lines. */
const columnHeads = (
  { top }: Layout,
  metrics: readonly Metric[],
  ends: readonly number[],
): string =>
  ends
    .map((end, column) => {
      const metric = metrics[column]
      const text = metric === undefined ? '' : percentileText(metric)
      const mark = markAt(end - widthOf(text, 11) / 2, top - 20, column)
      return `${label(end, top - 5, text, { class: 'small muted end' })}<g class="peer">${mark}</g>`
    })
    .join('')

interface Line {
  readonly row: Row
  readonly metrics: readonly Metric[]
  readonly values: readonly (number | undefined)[]
}

const marksOf = (
  { y, scale }: Place,
  line: Line,
  ends: readonly number[],
): string | undefined => {
  const { row, values, metrics } = line
  if (values.every(value => value === undefined)) return undefined
  const places = values.map(value => (isDrawable(value) ? scale(value) : undefined))
  const known = places.filter(place => place !== undefined)
  const range = { x1: Math.min(...known), x2: Math.max(...known), y1: y, y2: y }
  const marks = places.map((x, column) => (x === undefined ? '' : markAt(x, y, column)))
  const texts = values.map((value, column) => {
    const text = formatFigure(value, metrics[column] ?? { decimals: 2 })
    return label(ends[column] ?? 0, y + 4, text, { class: valueClass(row) })
  })
  const drawn =
    known.length === 0
      ? ''
      : element(
          'g',
          { class: row.look },
          titled(describe(line)),
          element('line', { class: 'range', ...range }),
          // The highest first: where they meet, the lower one is seen.
          ...marks.toReversed(),
        )
  return drawn + texts.join('')
}

/** Lower percentiles are fuller: told apart without colour. */
const markAt = (x: number, y: number, column: number): string => {
  if (column === 0) return element('circle', { cx: x, cy: y, r: 4.5 })
  if (column === 1) return element('circle', { cx: x, cy: y, r: 2.5 })
  if (column === 2) return element('circle', { class: 'hollow', cx: x, cy: y, r: 3.5 })
  const d = `M${x.toFixed(1)} ${y - 6}v12`
  return element('path', { class: 'range', d, fill: 'none' })
}

const describe = ({ row, metrics, values }: Line): string => {
  if (values.every(value => value === undefined))
    return `${row.target.name} ${gapText(row)}`
  const texts = metrics.map(
    (metric, column) =>
      `${percentileText(metric)} ${formatFigure(values[column], metric)}`,
  )
  return `${row.target.name} ${texts.join(', ')}`
}
