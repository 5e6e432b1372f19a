import { historyLength, type History } from './history.ts'

const [width, height] = [historyLength, 20]
const svgNames = 'http://www.w3.org/2000/svg'

/** Two lines, the second one for failures; `draw` it again as often as there is news. */
export interface Sparkline {
  readonly element: SVGSVGElement
  draw(history: History | undefined, look: number): void
}

export const sparkline = (): Sparkline => {
  const element = document.createElementNS(svgNames, 'svg')
  element.setAttribute('viewBox', `0 0 ${width} ${height}`)
  element.setAttribute('preserveAspectRatio', 'none')
  // The same is in the row as numbers.
  element.setAttribute('aria-hidden', 'true')
  const lines = ['rate', 'failures'].map(name => {
    const line = document.createElementNS(svgNames, 'path')
    line.setAttribute('class', name)
    element.append(line)
    return line
  })
  return {
    element,
    draw: (history, look) => {
      const values = history?.values(look) ?? []
      const most = Math.max(1, ...values.map(([rate, failed]) => Math.max(rate, failed)))
      for (const [i, line] of lines.entries()) {
        const shown = values.map(value => value[i] ?? 0)
        line.setAttribute('d', shown.some(value => value > 0) ? pathOf(shown, most) : '')
      }
    },
  }
}

const pathOf = (values: readonly number[], most: number): string =>
  values
    .map((value, i) => {
      const x = width - values.length + i
      return `${i === 0 ? 'M' : 'L'}${x} ${lineHeight(value / most)}`
    })
    .join('')

const lineHeight = (part: number): string => (height - 1 - part * (height - 2)).toFixed(1)
