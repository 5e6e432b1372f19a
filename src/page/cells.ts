import type { Column } from './column.ts'
import { el, setAttribute, setText } from './dom.ts'

/** Makes a row's cells say what the columns read of `item`, with the nodes that are there. */
export const fillRow = <T>(
  row: HTMLTableRowElement,
  columns: readonly Column<T>[],
  item: T,
  now: number,
): void => {
  while (row.cells.length < columns.length) row.append(el('td'))
  for (const [i, { read, more, style, isName = false }] of columns.entries()) {
    const cell = row.cells[i] as HTMLElement
    fillCell(cell, read(item, now), more?.(item, now) ?? '', isName)
    const color = style?.(item, now)
    cell.classList.toggle('trouble', color === 'red')
    cell.classList.toggle('warning', color === 'yellow')
  }
}

/** Characters at the end of a long name that are always seen: names of one application begin alike. */
const endOfName = 12
const longName = 24

const fillCell = (
  cell: HTMLElement,
  text: string,
  more: string,
  isName: boolean,
): void => {
  if (cell.firstChild === null) cell.append(...partsOf(isName))
  const cut = text.length > longName ? text.length - endOfName : text.length
  const texts = isName ? [text.slice(0, cut), text.slice(cut), more] : [text, more]
  for (const [i, part] of cell.childNodes.entries()) setText(part, texts[i] ?? '')
  // What may be cut off.
  setAttribute(
    cell,
    'title',
    text.length + more.length > 12 ? [text, more].join(' ').trim() : '',
  )
}

const partsOf = (isName: boolean): readonly (Node | string)[] =>
  isName ? [el('span'), el('span'), el('small')] : ['', el('small')]

/** A small table whose rows are filled again and again. */
export interface SmallTable<T> {
  readonly element: HTMLElement
  /** `note` is said below. */
  show(items: readonly T[], note: string): void
}

export const smallTable = <T>(
  caption: string,
  columns: readonly Column<T>[],
): SmallTable<T> => {
  const heads = columns.map(({ name }) => el('th', { scope: 'col' }, name))
  const body = el('tbody')
  const table = el('table', {}, el('thead', {}, el('tr', {}, ...heads)), body)
  const below = el('p', { class: 'quiet' })
  const element = el('section', {}, el('h3', {}, caption), table, below)
  return {
    element,
    show: (items, note) => {
      const now = Date.now()
      while (body.rows.length > items.length) body.deleteRow(-1)
      while (body.rows.length < items.length) body.append(el('tr'))
      for (const [i, item] of items.entries())
        fillRow(body.rows[i] as HTMLTableRowElement, columns, item, now)
      table.hidden = items.length === 0
      setText(below, note)
    },
  }
}
