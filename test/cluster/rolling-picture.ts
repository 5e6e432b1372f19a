import { element, label, standaloneStyle } from '../../bench/report/svg/drawing.ts'

/** A bar of the picture. */
export interface Bar {
  readonly name: string
  readonly failed: number
  readonly asked: number
  readonly look: 'usher' | 'peer'
}

const [width, rowHeight, top, left, right] = [720, 30, 62, 170, 170]
const title = 'Failed of 10,000 requests while all pods of a Service are replaced'

const failedOf10000 = ({ failed, asked }: Bar): number => (failed / asked) * 10_000

/** Requests that failed in a rolling update, as an SVG. */
export const rollingPicture = (bars: readonly Bar[]): string => {
  const rates = bars.map(failedOf10000)
  const most = Math.max(1, ...rates)
  const height = top + bars.length * rowHeight + 14
  const rows = bars.map(({ name, failed, asked, look }, i) => {
    const y = top + i * rowHeight
    const rate = rates[i] ?? 0
    const length = Math.max(1, (rate / most) * (width - left - right))
    return [
      label(left - 10, y + 16, name, { class: 'end' }),
      element(
        'g',
        { class: look },
        element('rect', { x: left, y: y + 3, width: length, height: 18 }),
      ),
      label(left + length + 8, y + 16, rate.toFixed(1), {
        class: rate === Math.min(...rates) ? 'strong' : undefined,
      }),
      label(width - 20, y + 16, `${failed} of ${asked.toLocaleString('en')}`, {
        class: 'end muted small',
      }),
    ].join('')
  })
  return element(
    'svg',
    {
      xmlns: 'http://www.w3.org/2000/svg',
      viewBox: `0 0 ${width} ${height}`,
      class: 'chart',
      role: 'img',
      'aria-label': `${title}: ${bars.map(({ name, failed, asked }) => `${name} ${failed} of ${asked}`).join(', ')}`,
    },
    element('style', {}, standaloneStyle()),
    element('rect', { class: 'paper', width, height }),
    label(20, 26, title, { class: 'head' }),
    label(
      20,
      45,
      'each request with a connection of its own; the pods end at once at SIGTERM',
      {
        class: 'muted',
      },
    ),
    ...rows,
  )
}
