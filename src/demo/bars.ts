interface Bar {
  readonly name: string
  readonly count: number
  readonly note?: string
}

const widest = 30

/** A row for each: the name, a bar to scale (at most 30 wide), the count and the note. */
export const bars = (rows: readonly Bar[]): string[] => {
  const names = Math.max(...rows.map(({ name }) => name.length))
  const most = Math.max(1, ...rows.map(({ count }) => count))
  const scale = Math.min(1, widest / most)
  const digits = String(most).length
  return rows.map(({ name, count, note = '' }) => {
    const bar = '█'.repeat(count === 0 ? 0 : Math.max(1, Math.round(count * scale)))
    const space = ' '.repeat(Math.round(most * scale) - bar.length)
    const number = String(count).padStart(digits)
    return `${name.padEnd(names)}  ${bar}${space}  ${number}  ${note}`.trimEnd()
  })
}
