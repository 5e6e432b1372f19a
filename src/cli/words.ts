import { bytesForPeople, count, forPeople } from '../page/format.ts'

export { bytesForPeople, count, forPeople }

/**
 * `text` without characters that could drive a terminal (C0, C1, DEL and the
 * bidirectional overrides): names and messages come from files and servers.
 */
export const visible = (text: string): string =>
  text.replaceAll(
    /[\p{Cc}\u202A-\u202E\u2066-\u2069]/gu,
    char => `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  )

/** How clients of an address come to who serves them. */
export const servedText = ({
  kind,
  capture,
  listen,
}: {
  /** As VipKind has them. */
  readonly kind: string
  /** As PlacementKind has them. */
  readonly capture: string
  readonly listen: string
}): string => {
  if (capture === 'local' || capture === 'listen')
    return kind === 'Route' ? 'by its own listener' : 'on the VIP itself'
  if (capture === 'kernel') return 'by the kernel'
  if (capture === 'not captured') return capture
  return `${capture === 'none' ? '' : `${capture}, `}proxy port ${listen}`
}

/** `1 client waits`, `2 clients of route/db wait`; '' for `whose`: of any. */
export const clientsWait = (number: number, whose = ''): string => {
  const clients = count(number, 'client') + (whose === '' ? '' : ` of ${whose}`)
  return `${clients} ${number === 1 ? 'waits' : 'wait'}`
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

/** A text as shells (but fish) take it literally. */
export const quoted = (text: string): string =>
  `'${text.replaceAll("'", String.raw`'\''`)}'`
