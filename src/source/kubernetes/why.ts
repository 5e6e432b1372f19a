import { printable } from '../decode/printable.ts'
import { ApiError } from './api-error.ts'
import { isOlder } from './resource-version.ts'

/** The state can't be followed from where it is, and has to be read anew. */
export class Relist extends Error {
  override readonly name = 'Relist'
}

const gone = 410

/** Whether all has to be listed after this error. */
export const isRelist = (error: Error): boolean =>
  error instanceof Relist ||
  (error instanceof ApiError && (error.status === gone || error.behind))

/** Why a server that is at `theirs` is not the one that was at `ours`; '' when it may be. */
export const fallsBehind = (theirs: string, ours: string): string =>
  isOlder(theirs, ours)
    ? `the server is at resourceVersion ${theirs}, before ${ours}: it holds an older state`
    : ''

/** An error in words, on one line. */
export const wordsOf = (error: Error): string => {
  const { code, message } = error as NodeJS.ErrnoException
  // What IncomingMessage says when its connection ends before it does.
  if (code === 'ECONNRESET' && message === 'aborted') return 'the connection was cut'
  const inner =
    error instanceof AggregateError ? (error.errors as unknown[])[0] : undefined
  if (message === '' && inner instanceof Error) return wordsOf(inner)
  return printable(message || code || error.name, 400)
}
