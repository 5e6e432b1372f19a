import { setTimeout as sleep } from 'node:timers/promises'
import * as v from 'valibot'
import type { OptionsOf } from '../config/options.ts'
import type { WaitTarget } from '../config/types/addresses.ts'
import { Backoff } from '../util/backoff.ts'
import { type Io, visible, clientsWait } from './io.ts'
import { joinHostPort, isWildcard, splitHostPort } from '../util/ip.ts'
import { connectTo } from '../util/connect-to.ts'
import { lookupHost } from '../source/routes/resolve-host.ts'
import { statusShapes } from '../observe/status.ts'
import { askPorts } from './ask-usher.ts'

/** What accepts and then ends the connection does so within a moment. */
const directStayMs = 500
/**
 * A sidecar dials for 3.75 s (--dial-ladder), refused or not, before it resets a client, and until
 * then a connection to nobody looks like one to a backend that says nothing. The rest is for a
 * sidecar without much of a core.
 */
const viaProxyStayMs = 5000
/** What says nothing to a SYN is tried anew, for its name may lead elsewhere by now. */
const connectMs = 5000
const pauses = { firstMs: 100, mostMs: 1000 }

/**
 * `usher wait`: 0 when something has accepted at every address, 1 when the time is over before.
 * `printEveryMs`: how often it prints what it waits for.
 */
