/**
 * `text` without characters that could drive a terminal (C0, C1, DEL and the
 * bidirectional overrides): names and messages come from files and servers.
 */
export const visible = (text: string): string =>
  text.replaceAll(
    /[\p{Cc}\u202A-\u202E\u2066-\u2069]/gu,
    char => `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  )

/** `1 file`, `2 files`. */
export const count = (number: number, one: string, many = `${one}s`): string =>
  `${number} ${number === 1 ? one : many}`

/** `1 client waits`, `2 clients of route/db wait`; '' for `whose`: of any. */
export const clientsWait = (number: number, whose = ''): string => {
  const clients = count(number, 'client') + (whose === '' ? '' : ` of ${whose}`)
  return `${clients} ${number === 1 ? 'waits' : 'wait'}`
}

/** `0s`, `12s`, `3m5s`, `3h`, `2d4h`: the two largest units, for people. */
export const forPeople = (ms: number): string => {
  const seconds = Math.max(0, Math.round(ms / 1000))
  const parts: readonly (readonly [number, string])[] = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'm'],
    [seconds % 60, 's'],
  ]
  const first = parts.findIndex(([number]) => number > 0)
  if (first === -1) return '0s'
  return parts
    .slice(first, first + 2)
    .filter(([number]) => number > 0)
    .map(([number, unit]) => `${number}${unit}`)
    .join('')
}

/** `512 B`, `1.5 KiB`, `3.0 GiB`. */
export const bytesForPeople = (bytes: number): string => {
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB']
  let size = bytes
  let unit = 'B'
  for (const larger of units) {
    if (size < 1024) break
    size /= 1024
    unit = larger
  }
  return `${unit === 'B' ? size : size.toFixed(1)} ${unit}`
}

/** Breaks `text` at spaces into lines of at most `width` columns (a longer word stays whole). */
export const wrap = (text: string, width: number, indent = ''): string[] => {
  const lines: string[] = []
  let line = indent
  for (const word of text.split(' ')) {
    if (line.trim() !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = indent
    }
    line += line === indent ? word : ` ${word}`
  }
  return [...lines, line]
}

/** `queue=5s`. */
export const optionTexts = (options: Readonly<Record<string, string>>): string[] =>
  Object.entries(options).map(([name, value]) => `${name}=${value}`)
