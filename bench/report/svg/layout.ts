import { element, escaped, fitted, label, widthOf } from './element.ts'
import type { Row } from './rows.ts'
import { type Scale, tickTexts } from './scale.ts'

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
export const layoutOf = (
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
export const middleOf = ({ top }: Layout, index: number): number =>
  top + (index + 0.5) * rowHeight

/** A target's name, to the left of its row. */
export const nameLabel = (layout: Layout, row: Row, index: number): string =>
  label(
    layout.left - 8,
    middleOf(layout, index) + 4,
    fitted(row.target.name, layout.left - 8, fontSize),
    { class: row.look === 'usher' ? 'end strong' : 'end' },
  )

/** Why there is nothing to draw in a row, cut to its room; whole on pointing at it. */
export const gapLabel = (
  layout: Layout,
  {
    row,
    index,
    text,
  }: { readonly row: Row; readonly index: number; readonly text: string },
): string => {
  const room = layout.width - layout.left - 12
  const shown = label(
    layout.left + 12,
    middleOf(layout, index) + 4,
    fitted(text, room, 11),
    {
      class: row.failed > 0 ? 'small bad' : 'small muted',
    },
  )
  return element('g', {}, titled(text), shown)
}

/** What a pointer or a screen reader gets for the element it stands in. */
export const titled = (text: string): string => element('title', {}, escaped(text))

/** Lines down through all rows, with their figures below. */
export const axis = (
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
  /** Written above; without it whoever shows the chart tells what it is. */
  readonly heading?: string
  /** The figure to which the axis reaches at least, to be the same as a neighbour's. */
  readonly reach?: number
  /** Figures that a logarithmic axis takes in, for the same reason. */
  readonly within?: readonly number[]
}

/** Where the figures of an axis stand. */
export const marksOf = (
  ticks: readonly number[],
  scale: Scale,
): readonly { readonly at: number; readonly text: string }[] => {
  const texts = tickTexts(ticks)
  return ticks.map((tick, index) => ({ at: scale(tick), text: texts[index] ?? '' }))
}

/** A heading when there is one, and what the axis counts. */
export const headOf = (
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
