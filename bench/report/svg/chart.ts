import { gapText, type Row } from '../rows.ts'
import { type Drawing, element, escaped, fitted, label, widthOf } from './drawing.ts'

/** From a figure to a place in pixels. */
export type Scale = (value: number) => number

/** From zero to `max`, which has to be positive. Figures outside are drawn at its ends. */
export const linearScale =
  (max: number, from: number, to: number): Scale =>
  value =>
    from + (Math.min(Math.max(value, 0), max) / max) * (to - from)

/** Both ends have to be positive. Figures outside are drawn at its ends. */
export const logScale = (low: number, high: number, from: number, to: number): Scale => {
  const span = Math.log(high / low)
  return value => {
    const inside = Math.min(Math.max(value, low), high)
    return from + (Math.log(inside / low) / span) * (to - from)
  }
}

/**
 * Round figures from zero to the first that is not below `max`, at most so many steps.
 * The last is where the axis ends.
 */
export const linearTicks = (max: number, mostSteps: number): number[] => {
  if (!(max > 0)) return [0, 1]
  const power = 10 ** Math.floor(Math.log10(max / mostSteps))
  const factor =
    [1, 2, 2.5, 5, 10].find(each => each * power * mostSteps >= max * (1 - 1e-9)) ?? 10
  const step = factor * power
  const count = Math.ceil((max / step) * (1 - 1e-9))
  return Array.from({ length: count + 1 }, (_, index) => rounded(index * step))
}

/**
 * Powers of ten, and their 2 and 5 where that leaves few enough, from the last not above
 * `low` to the first not below `high`. The first and the last are the ends of the axis.
 */
export const logTicks = (low: number, high: number, most: number): number[] => {
  for (const steps of [[1, 2, 5], [1, 3], [1]]) {
    const ticks = ticksBetween(low, high, steps)
    if (ticks.length <= most || steps.length === 1) return ticks
  }
  return []
}

const ticksBetween = (low: number, high: number, steps: readonly number[]): number[] => {
  const all: number[] = []
  const first = Math.floor(Math.log10(low))
  const last = Math.ceil(Math.log10(high)) + 1
  for (let power = first; power <= last; power += 1)
    for (const step of steps) all.push(rounded(step * 10 ** power))
  const from = all.findLastIndex(tick => tick <= low)
  const to = all.findIndex((tick, index) => tick >= high && index > from)
  return all.slice(from, to + 1)
}

/** Without the tail that sums of binary fractions have. */
const rounded = (value: number): number => Number(value.toPrecision(12))

/** The figures of an axis, short, and all in the same thousands: `0`, `2.5k`, `10k`. */
export const tickTexts = (ticks: readonly number[]): string[] => {
  const most = Math.max(0, ...ticks)
  const [unit, letter] = prefixes.find(([, , from]) => most >= from) ?? [1, '', 0]
  return ticks.map(tick => (tick === 0 ? '0' : `${rounded(tick / unit)}${letter}`))
}

/** From which figure on each is used: four digits can be read without. */
const prefixes = [
  [1e9, 'G', 1e10],
  [1e6, 'M', 1e7],
  [1e3, 'k', 1e4],
] as const

/** What one kind of chart is, beside what all have: a row for each target, and an axis. */
interface Chart {
  readonly rows: readonly Row[]
  readonly title: string
  /** What the axis counts. */
  readonly counted: string
  readonly ticks: readonly number[]
  /** The axis between two places in pixels. */
  readonly scale: (left: number, right: number) => Scale
  /** Width of the texts to the right of the plot. */
  readonly values: number
  /** What stands above those texts, and its height. */
  readonly valueHeads?: {
    readonly height: number
    readonly body: (layout: Layout) => string
  }
  /** Marks and texts of a row; undefined when it has no figure. */
  readonly marks: (place: Place) => string | undefined
  /** Drawn over all rows. */
  readonly over?: (layout: Layout, scale: Scale) => string
  /** Drawn below the axis. */
  readonly below?: (layout: Layout) => Pick<Drawing, 'body' | 'height'>
  /** A row in words. */
  readonly describe: (row: Row, index: number) => string
}

/** A row that is to be drawn, `y` being its middle. */
export interface Place {
  readonly row: Row
  readonly index: number
  readonly y: number
  readonly layout: Layout
  readonly scale: Scale
}

