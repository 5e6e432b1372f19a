import { styleText } from 'node:util'
import type { Column, Style } from '../page/column.ts'
import { visible } from './io.ts'

export interface Cell {
  readonly text: string
  /** It stands at the right of its column. */
  readonly isNumber?: true | undefined
  readonly style?: Style | undefined
}

/** A line of a table. */
export type Cells = readonly (string | Cell)[]

/** `now`: epoch milliseconds. */
export const rowOf = <T>(columns: readonly Column<T>[], item: T, now: number): Cells =>
  columns.map(({ read, style, isNumber }) =>
    style === undefined && isNumber === undefined
      ? read(item, now)
      : { text: read(item, now), style: style?.(item, now), isNumber },
  )

/** The names of the columns, each above its cells. */
export const headOf = <T>(columns: readonly Column<T>[]): Cells =>
  columns.map(({ name, isNumber }) => ({ text: name.replace('+', ''), isNumber }))

export const styled = (
  text: string,
  style: Style | undefined,
  colour: boolean,
): string =>
  colour && style !== undefined ? styleText(style, text, { validateStream: false }) : text

const textOf = (cell: string | Cell): string =>
  visible(typeof cell === 'string' ? cell : cell.text)

/** One long name must not push all the others off the screen. */
const widest = 48

/** The width each column needs, for `aligned`. Takes any number of rows. */
export const columnWidths = (rows: Iterable<Cells>): readonly number[] => {
  const widths: number[] = []
  for (const row of rows)
    row.forEach((cell, column) => {
      const { length } = textOf(cell)
      if (length > (widths[column] ?? -1)) widths[column] = Math.min(widest, length)
    })
  return widths
}

/** One line with its cells at the columns; control characters made visible. */
export const aligned = (
  row: Cells,
  widths: readonly number[],
  indent: string,
  colour: boolean,
): string => {
  let line = indent
  row.forEach((cell, column) => {
    const isLast = column === row.length - 1
    const width = widths[column] ?? 0
    const { style, isNumber = false } = typeof cell === 'string' ? {} : cell
    const text = textOf(cell)
    const padded = isNumber ? text.padStart(width) : isLast ? text : text.padEnd(width)
    line += styled(padded, style, colour)
    if (!isLast) line += '  '
  })
  return line.trimEnd()
}

/** A table in lines, each column as wide as it needs. */
export const tableLines = (
  rows: readonly Cells[],
  colour: boolean,
): readonly string[] => {
  const widths = columnWidths(rows)
  return rows.map(row => aligned(row, widths, '', colour))
}
