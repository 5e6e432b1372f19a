import { type IncomingMessage, request } from 'node:http'
import { type AddressPort, joinHostPort } from '../../util/ip.ts'
import {
  type CheckLimits,
  type CheckOf,
  type CheckOutcome,
  failed,
  passed,
} from '../check.ts'
import { givenUp, quote, socketFailure, tooLate } from '../failure-words.ts'

/** Of an answer's body, which is of no interest. */
const most = { bytes: 64 * 1024, ms: 200 }

/** Up is what answers a GET with a status that is wanted; a redirect is not followed. */
export const checkHttp = (
  { address, port }: AddressPort,
  host: string,
  { path, statuses }: CheckOf<'http'>,
  limits: CheckLimits,
): Promise<CheckOutcome> =>
  new Promise(resolve => {
    const { timeoutMs, signal } = limits
    if (signal.aborted) return resolve(givenUp)
    let outcome: CheckOutcome | undefined
    const end = (found: CheckOutcome): void => {
      outcome ??= found
      ask.destroy()
    }
    const headers = { Host: joinHostPort(host, port), Connection: 'close' }
    const ask = request({ host: address, port, path, headers, agent: false })
    let timer = setTimeout(
      () => end(tooLate(ask.socket?.connecting === false, limits)),
      timeoutMs,
    )
    const giveUp = (): void => end(givenUp)
    signal.addEventListener('abort', giveUp)
    ask.once('response', response => {
      outcome ??= statusOutcome(response.statusCode ?? 0, statuses)
      clearTimeout(timer)
      timer = setTimeout(() => ask.destroy(), most.ms)
      passOver(response, () => ask.destroy())
    })
    ask.once('upgrade', ({ statusCode = 0 }) => end(statusOutcome(statusCode, statuses)))
    ask.on('error', error => end(failureOf(error)))
    ask.once('close', () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', giveUp)
      resolve(outcome ?? failed('closed without an answer'))
    })
    ask.end()
  })

const statusOutcome = (status: number, wanted: readonly number[]): CheckOutcome =>
  wanted.includes(status)
    ? passed
    : failed(`HTTP status ${status}, ${wanted.join(' or ')} wanted`)

const passOver = (response: IncomingMessage, tooMuch: () => void): void => {
  let bytes = 0
  response.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > most.bytes) tooMuch()
  })
  // Its status has been read: how the rest ends does not matter.
  response.on('error', () => {})
}

/** The parser's errors begin with HPE_ and carry what was received. */
const failureOf = (
  error: NodeJS.ErrnoException & { readonly rawPacket?: Buffer },
): CheckOutcome => {
  if (error.message === 'socket hang up') return failed('closed without an answer')
  if (error.code?.startsWith('HPE_') !== true) return socketFailure(error)
  const heard = error.rawPacket === undefined ? '' : `: ${quote(error.rawPacket)}`
  return failed(`no HTTP answer${heard}`)
}
