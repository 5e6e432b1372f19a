import { fitted, label } from './element.ts'
import { type Scale, tickTexts } from './scale.ts'

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
