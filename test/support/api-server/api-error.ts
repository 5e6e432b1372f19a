/** What goes wrong with a request, as the API server says it: a Status object. */
export class ApiError extends Error {
  readonly code: number
  readonly reason: string
  readonly headers: Readonly<Record<string, string>>
  readonly details: Readonly<Record<string, unknown>> | undefined
  readonly metadata: Readonly<Record<string, unknown>>

  constructor(code: number, message: string, more: Partial<More> = {}) {
    super(message)
    const { reason, headers = {}, details, metadata = {} } = more
    const seconds = details?.['retryAfterSeconds']
    this.code = code
    this.reason = reason ?? reasons[code] ?? ''
    // As ErrorNegotiated does (apiserver, endpoints/handlers/responsewriters).
    this.headers =
      typeof seconds === 'number'
        ? { 'retry-after': String(seconds), ...headers }
        : headers
    this.details = details
    this.metadata = metadata
  }

  /** The body of the answer. */
  get body(): string {
    return JSON.stringify(statusOf(this))
  }
}

interface More {
  /** '' where the server gives none. */
  readonly reason: string
  readonly headers: Readonly<Record<string, string>>
  readonly details: Readonly<Record<string, unknown>>
  readonly metadata: Readonly<Record<string, unknown>>
}

/** What is said by Go's http.Error, in a line of text: by filters that come before the API. */
export class PlainError extends ApiError {
  constructor(code: number, message: string, headers: Record<string, string> = {}) {
    const type = 'text/plain; charset=utf-8'
    super(code, message, { headers: { 'content-type': type, ...headers } })
  }

  override get body(): string {
    return `${this.message}\n`
  }
}

/** StatusReason of metav1 for what apimachinery's `api/errors` makes. */
const reasons: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
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
  metadata: error.metadata,
  status: 'Failure',
  message: error.message,
  ...(error.reason === '' ? {} : { reason: error.reason }),
  ...(error.details === undefined ? {} : { details: error.details }),
  code: error.code,
})
