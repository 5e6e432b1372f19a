import { connect, type Socket } from 'node:net'
import type { Bind } from '../../src/relay/relay.ts'
import { reset } from '../../src/relay/sockets/node/reset.ts'
import { until } from '../support/until.ts'
import { PatternCheck } from './pattern.ts'
import { disguisedReset } from './disguised-reset.ts'
import type { Guestbook, Served } from './server.ts'
import { readSlowly, sendPattern } from './streaming.ts'
import { headerOf, type Visit } from './visit.ts'

export interface Outcome {
  /**
   * `failed`: the client was refused or reset, and knows. `wrong`: bytes were lost or
   * changed and nobody was told, or the connection got stuck.
   */
  readonly verdict: 'right' | 'failed' | 'wrong'
  /** What was seen, '' when all was right. */
  readonly why: string
}

/** What the client saw. */
interface Seen {
  readonly check: PatternCheck
  readonly hasEnded: boolean
  readonly error: string
}

const stuckMs = 45_000
const tellsWithinMs = 10_000

/** One connection to the relay at `bind`, judged by what both ends saw of it. */
export const makeVisit = async (
  visit: Visit,
  { address, port }: Bind,
  book: Guestbook,
): Promise<Outcome> => {
  const seen = await visitBy(visit, connect({ host: address, port, ...socketOptions }))
  const served = await servedOf(visit, seen, book)
  book.delete(visit.seed)
  return judge(visit, seen, served)
}

const socketOptions = { allowHalfOpen: true, noDelay: true } as const

const visitBy = (visit: Visit, socket: Socket): Promise<Seen> =>
  new Promise(resolve => {
    const { seed, up, way, cutAt } = visit
    const check = new PatternCheck(seed + 1)
    let hasEnded = false
    let error = ''
    const timer = setTimeout(() => {
      error = 'stuck'
      reset(socket)
    }, stuckMs)
    socket.on('data', (chunk: Buffer) => check.take(chunk))
    if (way === 'slow-client') readSlowly(socket)
    socket.on('end', () => {
      error ||= disguisedReset(socket)
      if (error === '') hasEnded = true
      else socket.destroy()
    })
    socket.on('error', ({ code, message }: NodeJS.ErrnoException) => {
      if (error === '') error = code ?? message
    })
    socket.once('close', () => {
      clearTimeout(timer)
      resolve({ check, hasEnded, error })
    })
    socket.once('connect', () => {
      socket.write(headerOf(visit))
      const cuts = way === 'client-resets'
      sendPattern(socket, seed, cuts ? cutAt : up, () =>
        cuts ? reset(socket) : socket.end(),
      )
    })
  })

/** The server's end of it may be over a moment after the client's. */
const servedOf = async (
  visit: Visit,
  { error }: Seen,
  book: Guestbook,
): Promise<Served | undefined> => {
  const isOver = (): boolean => {
    const served = book.get(visit.seed)
    return served === undefined
      ? error !== '' || visit.way === 'client-resets'
      : served.isClosed
  }
  await until('the server has seen it, too', isOver, tellsWithinMs).catch(() => undefined)
  return book.get(visit.seed)
}

const judge = (visit: Visit, seen: Seen, served: Served | undefined): Outcome => {
  const why = `${visit.way} ${visit.up}/${visit.down} B: client got ${tell(seen)}; server ${served ? tell(served) : 'saw nothing'}`
  const verdict = verdictOf(visit, seen, served)
  return { verdict, why: verdict === 'right' ? '' : why }
}

const tell = ({ check, hasEnded, error }: Seen): string =>
  [
    `${check.received} B`,
    ...(check.wrongAt < 0 ? [] : [`WRONG from ${check.wrongAt} on`]),
    ...(hasEnded ? ['the end'] : []),
    ...(error === '' ? [] : [error]),
  ].join(', ')

const verdictOf = (
  { way, up, down }: Visit,
  seen: Seen,
  served: Served | undefined,
): Outcome['verdict'] => {
  const toServer = served?.check
  if (seen.check.wrongAt >= 0 || (toServer?.wrongAt ?? -1) >= 0) return 'wrong'
  if (seen.error === 'stuck' || served?.isClosed === false) return 'wrong'
  if (seen.hasEnded && seen.check.received < down) return 'wrong'
  const wasCut = served?.hasEnded === true && served.check.received < up
  if (wasCut) return 'wrong'
  if (way === 'client-resets') return 'right'
  // A reset is what it was to see; whether Usher's or the server's nobody can tell.
  if (way === 'server-resets')
    return served !== undefined && seen.error !== '' ? 'right' : 'failed'
  const isWhole =
    seen.error === '' &&
    seen.check.received === down &&
    served?.check.received === up &&
    served.error === ''
  return isWhole ? 'right' : 'failed'
}
