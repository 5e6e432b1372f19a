import { request } from 'node:http'
import * as v from 'valibot'
import type { OptionsOf } from '../config/options.ts'
import { UsageError } from '../config/usage-error.ts'
import {
  ordered,
  type Ordered,
  type PauseRequest,
  refused,
  type ResumeRequest,
} from '../observe/control-protocol.ts'
import { whyNotTrusted } from '../observe/socket-file.ts'
import { errorCode } from '../util/error-code.ts'
import { textOf } from '../util/read-text.ts'
import { errorOf, hasCode, UsherError } from '../util/usher-error.ts'
import type { Io } from './io.ts'
import { visible } from './words.ts'

/** Usher answers within 10 s, also when an order has not come into effect by then. */
const timeoutMs = 15_000
const longestAnswer = 1 << 20

/** `usher pause`: 0 when the routes are paused, also when they were before; 1 when one is not. */
export const pause = (options: OptionsOf<'pause'>, io: Io): Promise<number> => {
  const { name, reset, for: ms, controlSocket } = options
  const order: PauseRequest = { routes: [...name], reset, ...(ms > 0 && { forMs: ms }) }
  return give('pause', controlSocket, order, io)
}

/** `usher resume`: 0 when the routes are not paused, also when they were not before; else 1. */
export const resume = (options: OptionsOf<'resume'>, io: Io): Promise<number> => {
  const order: ResumeRequest = { routes: [...options.name] }
  return give('resume', options.controlSocket, order, io)
}

const give = async (
  command: 'pause' | 'resume',
  path: string,
  order: PauseRequest | ResumeRequest,
  io: Io,
): Promise<number> => {
  if (path === '')
    throw new UsageError(
      'no control socket given; give --control-socket PATH, as Usher was given it, or set USHER_CONTROL_SOCKET',
      command,
    )
  try {
    const { routes, notes } = await answerTo(path, `/${command}`, order)
    const isWanted = ({ paused }: Outcome): boolean =>
      (paused !== null) === (command === 'pause')
    const others = routes.filter(route => !isWanted(route))
    for (const route of routes.filter(isWanted)) io.out(`${visible(outcome(route))}\n`)
    for (const note of [...notes, ...others.map(undone)])
      io.err(`usher ${command}: ${visible(note)}\n`)
    return others.length === 0 ? 0 : 1
  } catch (error) {
    if (!hasCode(error, 'ORDER_REFUSED')) throw error
    io.err(`usher ${command}: ${visible(error.message)}\n`)
    return 1
  }
}

type Outcome = Ordered['routes'][number]

const outcome = ({ route, wasPaused, paused }: Outcome): string => {
  if (paused === null) return `${route}: ${wasPaused ? 'resumed' : 'was not paused'}`
  const end = paused.until ?? 'it is resumed'
  return `${route}: ${wasPaused ? 'was paused before; it is so' : 'paused'} until ${end}`
}

/** The order was carried out, and is so no more: nobody may rely on it. */
const undone = ({ route, paused }: Outcome): string =>
  paused === null
    ? `${route} is not paused any more: --for was over before it could take effect, someone has resumed it, or it is gone`
    : `${route} is paused: someone has paused it again meanwhile`

const refusal = (message: string): UsherError => new UsherError('ORDER_REFUSED', message)

/** Rejects with ORDER_REFUSED, and the reason in words. */
const answerTo = async (
  path: string,
  url: string,
  order: PauseRequest | ResumeRequest,
): Promise<Ordered> => {
  const signal = AbortSignal.timeout(timeoutMs)
  let body: string
  try {
    const why = whyNotTrusted(path)
    if (why !== '') throw refusal(why)
    body = await post(path, url, JSON.stringify(order), signal)
  } catch (error) {
    const why = signal.aborted
      ? `no answer within ${timeoutMs / 1000} s; ask again, as the order may have been carried out`
      : reasonOf(errorOf(error))
    throw refusal(`${path}: ${why}`)
  }
  return decode(path, body)
}

const post = (
  socketPath: string,
  path: string,
  body: string,
  signal: AbortSignal,
): Promise<string> =>
  new Promise((resolve, reject) => {
    const headers = {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(body),
    }
    const options = { socketPath, path, method: 'POST', headers, signal, agent: false }
    const sent = request(options, response => void read(response).then(resolve, reject))
    sent.on('error', reject)
    sent.end(body)
  })

const read = async (response: AsyncIterable<Buffer>): Promise<string> => {
  const text = await textOf(response, longestAnswer)
  if (text === undefined) throw refusal('its answer is too long')
  return text
}

const decode = (path: string, body: string): Ordered => {
  let raw: unknown
  try {
    raw = JSON.parse(body)
  } catch {
    // As the server says what is not an order's outcome: a path it does not know, a socket that
    // has become another's.
    throw refusal(`${path}: ${body.trim().slice(0, 300) || 'an empty answer'}`)
  }
  const done = v.safeParse(ordered, raw)
  if (done.success) return done.output
  const why = v.safeParse(refused, raw)
  throw refusal(
    why.success
      ? why.output.error.message
      : `${path}: this version of usher does not understand its answer`,
  )
}

const reasonOf = (error: NodeJS.ErrnoException): string => {
  const code = errorCode(error)
  if (code === 'EPIPE' || code === 'ECONNRESET')
    return 'Usher has ended the connection without an answer, as it does when it ends or has more than 32 orders at a time; ask again, as the order may have been carried out'
  if (code === 'EACCES') return 'permission denied: only the user that Usher runs as may'
  if (code === 'ECONNREFUSED') return 'nothing listens on it; is Usher running?'
  return hasCode(error, 'ORDER_REFUSED') ? error.message : error.message || code
}
