import type { ProxyVersion } from '../util/proxy-header.ts'
import { errorCode, isOutOfResources } from '../util/usher-error.ts'
import { printable, show } from '../util/printable.ts'

/** When checks are made, and how many of them turn an endpoint up or down. */
export interface CheckRules {
  readonly intervalMs: number
  readonly timeoutMs: number
  /** Failures in a row after which it is down. */
  readonly fall: number
  /** Successes in a row after which it is up. */
  readonly rise: number
  /** What it is taken for before its first check. */
  readonly init: 'up' | 'down'
}

/** `init` as for a check that asks whether a server is there at all. */
export const usualRules: CheckRules = {
  intervalMs: 2000,
  timeoutMs: 2000,
  fall: 3,
  rise: 2,
  init: 'up',
}

/** Whom a check asks. */
export interface CheckedEndpoint {
  readonly address: string
  readonly port: number
  /** The name that its address was found by; '' when it was given by address. */
  readonly host: string
  /** It expects a header of the PROXY protocol, at its own port. */
  readonly proxyProtocol?: ProxyVersion | undefined
  readonly tier?: number | undefined
  /** One with 0 is for when the others of its tier fail. */
  readonly weight?: number | undefined
}

export type CheckOutcome =
  | {
      readonly ok: true
      /** What could be mended all the same, for a person. */
      readonly note?: string
    }
  | {
      readonly ok: false
      /** For a person: `HTTP status 503, expected 200`. */
      readonly reason: string
      /** It failed for something on this side: nothing is known of the endpoint. */
      readonly here?: true
      /** It has answered that it is not what is asked for: hardly a slip. */
      readonly answered?: true
    }

export interface CheckLimits {
  /** All of a check is over by then. */
  readonly timeoutMs: number
  /** Gives the check up. */
  readonly signal: AbortSignal
}

export const failed = (reason: string): CheckOutcome => ({ ok: false, reason })

/** By the endpoint's own answer. */
export const denied = (reason: string): CheckOutcome => ({
  ok: false,
  reason,
  answered: true,
})

export const passed: CheckOutcome = { ok: true }

const errorTexts: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  ETIMEDOUT: 'connection timed out',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  ENOENT: 'there is no such socket',
  ENOTSUP: 'checks of abstract sockets need Node 22',
  EACCES: 'no permission to connect',
  EADDRNOTAVAIL: 'no local port is free',
}

/** What came of a check whose socket failed. */
export const socketFailure = (error: NodeJS.ErrnoException): CheckOutcome => {
  const code = errorCode(error)
  const reason = errorTexts[code] ?? code
  return isOutOfResources(code) || code === 'EADDRNOTAVAIL'
    ? unchecked(reason)
    : failed(reason)
}

/** The same over TLS, where the certificate may be what is wrong. */
export const tlsFailure = (error: NodeJS.ErrnoException): CheckOutcome =>
  Object.hasOwn(errorTexts, errorCode(error))
    ? socketFailure(error)
    : failed(`TLS: ${printable(error.message, 200)}`)

/** Something here keeps it from being asked. */
export const unchecked = (reason: string): CheckOutcome => ({
  ok: false,
  reason: `not checked: ${reason}`,
  here: true,
})

export const tooLate = (
  isConnected: boolean,
  { timeoutMs }: Pick<CheckLimits, 'timeoutMs'>,
): CheckOutcome =>
  failed(`${isConnected ? 'no answer' : 'not connected'} within ${timeoutMs / 1000} s`)

export const givenUp: CheckOutcome = unchecked('ended')

/** The first of the bytes of an answer, as they are shown to a person. */
export const quote = (bytes: Uint8Array): string =>
  show(Buffer.from(bytes.subarray(0, 40)).toString('latin1').trimEnd())
