import { bytesForPeople, count, forPeople } from '../page/format.ts'

/** Where a command prints, handed in so that tests can read it. */
export interface Io {
  readonly out: (text: string) => void
  readonly err: (text: string) => void
  /** Aborts when what is printed on `out` reaches nobody any more: a command that goes on ends then. */
  readonly gone: AbortSignal
  /** Colours and bold are welcome on `out`. */
  readonly colour: boolean
  /** Columns of the terminal behind `out`; undefined when there is none. */
  readonly columns: number | undefined
}

/** The process's own. Colour only on a terminal and without NO_COLOR (no-color.org). */
export const processIo = (): Io => {
  const { stdout, stderr, env } = process
  return {
    out: text => void stdout.write(text),
    err: text => void stderr.write(text),
    gone: whenGone(stdout, stderr),
    colour: stdout.isTTY && (env['NO_COLOR'] ?? '') === '',
    columns: stdout.isTTY ? stdout.columns : undefined,
  }
}

type Output = Pick<NodeJS.WriteStream, 'on'>

/**
 * Aborts with the first error of `stdout`. Without a listener a reader that went away
 * (`usher help | head -1`) would end the process by an uncaught EPIPE; what is left to print is
 * dropped, and a proxy whose log has lost its reader goes on proxying.
 */
const whenGone = (stdout: Output, stderr: Output): AbortSignal => {
  const gone = new AbortController()
  for (const output of [stdout, stderr]) output.on('error', noteFailure)
  stdout.on('error', () => gone.abort())
  return gone.signal
}

/** Any other error of the output (a full disk) sets exit code 1, where the command's own says nothing. */
const noteFailure = (error: NodeJS.ErrnoException): void => {
  if (error.code !== 'EPIPE') process.exitCode ||= 1
}

/** Characters. */
const pieceChars = 64 * 1024

/** Prints many short texts, of which each would be a call of the system, in few pieces. */
export const printAll = (texts: Iterable<string>, { out }: Pick<Io, 'out'>): void => {
  let piece = ''
  for (const text of texts) {
    piece += text
    if (piece.length < pieceChars) continue
    out(piece)
    piece = ''
  }
  if (piece !== '') out(piece)
}

export { bytesForPeople, count, forPeople }

/**
 * `text` without characters that could drive a terminal (C0, C1, DEL and the
 * bidirectional overrides): names and messages come from files and servers.
 */
export const visible = (text: string): string =>
  unsafe.test(text) ? text.replaceAll(allUnsafe, escaped) : text

const unsafe = /[\p{Cc}\u202A-\u202E\u2066-\u2069]/u
const allUnsafe = new RegExp(unsafe, 'gu')

const escaped = (char: string): string =>
  `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`

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
