import { element, escaped } from './element.ts'
import { standaloneStyle } from './style.ts'

/** A piece of SVG with its size in pixels, not yet a document. */
export interface Drawing {
  readonly width: number
  readonly height: number
  readonly body: string
  /** For those who don't see it. */
  readonly title: string
  readonly description: string
}

/** An element to stand in an HTML page that has the palette and the style. */
export const inlineSvg = (drawing: Drawing): string => svg(drawing, drawing.body, {})

/** A file of its own, on paper of its own: pages that show it may be light or dark. */
export const standaloneSvg = (drawing: Drawing): string => {
  const { width, height, body } = drawing
  const style = element('style', {}, escapedStyle(standaloneStyle()))
  const paper = '<rect width="100%" height="100%" rx="6" class="paper"/>'
  const moved = element('g', { transform: `translate(${margin} ${margin})` }, body)
  const sized = { ...drawing, width: width + 2 * margin, height: height + 2 * margin }
  return `${svg(sized, `${style}${paper}${moved}`, { xmlns: 'http://www.w3.org/2000/svg' })}\n`
}

/** Pixels around a drawing that is a file of its own. */
export const margin = 16

const svg = (
  { width, height, title, description }: Drawing,
  content: string,
  further: Readonly<Record<string, string>>,
): string =>
  element(
    'svg',
    {
      ...further,
      class: 'chart',
      role: 'img',
      viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`,
      width: Math.ceil(width),
      height: Math.ceil(height),
    },
    element('title', {}, escaped(title)),
    element('desc', {}, escaped(description)),
    content,
  )

/** Quotes may stand in an element's text, and style sheets need them. */
const escapedStyle = (text: string): string =>
  text.replaceAll('&', '&#38;').replaceAll('<', '&#60;')

/** Drawings side by side in so many columns, each column as wide as its widest. */
export const arranged = (
  drawings: readonly Drawing[],
  columns: number,
  gap: number,
): Pick<Drawing, 'width' | 'height' | 'body'> => {
  let body = ''
  let top = 0
  let width = 0
  for (let from = 0; from < drawings.length; from += columns) {
    const line = drawings.slice(from, from + columns)
    let left = 0
    for (const drawing of line) {
      body += element('g', { transform: `translate(${left} ${top})` }, drawing.body)
      width = Math.max(width, left + drawing.width)
      left += drawing.width + gap
    }
    top += Math.max(...line.map(({ height }) => height)) + gap
  }
  return { width, height: Math.max(0, top - gap), body }
}
