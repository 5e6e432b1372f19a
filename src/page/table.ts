import { fillRow } from './cells.ts'
import {
  columns,
  type ServiceColumn,
  type Sorting,
  troubleOf,
} from './service-columns.ts'
import { el, setAttribute, setText } from './dom.ts'
import { identity } from './service-words.ts'
import type { Row } from './store.ts'
import { perSecond } from './format.ts'
import { pastSteps } from './wire.ts'

/** As services-table.css has it. */
const rowHeight = 28
/** Rendered beyond what is seen, above and below. */
const margin = 8

export interface TableState {
  readonly rows: readonly Row[]
  readonly sorting: Sorting
  readonly active: Row | undefined
  readonly opened: Row | undefined
  /** `Tick.at`. */
  readonly now: number
  readonly isCounted: boolean
}

interface TableDeps {
  readonly sort: (column: ServiceColumn) => void
  readonly open: (row: Row) => void
}

interface RenderedRow {
  readonly element: HTMLTableRowElement
  readonly past: PastCell
}

/** The table of Services: of ten thousand rows those exist that can be seen. */
export class ServiceTable {
  readonly element: HTMLTableElement
  readonly #scroller: HTMLElement
  readonly #body = el('tbody')
  readonly #above = spacer()
  readonly #below = spacer()
  readonly #heads: ReadonlyMap<ServiceColumn, HTMLElement>
  readonly #shown: RenderedRow[] = []
  #state: TableState | undefined

