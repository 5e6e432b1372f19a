import { STATUS_CODES, type IncomingHttpHeaders } from 'node:http'
import { networkInterfaces } from 'node:os'
import { printable, parseJson, peek } from '../../util/printable.ts'
import { messageOf, UsherError } from '../../util/usher-error.ts'

/** A longer Retry-After counts as this. */
const longestRetryAfterMs = 300_000
const longestMessage = 300

/** The API server's refusal: an HTTP status, and what its metav1 Status said. */
export class ApiError extends UsherError {
  override readonly name = 'ApiError'
  /** The HTTP status, or the code of a Status that came inside a watch. */
  readonly status: number
  /** `Expired`, `Forbidden`; '' when it did not say. */
  readonly reason: string
  /** Milliseconds that the server asks to wait, at most five minutes. */
  readonly retryAfterMs: number
  /** The server is behind the resourceVersion that was asked for. */
  readonly behind: boolean

  constructor(
    status: number,
    body: unknown,
    retryAfterMs = 0,
    code: 'API_REFUSED' | 'API_WATCH_REFUSED' = 'API_REFUSED',
  ) {
    const detail = textOf(peek(body, 'message')) || textOf(body)
    const reason = textOf(peek(body, 'reason'))
    const title = `${status} ${reason || (STATUS_CODES[status] ?? '')}`.trim()
    const message =
      detail === '' ? title : `${title}: ${printable(detail, longestMessage)}`
    super(code, message)
    this.status = status
    this.reason = reason
    const seconds = peek(peek(body, 'details'), 'retryAfterSeconds')
    const given = typeof seconds === 'number' ? seconds * 1000 : 0
    this.retryAfterMs = Math.min(Math.max(retryAfterMs, given, 0), longestRetryAfterMs)
    this.behind = causesOf(body).includes('ResourceVersionTooLarge')
  }
}

/** `details.causes[].reason` of a Status, which unlike its message is part of the API. */
const causesOf = (body: unknown): unknown[] => {
  const causes = peek(peek(body, 'details'), 'causes')
  return Array.isArray(causes) ? causes.map(cause => peek(cause, 'reason')) : []
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

/** An ApiError from the start of an error's body, which is a Status or whatever a proxy wrote. */
export const apiErrorOf = (
  status: number,
  headers: IncomingHttpHeaders,
  body: string,
): ApiError => {
  const parsed = parseJson(body)
  const retryAfterMs = retryAfterOf(headers['retry-after'])
  return new ApiError(status, parsed === undefined ? body.trim() : parsed, retryAfterMs)
}

/** Seconds or a date (RFC 9110, 10.2.3), in milliseconds from now. */
const retryAfterOf = (given: string | undefined): number => {
  if (given === undefined) return 0
  const ms = /^\d+$/.test(given) ? Number(given) * 1000 : Date.parse(given) - Date.now()
  return Number.isFinite(ms) ? ms : 0
}

/** The message of an error, on one line. */
export const errorText = (error: Error): string => {
  const { code, message } = error as NodeJS.ErrnoException
  // What IncomingMessage says when its connection ends before it does.
  if (code === 'ECONNRESET' && message === 'aborted') return 'the connection was cut'
  return printable(messageOf(error), 400) + ownAddressAdvice(error)
}

/** Who is refused at an address of this host dials itself, whoever gave the host that address. */
const ownAddressAdvice = (error: Error): string => {
  const all: unknown[] = error instanceof AggregateError ? error.errors : [error]
  const refused = new Set(
    all.map(one => peek(one, 'code') === 'ECONNREFUSED' && peek(one, 'address')),
  )
  const own = Object.values(networkInterfaces())
    .flatMap(infos => infos ?? [])
    .find(({ internal, address }) => !internal && refused.has(address))
  return own === undefined
    ? ''
    : `; ${own.address} is an address of this host: if the API server is elsewhere, "ip address" and "ip route show table local" say who gave it to this host, and usher cleanup removes it where it was an Usher that has ended`
}
