/** Where a command prints, handed in so that tests can read it. */
export interface Io {
  readonly out: (text: string) => void
  readonly err: (text: string) => void
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
    colour: stdout.isTTY && (env['NO_COLOR'] ?? '') === '',
    columns: stdout.isTTY ? stdout.columns : undefined,
  }
}