  constructor(scroller: HTMLElement, { sort, open }: TableDeps) {
    this.#scroller = scroller
    this.#heads = new Map(columns.map(column => [column, headOf(column, sort)]))
    const past = el('th', { scope: 'col', class: 'past', title: pastHelp }, 'Last 2 min')
    const head = el(
      'thead',
      {},
      el('tr', { 'aria-rowindex': '1' }, ...this.#heads.values(), past),
    )
    this.#body.append(this.#above, this.#below)
    const named = { role: 'grid', tabindex: '0', 'aria-label': 'Services' }
    this.element = el('table', named, head, this.#body)
    scroller.append(this.element)
    scroller.addEventListener('scroll', () => this.#render(), { passive: true })
    new ResizeObserver(() => this.#render()).observe(scroller)
    this.#body.addEventListener('click', ({ target }) => {
      const row = this.#rowOf(target as Element)
      if (row !== undefined) open(row)
    })
  }

  show(state: TableState): void {
    this.#state = state
    const { rows, sorting, isCounted } = state
    setAttribute(this.element, 'aria-rowcount', String(rows.length + 1))
    setAttribute(this.element, 'class', isCounted ? '' : 'uncounted')
    for (const [{ id }, head] of this.#heads)
      setAttribute(head, 'aria-sort', id === sorting.by ? sorting.direction : 'none')
    this.#render()
  }

  /** How many rows are seen at once. */
  get page(): number {
    return Math.max(1, Math.floor(this.#scroller.clientHeight / rowHeight) - 2)
  }

  reveal(row: Row): void {
    const at = (this.#state?.rows.indexOf(row) ?? 0) * rowHeight
    const { scrollTop, clientHeight } = this.#scroller
    // Below the head, which stays.
    const lowest = at - clientHeight + 2 * rowHeight
    if (at < scrollTop) this.#scroller.scrollTop = at
    else if (lowest > scrollTop) this.#scroller.scrollTop = lowest
  }

  #render(): void {
    if (this.#state === undefined) return
    const { rows } = this.#state
    const { scrollTop, clientHeight } = this.#scroller
    const seen = Math.ceil(clientHeight / rowHeight) + 2 * margin
    const last = Math.max(0, rows.length - seen)
    const first = Math.min(last, Math.max(0, Math.floor(scrollTop / rowHeight) - margin))
    const shown = rows.slice(first, first + seen)
    this.#above.style.height = `${first * rowHeight}px`
    this.#below.style.height = `${(rows.length - first - shown.length) * rowHeight}px`
    this.#resize(shown.length)
    for (const [i, row] of shown.entries())
      this.#fill(this.#shown[i] as RenderedRow, row, first + i)
    const { active } = this.#state
    const isSeen = active !== undefined && shown.includes(active)
    setAttribute(this.element, 'aria-activedescendant', isSeen ? 'active-row' : '')
  }

  #resize(count: number): void {
    while (this.#shown.length > count) this.#shown.pop()?.element.remove()
    while (this.#shown.length < count) {
      const past = pastCell()
      const element = el('tr')
      element.append(...columns.map(column => el('td', attributesOf(column))))
      element.append(past.element)
      this.#below.before(element)
      this.#shown.push({ element, past })
    }
  }

  #fill({ element, past }: RenderedRow, row: Row, at: number): void {
    const { now, active, opened } = this.#state as TableState
    fillRow(element, columns, row, now)
    past.show(row.past)
    setAttribute(element, 'aria-rowindex', String(at + 2))
    setAttribute(element, 'id', row === active ? 'active-row' : '')
    setAttribute(element, 'aria-selected', String(row === opened))
    setAttribute(element, 'data-trouble', String(troubleOf(row)))
    setAttribute(element, 'data-name', identity(row))
  }

  #rowOf(target: Element): Row | undefined {
    const name = target.closest('tr')?.dataset['name']
    return this.#state?.rows.find(row => identity(row) === name)
  }
}

const headOf = (
  column: ServiceColumn,
  sort: (column: ServiceColumn) => void,
): HTMLElement => {
  const { name, help = '' } = column
  const button = el('button', { type: 'button', title: help }, name)
  button.addEventListener('click', () => sort(column))
  return el('th', { scope: 'col', ...attributesOf(column) }, button)
}

const attributesOf = ({
  id,
  isNumber,
}: ServiceColumn): Readonly<Record<string, string>> => ({
  class: id,
  ...(isNumber && { 'data-kind': 'number' }),
})

const pastHelp =
  'new connections a second, failures in red; each line is as high as the number beside it'

/** Stands for the rows above or below. */
const spacer = (): HTMLTableRowElement =>
  el('tr', { class: 'space', role: 'presentation', 'aria-hidden': 'true' })

const [width, height] = [pastSteps - 1, 20]
const svgNames = 'http://www.w3.org/2000/svg'

/** Two lines, the second one for failures, and the most of either, which is as high as they get. */
interface PastCell {
  readonly element: HTMLElement
  /** As `Row.past`. */
  show(past: readonly number[]): void
}

const pastCell = (): PastCell => {
  const curve = document.createElementNS(svgNames, 'svg')
  curve.setAttribute('viewBox', `0 0 ${width} ${height}`)
  curve.setAttribute('preserveAspectRatio', 'none')
  curve.setAttribute('aria-hidden', 'true')
  const lines = ['rate', 'failures'].map(name => {
    const line = document.createElementNS(svgNames, 'path')
    line.setAttribute('class', name)
    curve.append(line)
    return line
  })
  const scale = el('small')
  let shown: readonly number[] = []
  return {
    element: el('td', { class: 'past' }, el('div', {}, curve, scale)),
    show: past => {
      if (past === shown) return
      shown = past
      const most = Math.max(0, ...past)
      for (const [i, line] of lines.entries()) {
        const values = past.filter((_, at) => at % 2 === i)
        line.setAttribute(
          'd',
          values.some(value => value > 0) ? pathOf(values, most) : '',
        )
      }
      setText(scale, most === 0 ? '' : `${perSecond(most)}/s`)
    },
  }
}

const pathOf = (values: readonly number[], most: number): string =>
  values
    .map((value, i) => {
      const x = pastSteps - values.length + i
      return `${i === 0 ? 'M' : 'L'}${x} ${lineHeight(value / most)}`
    })
    .join('')

const lineHeight = (part: number): string => (height - 1 - part * (height - 2)).toFixed(1)