export const drawChart = (chart: Chart, { width, heading }: ChartOptions): Drawing => {
  const { rows, title, values, valueHeads } = chart
  const head = headOf(heading, chart.counted, width)
  const top = head.height + (valueHeads?.height ?? 0)
  const layout = layoutOf(rows, { width, top, values })
  const scale = chart.scale(layout.left, layout.right - 8)
  const drawn = rows.map((row, index) => {
    const y = middleOf(layout, index)
    const marks = chart.marks({ row, index, y, layout, scale })
    return nameLabel(layout, row, y) + (marks ?? gapLabel(layout, row, y))
  })
  const below = chart.below?.(layout)
  return {
    width,
    height: layout.bottom + axisHeight + (below?.height ?? 0),
    body: [
      head.body,
      valueHeads?.body(layout) ?? '',
      axis(layout, ticksAt(chart.ticks, scale)),
      ...drawn,
      chart.over?.(layout, scale) ?? '',
      below?.body ?? '',
    ].join(''),
    title,
    description: rows.map(chart.describe).join('; '),
  }
}

/** Where the parts of a chart with a row for each target stand, in pixels. */
export interface Layout {
  readonly width: number
  /** Of the first row's upper edge. */
  readonly top: number
  readonly bottom: number
  /** Of the place to draw in. */
  readonly left: number
  readonly right: number
}

const rowHeight = 22
export const fontSize = 12
const mostForNames = 132

/** `values` is the width that text to the right of the plot takes. */
const layoutOf = (
  rows: readonly Row[],
  { width, top, values }: Readonly<Record<'width' | 'top' | 'values', number>>,
): Layout => {
  const widest = Math.max(0, ...rows.map(row => widthOf(row.target.name, fontSize)))
  return {
    width,
    top,
    bottom: top + rows.length * rowHeight,
    left: Math.min(widest, mostForNames) + 10,
    right: width - values,
  }
}

/** The middle of a row. */
const middleOf = ({ top }: Layout, index: number): number =>
  top + (index + 0.5) * rowHeight

/** A target's name, to the left of its row. */
const nameLabel = (layout: Layout, row: Row, y: number): string => {
  const name = fitted(row.target.name, layout.left - 8, fontSize)
  return label(layout.left - 8, y + 4, name, { class: valueClass(row) })
}

/** Class of the texts of a row. */
export const valueClass = ({ look }: Row): string =>
  look === 'usher' ? 'end strong' : 'end'

/** Why there is nothing to draw in a row, cut to its room; whole on pointing at it. */
const gapLabel = ({ width, left }: Layout, row: Row, y: number): string => {
  const text = gapText(row)
  const shown = label(left + 12, y + 4, fitted(text, width - left - 12, 11), {
    class: row.failed > 0 ? 'small bad' : 'small muted',
  })
  return element('g', {}, titled(text), shown)
}

/** What a pointer or a screen reader gets for the element it stands in. */
export const titled = (text: string): string => element('title', {}, escaped(text))

/** Lines down through all rows, with their figures below. */
const axis = (
  layout: Layout,
  ticks: readonly { readonly at: number; readonly text: string }[],
): string => {
  const { top, bottom } = layout
  let body = ''
  let free = -Infinity
  for (const [index, { at, text }] of ticks.entries()) {
    const line = { x1: at, x2: at, y1: top, y2: bottom + 3 }
    body += element('line', { class: index === 0 ? 'zero' : 'grid', ...line })
    const half = widthOf(text, 11) / 2
    if (at - half < free) continue
    free = at + half + 6
    body += label(at, bottom + 15, text, { class: 'small muted mid' })
  }
  return body
}
/** Height of the figures below an axis. */
export const axisHeight = 20

export interface ChartOptions {
  readonly width: number
  /** Written above; a page that has a heading of its own leaves it out. */
  readonly heading?: string
  /** The figure to which the axis reaches at least, to be the same as a neighbour's. */
  readonly reach?: number
  /** Figures that a logarithmic axis takes in, for the same reason. */
  readonly within?: readonly number[]
}

/** Where the figures of an axis stand. */
const ticksAt = (
  ticks: readonly number[],
  scale: Scale,
): readonly { readonly at: number; readonly text: string }[] => {
  const texts = tickTexts(ticks)
  return ticks.map((tick, index) => ({ at: scale(tick), text: texts[index] ?? '' }))
}

/** A heading when there is one, and what the axis counts. */
const headOf = (
  heading: string | undefined,
  counted: string,
  width: number,
): { readonly body: string; readonly height: number } => {
  const text = fitted(counted, width, 11)
  if (heading === undefined)
    return { body: label(0, 11, text, { class: 'small muted' }), height: 22 }
  const title = label(0, 13, fitted(heading, width, 12.5), { class: 'head' })
  return { body: title + label(0, 29, text, { class: 'small muted' }), height: 38 }
}