export const wait = async (
  { for: targets, timeout, stay, address }: OptionsOf<'wait'>,
  io: Io,
  printEveryMs = 3000,
): Promise<number> => {
  endOnSignals()
  const printNote = (what: string): void => io.err(`usher wait: ${visible(what)}\n`)
  const startedAt = performance.now()
  const waits = targets.map(async (target): Promise<boolean> => {
    const stayMs = stay || (target.viaProxy ? viaProxyStayMs : directStayMs)
    return waitFor(target, {
      stayMs,
      timeoutMs: timeout,
      startedAt,
      printEveryMs,
      metrics: address,
      printNote,
    })
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
  readonly printEveryMs: number
  /** Of the Usher that may be in between (`host:port`). */
  readonly metrics: string
  readonly printNote: (what: string) => void
}

const waitFor = async (target: WaitTarget, waiting: Waiting): Promise<boolean> => {
  const { timeoutMs, startedAt, printEveryMs, printNote } = waiting
  const backoff = new Backoff(pauses)
  const passed = (): number => performance.now() - startedAt
  let printedAt = -Infinity
  let last = ''
  for (;;) {
    const { accepts, reason, wasCut } = await attempt(
      target,
      waiting,
      timeoutMs - passed(),
    )
    if (accepts) {
      printNote(`${target.text} accepts, after ${seconds(passed())}`)
      return true
    }
    // One that the timeout has cut short says less than the one before.
    if (!wasCut || last === '') last = reason
    const left = timeoutMs - passed()
    if (wasCut || left <= 0) {
      printNote(`${target.text}: ${last}; given up after ${seconds(passed())}`)
      return false
    }
    if (passed() - printedAt >= printEveryMs) {
      printNote(`${target.text}: ${reason}; waiting, ${seconds(left)} left`)
      printedAt = passed()
    }
    await sleep(Math.min(backoff.next(), left))
  }
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`

interface Outcome {
  readonly accepts: boolean
  /** Why it does not count. */
  readonly reason: string
  /** There was no more time. */
  readonly wasCut: boolean
}

/**
 * Connects once, for `leftMs` at most. It counts when a byte comes, or when the connection stays
 * and the Usher in between, if there is one that can be asked, lets none of its clients wait.
 */
const attempt = (
  { host, port, viaProxy }: WaitTarget,
  { stayMs, metrics }: Waiting,
  leftMs: number,
): Promise<Outcome> =>
  new Promise(resolve => {
    const socket = connectTo(host, port, { lookup: lookupHost })
    let progress = 'no answer'
    let timer: NodeJS.Timeout | undefined
    const ends = (accepts: boolean, reason: string, wasCut = false): void => {
      clearTimeout(timer)
      clearTimeout(cut)
      socket.destroy()
      resolve({ accepts, reason, wasCut })
    }
    const accepts = (): void => ends(true, '')
    const hasStayed = async (): Promise<void> => {
      const { remoteAddress = host, remotePort = port } = socket
      const waiting = await whoWaits(metrics, joinHostPort(remoteAddress, remotePort))
      ends(waiting === '', `it accepted, but ${waiting}`)
    }
    const cut = setTimeout(() => ends(false, progress, true), leftMs)
    timer = setTimeout(() => ends(false, progress), connectMs)
    // Of several addresses each has its own time.
    socket.on('connectionAttempt', () => timer?.refresh())
    socket.on('connect', () => {
      clearTimeout(timer)
      progress = `it accepted, and has to stay for ${seconds(stayMs)} or say something`
      // What has come meanwhile is read first, should this process have had to wait for a core.
      timer = setTimeout(() => setImmediate(viaProxy ? hasStayed : accepts), stayMs)
    })
    socket.on('data', accepts)
    socket.on('error', error => ends(false, reasonOf(error)))
    socket.on('close', () =>
      ends(false, 'it accepted and closed the connection without a byte'),
    )
  })

const errorTexts: ReadonlyMap<string, string> = new Map([
  ['ENOENT', 'there is no such socket'],
  ['EACCES', 'no permission to connect'],
  ['ECONNREFUSED', 'it refuses connections'],
  ['ECONNRESET', 'it accepted and reset the connection without a byte'],
  ['ENOTFOUND', 'there is no such host name'],
  ['EAI_AGAIN', 'the host name could not be resolved for now'],
  ['EHOSTUNREACH', 'no host has the address, or no route leads there'],
  ['ENETUNREACH', 'no route leads there'],
])

/** A name with several addresses fails with a list, and no message. */
const reasonOf = (error: NodeJS.ErrnoException): string => {
  const errors = error instanceof AggregateError ? (error.errors as Error[]) : [error]
  const reasons = errors.map(one => {
    const code = 'code' in one ? String(one.code) : ''
    const text = errorTexts.get(code)
    return text === undefined ? one.message || code : `${text} (${code})`
  })
  return [...new Set(reasons)].join(', ')
}

const waitingShape = v.pick(statusShapes.servicePort, [
  'servicePort',
  'protocol',
  'vips',
  'paused',
  'held',
  'queued',
])

type WaitingPort = v.InferOutput<typeof waitingShape>

/** An answer later than that is none. */
const answerMs = 3000

/**
 * What the clients of a route wait for, by the Usher at the metrics address (`host:port`); '' when
 * none of them waits, and when nothing is known of that. `listen`: where a client has connected to
 * (`ip:port`). Never rejects.
 */
const whoWaits = async (metrics: string, listen: string): Promise<string> => {
  try {
    const where = { controlSocket: '', address: metrics }
    const { servicePorts } = await askPorts(where, waitingShape, answerMs)
    const route = servicePorts.find(port => listensAt(port, listen))
    return route === undefined ? '' : waitingText(route)
  } catch {
    return ''
  }
}

const listensAt = ({ protocol, vips }: WaitingPort, listen: string): boolean => {
  const port = splitHostPort(listen)?.port
  return (
    protocol === 'TCP' &&
    vips.some(({ vip }) => {
      if (vip === listen) return true
      const own = splitHostPort(vip)
      if (own === undefined || own.port !== port) return false
      return isWildcard(own.host) || joinHostPort(own.host, own.port) === listen
    })
  )
}

const waitingText = (port: WaitingPort): string => {
  const { servicePort, held, queued, paused } = port
  if (!held) return !queued ? '' : `${clientsWait(queued, servicePort)} for a place`
  const what = paused === null ? 'an endpoint' : 'the end of a pause'
  return `${clientsWait(held, servicePort)} for ${what}`
}
