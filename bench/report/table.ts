/**
 * Lines of text with aligned columns: names to the left, the others to the right.
 * @param names - how many columns hold names, from the first
 */
export const formatTable = (
  rows: readonly (readonly string[])[],
  names = 1,
): string[] => {
  const widths: number[] = []
  for (const row of rows)
    for (const [column, cell] of row.entries())
      widths[column] = Math.max(widths[column] ?? 0, cell.length)
  return rows.map(row =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0
        return column < names ? cell.padEnd(width) : cell.padStart(width)
      })
      .join('  ')
      .trimEnd(),
  )
}

/** Text in lines of at most `width` characters, where its words allow that. */
export const wrapText = (text: string, width: number): string[] => {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(/\s+/)) {
    if (line === '') line = word
    else if (line.length + 1 + word.length <= width) line += ` ${word}`
    else {
      lines.push(line)
      line = word
    }
  }
  return line === '' ? lines : [...lines, line]
}
