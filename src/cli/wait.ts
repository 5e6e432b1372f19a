import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { OptionsOf } from '../config/options.ts'
import type { WaitTarget } from '../config/types/wait-target.ts'
import { Backoff } from '../util/backoff.ts'
import type { Io } from './io.ts'
import { visible } from './words.ts'

/**
 * A sidecar dials for 3.75 s (the default of --dial-ladder) before it resets a client, and until
 * then a connection to nobody looks like one to a backend that says nothing.
 */
const routeStayMs = 4000
/** What says nothing to a SYN is tried anew, for its name may lead elsewhere by now. */
const connectMs = 5000
const pauses = { firstMs: 100, mostMs: 1000 }

/**
 * `usher wait`: 0 when something has accepted at every address, 1 when the time is over before.
 * `sayEveryMs`: how often it says what it waits for.
 */
export const wait = async (
  { for: targets, timeout, stay }: OptionsOf<'wait'>,
  io: Io,
  sayEveryMs = 3000,
): Promise<number> => {
  endOnSignals()
  const say = (what: string): void => io.err(`usher wait: ${visible(what)}\n`)
  const startedAt = performance.now()
  const waits = targets.map(async (target): Promise<boolean> => {
    const stayMs = target.isRoute ? Math.max(stay, routeStayMs) : stay
    return waitFor(target, { stayMs, timeoutMs: timeout, startedAt, sayEveryMs, say })
  })
  return (await Promise.all(waits)).every(Boolean) ? 0 : 1
}

/** The first process of a container gets no signal that it does not listen for. */
const endOnSignals = (): void => {
  process.once('SIGTERM', () => process.exit(143))
  process.once('SIGINT', () => process.exit(130))
}

interface Waiting {
  readonly stayMs: number
  readonly timeoutMs: number
  readonly startedAt: number
  readonly sayEveryMs: number
  readonly say: (what: string) => void
}

const waitFor = async (target: WaitTarget, waiting: Waiting): Promise<boolean> => {
  const { stayMs, timeoutMs, startedAt, sayEveryMs, say } = waiting
  const backoff = new Backoff(pauses)
  const passed = (): number => performance.now() - startedAt
  let saidAt = -Infinity
  for (;;) {
    const why = await attempt(target, stayMs, Math.max(1, timeoutMs - passed()))
    if (why === '') {
      say(`${target.text} accepts, after ${seconds(passed())}`)
      return true
    }
    const left = timeoutMs - passed()
    if (left <= 0) {
      say(`${target.text}: ${why}; given up after ${seconds(passed())}`)
      return false
    }
    if (passed() - saidAt >= sayEveryMs) {
      say(`${target.text}: ${why}; waiting, ${seconds(left)} left`)
      saidAt = passed()
    }
    await sleep(Math.min(backoff.next(), left))
  }
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`

/**
 * Connects once: why that does not count, '' when it does, because the connection stayed or a byte
 * came. `leftMs` is all the time there is.
 */
const attempt = (
  { host, port }: WaitTarget,
  stayMs: number,
  leftMs: number,
): Promise<string> =>
  new Promise(resolve => {
    // Of several addresses each gets so long.
    const socket = connect({ host, port, autoSelectFamilyAttemptTimeout: 1000 })
    let timer: NodeJS.Timeout | undefined
    const ends = (why: string) => (): void => {
      clearTimeout(timer)
      clearTimeout(last)
      socket.destroy()
      resolve(why)
    }
    let late = `no answer within ${seconds(Math.min(connectMs, leftMs))}`
    const last = setTimeout(() => ends(late)(), leftMs)
    timer = setTimeout(() => ends(late)(), connectMs)
    socket.on('connect', () => {
      clearTimeout(timer)
      late = 'it has accepted, and the time was over before that could count'
      timer = setTimeout(ends(''), stayMs)
    })
    socket.on('data', ends(''))
    socket.on('error', error => ends(reasonOf(error))())
    socket.on('close', ends('it accepted and closed the connection without a byte'))
  })

const words: ReadonlyMap<string, string> = new Map([
  ['ECONNREFUSED', 'it refuses connections'],
  ['ECONNRESET', 'it accepted and reset the connection without a byte'],
  ['ENOTFOUND', 'there is no such host name'],
  ['EAI_AGAIN', 'the host name could not be resolved for now'],
  ['EHOSTUNREACH', 'nobody has the address, or no route leads there'],
  ['ENETUNREACH', 'no route leads there'],
])

/** A name with several addresses fails with a list, and no message. */
const reasonOf = (error: NodeJS.ErrnoException): string => {
  const errors = error instanceof AggregateError ? (error.errors as Error[]) : [error]
  const reasons = errors.map(one => {
    const code = 'code' in one ? String(one.code) : ''
    const said = words.get(code)
    return said === undefined ? one.message || code : `${said} (${code})`
  })
  return [...new Set(reasons)].join(', ')
}
