import type { Metric, RunRecord, ScenarioRecord } from '../../record/record.ts'
import { formatFigure, spreadText } from '../../record/words.ts'
import {
  axisHeight,
  type ChartOptions,
  drawChart,
  fontSize,
  type Layout,
  type Place,
  titled,
  valueClass,
} from './chart.ts'
import type { Drawing } from './drawing.ts'
import { element, fitted, label, widthOf } from './element.ts'
import { gapText, type Row, rowsOf, troubleText } from './rows.ts'
import { linearScale, linearTicks, type Scale } from './scale.ts'

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
