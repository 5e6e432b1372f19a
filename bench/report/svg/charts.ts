import { figuresOf, spreadOf } from '../../record/compare.ts'
import { formatFigure, spreadText } from '../../record/findings.ts'
import type { Metric, RunRecord, ScenarioRecord } from '../../record/record.ts'
import { capitalized, gapText, type Row, rowsOf, troubleText } from '../rows.ts'
import {
  axisHeight,
  type ChartOptions,
  drawChart,
  fontSize,
  type Layout,
  linearScale,
  linearTicks,
  logScale,
  logTicks,
  type Place,
  type Scale,
  titled,
  valueClass,
} from './chart.ts'
import { type Drawing, element, fitted, label, widthOf } from './drawing.ts'

/**
 * A metric of one scenario: for each target a bar to its median from zero, a dot for each
 * round, a line from the least to the most, and the median as text.
 */
export const figureChart = (
  record: Pick<RunRecord, 'targets'>,
  scenario: ScenarioRecord,
  metric: Metric,
  options: ChartOptions,
): Drawing => {
  const rows = rowsOf(record, scenario, metric)
  const texts = rows.map(({ spread }) => formatFigure(spread?.median, metric))
  const ticks = linearTicks(Math.max(options.reach ?? 0, largest(rows)), 5)
  const chart = {
    rows,
    title: `${scenario.title}: ${metric.title} in ${metric.unit}`,
    counted: `${metric.title}, ${unitText(metric)}`,
    ticks,
    scale: (left: number, right: number) => linearScale(ticks.at(-1) ?? 1, left, right),
    values: Math.max(30, ...texts.map(text => widthOf(text, fontSize))) + 22,
    marks: (place: Place) => marksOf(place, metric),
    over: (layout: Layout, scale: Scale) => referenceLine(layout, rows, scale),
    // A chart without a heading is in a page, which has better room for them.
    below: (layout: Layout) =>
      footnotes(options.heading === undefined ? [] : rows, layout),
    describe: (row: Row) => describe(row, metric),
  }
  return drawChart(chart, options)
}

/** The most that any round of any target had. */
export const largest = (rows: readonly Row[]): number =>
  Math.max(0, ...rows.flatMap(({ figures }) => figures))

const unitText = ({ unit, better }: Metric): string =>
  `${unit} (${better === 'higher' ? 'more' : 'less'} is better)`

const marksOf = (place: Place, metric: Metric): string | undefined => {
  const { row, y, scale, layout } = place
  const { spread } = row
  if (spread === undefined) return undefined
  const median = scale(spread.median)
  const dots = row.figures.map(figure =>
    element('circle', { cx: scale(figure), cy: y, r: 2, 'stroke-width': 0 }),
  )
  const marks = element(
    'g',
    { class: row.look },
    titled(describe(row, metric)),
    element('rect', {
      class: 'bar',
      x: layout.left,
      y: y - 6,
      width: Math.max(0, median - layout.left),
      height: 12,
      'stroke-width': 0,
    }),
    element('line', {
      class: 'range',
      x1: scale(spread.min),
      x2: scale(spread.max),
      y1: y,
      y2: y,
    }),
    ...dots,
    element('line', { class: 'median', x1: median, x2: median, y1: y - 6, y2: y + 6 }),
  )
  return marks + valueLabel(place, formatFigure(spread.median, metric))
}

const valueLabel = ({ layout, row, y }: Place, text: string): string => {
  const figure = label(layout.width - 14, y + 4, text, { class: valueClass(row) })
  if (troubleText(row) === '') return figure
  return figure + label(layout.width - 10, y + 4, '!', { class: 'strong bad' })
}

/** Where the direct path is, through all rows: what no proxy is expected to reach. */
const referenceLine = (layout: Layout, rows: readonly Row[], scale: Scale): string => {
  const direct = rows.find(({ look }) => look === 'direct')?.spread
  if (direct === undefined || rows.length < 2 || direct.median <= 0) return ''
  const x = scale(direct.median)
  const { top, bottom } = layout
  return element('line', { class: 'reference', x1: x, x2: x, y1: top, y2: bottom })
}

const mostFootnotes = 4

/** What the exclamation marks are for. */
const footnotes = (
  rows: readonly Row[],
  { bottom, width }: Layout,
): Pick<Drawing, 'body' | 'height'> => {
  const troubled = rows.filter(row => row.spread && troubleText(row) !== '')
  const lines = troubled
    .slice(0, mostFootnotes)
    .map(row => `! ${row.target.name}: ${troubleText(row)}`)
  if (troubled.length > mostFootnotes) lines.push('! and others, see the table')
  const body = lines.map((line, index) =>
    label(0, bottom + axisHeight + 14 + index * 15, fitted(line, width, 11), {
      class: 'small bad',
    }),
  )
  return { body: body.join(''), height: lines.length === 0 ? 0 : lines.length * 15 + 4 }
}

const describe = (row: Row, metric: Metric): string => {
  const { target, spread, figures } = row
  if (spread === undefined) return `${target.name} ${gapText(row)}`
  const median = `${target.name} ${formatFigure(spread.median, metric)} ${metric.unit}`
  const range = `${spreadText(spread, metric)} in ${figures.length} round${figures.length === 1 ? '' : 's'}`
  return [`${median} (${range})`, troubleText(row)].filter(text => text !== '').join(', ')
}

/** Metrics that are percentiles of the same times. */
interface Percentiles {
  /** What the times are of, '' when it goes without saying. */
  readonly of: string
  /** From the lowest percentile to the highest, at least two. */
  readonly metrics: readonly Metric[]
}

const named = /^(?:(.*) )?p(\d{2,4})$/

/** Metrics named `p50`, `p99`, `connect p999`, ... that belong together. */
export const percentilesOf = ({
  metrics,
}: Pick<ScenarioRecord, 'metrics'>): readonly Percentiles[] => {
  const families = new Map<string, { readonly metric: Metric; readonly rank: number }[]>()
  for (const metric of metrics) {
    const [, of = '', digits] = named.exec(metric.name) ?? []
    if (digits === undefined) continue
    const family = families.get(of) ?? []
    families.set(of, [...family, { metric, rank: Number(`0.${digits}`) }])
  }
  return [...families]
    .filter(([, family]) => family.length > 1)
    .map(([of, family]) => ({
      of,
      metrics: family.toSorted((a, b) => a.rank - b.rank).map(({ metric }) => metric),
    }))
}

/** `p99.9` for `connect p999`. */
export const percentileText = (metric: Pick<Metric, 'name'>): string => {
  const digits = named.exec(metric.name)?.[2] ?? ''
  return `p${digits.slice(0, 2)}${digits.length > 2 ? `.${digits.slice(2)}` : ''}`
}

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
    marks: (place: Place) =>
      percentileMarks(place, lineOf(place.row, place.index), columns.ends),
    describe: (row: Row, index: number) => describeLine(lineOf(row, index)),
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

const percentileMarks = (
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
          titled(describeLine(line)),
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

const describeLine = ({ row, metrics, values }: Line): string => {
  if (values.every(value => value === undefined))
    return `${row.target.name} ${gapText(row)}`
  const texts = metrics.map(
    (metric, column) =>
      `${percentileText(metric)} ${formatFigure(values[column], metric)}`,
  )
  return `${row.target.name} ${texts.join(', ')}`
}
