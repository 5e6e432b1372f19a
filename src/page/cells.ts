import type { Cell } from './columns.ts'
import { el, setAttribute, setText } from './dom.ts'

/** Makes a row's cells say this, with the nodes that are there. */
export const fillRow = (row: HTMLTableRowElement, cells: readonly Cell[]): void => {
  while (row.cells.length < cells.length) row.append(el('td'))
  for (const [i, cell] of cells.entries()) fillCell(row.cells[i] as HTMLElement, cell)
}

const fillCell = (cell: HTMLElement, { text, more = '', isTrouble }: Cell): void => {
  if (cell.firstChild === null) cell.append('', el('small'))
  const [shown, rest] = cell.childNodes
  if (shown) setText(shown, text)
  if (rest) setText(rest, more)
  cell.classList.toggle('trouble', isTrouble === true)
  // What may be cut off.
  setAttribute(
    cell,
    'title',
    text.length + more.length > 12 ? [text, more].join(' ').trim() : '',
  )
}

/** A small table whose rows are filled again and again. */
export interface SmallTable {
  readonly element: HTMLElement
  /** `note` is said below. */
  show(rows: readonly (readonly Cell[])[], note: string): void
}

export const smallTable = (caption: string, titles: readonly string[]): SmallTable => {
  const heads = titles.map(title => el('th', { scope: 'col' }, title))
  const body = el('tbody')
  const table = el('table', {}, el('thead', {}, el('tr', {}, ...heads)), body)
  const below = el('p', { class: 'quiet' })
  const element = el('section', {}, el('h3', {}, caption), table, below)
  return {
    element,
    show: (rows, note) => {
      while (body.rows.length > rows.length) body.deleteRow(-1)
      while (body.rows.length < rows.length) body.append(el('tr'))
      for (const [i, cells] of rows.entries())
        fillRow(body.rows[i] as HTMLTableRowElement, cells)
      table.hidden = rows.length === 0
      setText(below, note)
    },
  }
}

export const cell = (text: string, more = '', isTrouble = false): Cell => ({
  text,
  more,
  isTrouble,
})
