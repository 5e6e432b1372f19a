/** Plain text as Markdown that shows it as it is, on one line. */
export const plain = (text: string): string =>
  text
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/[\\`*[\]|]/g, String.raw`\$&`)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')

/** Text as it is in a line, such as a command. */
export const inlineCode = (text: string): string => {
  const line = text.replaceAll(/\s+/g, ' ')
  const fence = '`'.repeat(longestRun(line, /`+/g) + 1)
  const space = line.startsWith('`') || line.endsWith('`') ? ' ' : ''
  return `${fence}${space}${line}${space}${fence}`
}

/** Lines as they are, between fences that none of them can end. */
export const codeBlock = (text: string, language = ''): string[] => {
  const fence = '`'.repeat(Math.max(3, longestRun(text, /`+/g) + 1))
  return [`${fence}${language}`, ...text.trimEnd().split('\n'), fence]
}

const longestRun = (text: string, pattern: RegExp): number =>
  Math.max(0, ...(text.match(pattern) ?? []).map(run => run.length))

/**
 * A table of plain text, its head first.
 * @param names - how many columns are to the left, from the first; the others to the right
 */
export const markdownTable = (
  rows: readonly (readonly string[])[],
  names = 1,
): string[] => {
  const [head, ...body] = rows.map(row => row.map(plain))
  if (head === undefined) return []
  const widths = head.map((_, column) =>
    Math.max(4, ...[head, ...body].map(row => row[column]?.length ?? 0)),
  )
  const isRight = (column: number) => column >= names
  const line = (row: readonly string[]): string => {
    const cells = widths.map((width, column) => {
      const cell = row[column] ?? ''
      return isRight(column) ? cell.padStart(width) : cell.padEnd(width)
    })
    return `| ${cells.join(' | ')} |`
  }
  const rule = widths.map((width, column) =>
    isRight(column) ? `${'-'.repeat(width - 1)}:` : '-'.repeat(width),
  )
  return [line(head), `| ${rule.join(' | ')} |`, ...body.map(line)]
}
