/** What goes wrong with a request, as the API server says it: a Status object. */
export class ApiError extends Error {
  readonly code: number
  readonly reason: string
  readonly headers: Readonly<Record<string, string>>
  readonly details: Readonly<Record<string, unknown>> | undefined

  constructor(
    code: number,
    message: string,
    more: {
      readonly reason?: string
      readonly headers?: Readonly<Record<string, string>>
      readonly details?: Readonly<Record<string, unknown>>
    } = {},
  ) {
    super(message)
    this.code = code
    this.reason = more.reason ?? reasons[code] ?? 'Unknown'
    this.headers = more.headers ?? {}
    this.details = more.details
  }
}

const reasons: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  409: 'Conflict',
  410: 'Expired',
  415: 'UnsupportedMediaType',
  422: 'Invalid',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
  504: 'Timeout',
}

/** The Status object of an error, also the object of an ERROR event of a watch. */
export const statusOf = (error: ApiError): object => ({
  kind: 'Status',
  apiVersion: 'v1',
  metadata: {},
  status: 'Failure',
  message: error.message,
  reason: error.reason,
  ...(error.details === undefined ? {} : { details: error.details }),
  code: error.code,
})

export const tooOld = (asked: number, oldest: number): ApiError =>
  new ApiError(410, `too old resource version: ${asked} (${oldest})`)

/** A resource version from the future, as after a restored backup. */
export const tooLarge = (asked: number, current: number): ApiError =>
  new ApiError(504, `Too large resource version: ${asked}, current: ${current}`, {
    headers: { 'retry-after': '1' },
    details: {
      causes: [
        { reason: 'ResourceVersionTooLarge', message: 'Too large resource version' },
      ],
      retryAfterSeconds: 1,
    },
  })
