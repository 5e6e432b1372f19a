import type { Drawing } from './drawing.ts'
import { element, escaped, fitted, label, widthOf } from './element.ts'
import { gapText, type Row } from './rows.ts'
import { type Scale, tickTexts } from './scale.ts'

/** What one kind of chart is, beside what all have: a row for each target, and an axis. */
export interface Chart {
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
      axis(layout, marksOf(chart.ticks, scale)),
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
const marksOf = (
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
