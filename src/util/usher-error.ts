/** Failures that callers distinguish, or that users see without a stack. */
export type ErrorCode =
  /** A source can't start: the message says what to mend. */
  | 'BAD_SOURCE'
  /** The API server refused a request; `ApiError` has its status. */
  | 'API_REFUSED'
  /** The same within a watch that had been accepted (an ERROR event). */
  | 'API_WATCH_REFUSED'
  /** The API server sent what is no event, or an object that is too large. */
  | 'MALFORMED'
  /** Nothing was received for too long. */
  | 'SILENCE'
  /** A kept connection was closed by the server before it read the request. */
  | 'STALE_CONNECTION'
  /** A watch can't go on from where it is: all has to be listed again. */
  | 'RELIST'
  /** The reader of manifests failed; another try may succeed. */
  | 'READER_FAILED'
  /** The manifests take too much memory; another try would fail, too. */
  | 'READER_MEMORY'
  /** The first process of the data plane has ended before it served. */
  | 'DATA_PLANE'
  /** An address that has to be listened on can't be. */
  | 'CANNOT_LISTEN'
  /** An order over the control socket was not carried out. */
  | 'ORDER_REFUSED'
  /** No Usher has answered what was asked. */
  | 'NO_ANSWER'
  /** There is nothing of a name that was given. */
  | 'NOT_FOUND'
  /** Nothing can be handed over to another Usher, or taken over from it. */
  | 'HAND_OVER'
  /** The demo can't go on. */
  | 'DEMO'

/** A failure with a code. Whatever has a code is shown to users by its message alone. */
export class UsherError extends Error {
  override readonly name: string = 'UsherError'
  readonly code: ErrorCode

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** Whatever was thrown, as an error. */
export const errorOf = (thrown: unknown): Error =>
  thrown instanceof Error ? thrown : new Error(String(thrown))

/** Its message; of one that is a list, as of a name with several addresses, those in it. */
export const messageOf = (thrown: unknown): string => {
  const error: NodeJS.ErrnoException = errorOf(thrown)
  const inner = error instanceof AggregateError ? (error.errors as unknown[]) : []
  const messages = new Set(inner.map(messageOf))
  return error.message || [...messages].join('; ') || error.code || error.name
}

export const hasCode = (
  error: unknown,
  ...codes: readonly ErrorCode[]
): error is UsherError => error instanceof UsherError && codes.includes(error.code)

/** The errno name of an error, or its message where it has none. */
export const errorCode = (error: NodeJS.ErrnoException): string =>
  error.code ?? error.message

const codes = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM'])

/** Whether an errno name says that this process or host is out of descriptors or memory. */
export const isOutOfResources = (code: string | undefined): boolean =>
  code !== undefined && codes.has(code)
