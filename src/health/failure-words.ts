import { errorCode, isOutOfResources } from '../util/error-code.ts'
import { printable, show } from '../util/printable.ts'
import { type CheckLimits, type CheckOutcome, failed } from './check.ts'

const words: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  ETIMEDOUT: 'connection timed out',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  ENOENT: 'there is no such socket',
  ENOTSUP: 'checks of abstract sockets take Node 22',
  EACCES: 'no permission to connect',
  EADDRNOTAVAIL: 'no local port is free',
}

/** What came of a check whose socket failed. */
export const socketFailure = (error: NodeJS.ErrnoException): CheckOutcome => {
  const code = errorCode(error)
  const why = words[code] ?? code
  return isOutOfResources(code) || code === 'EADDRNOTAVAIL' ? unchecked(why) : failed(why)
}

/** The same over TLS, where the certificate may be what is wrong. */
export const tlsFailure = (error: NodeJS.ErrnoException): CheckOutcome =>
  Object.hasOwn(words, errorCode(error))
    ? socketFailure(error)
    : failed(`TLS: ${printable(error.message, 200)}`)

/** Something here keeps it from being asked. */
export const unchecked = (why: string): CheckOutcome => ({
  ok: false,
  why: `not checked: ${why}`,
  here: true,
})

export const tooLate = (
  isConnected: boolean,
  { timeoutMs }: Pick<CheckLimits, 'timeoutMs'>,
): CheckOutcome =>
  failed(`${isConnected ? 'no answer' : 'not connected'} within ${timeoutMs / 1000} s`)

export const givenUp: CheckOutcome = unchecked('ended')

/** The first of the bytes of an answer, as they are told to a person. */
export const quote = (bytes: Uint8Array): string =>
  show(Buffer.from(bytes.subarray(0, 40)).toString('latin1').trimEnd())
