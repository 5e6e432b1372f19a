import type { Io } from '../../src/cli/io.ts'

/** Where a command prints in a test, and what it has printed so far. */
export const keptIo = () => {
  const printed = { out: '', err: '' }
  const io: Io = {
    out: text => void (printed.out += text),
    err: text => void (printed.err += text),
    gone: new AbortController().signal,
    colour: false,
    columns: undefined,
  }
  return { io, printed }
}
