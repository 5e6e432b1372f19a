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
