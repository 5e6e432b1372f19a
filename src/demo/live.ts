import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock, Timer } from '../util/clock.ts'
import type { Screen } from './screen.ts'
import { type Stage, targetOf } from './stage.ts'
import type { StatusDocument } from '../observe/status.ts'
import { askHttp, openUdpClient, type Answer } from './clients.ts'
import { messageOf } from '../util/usher-error.ts'

interface LiveDeps {
  readonly stage: Pick<Stage, 'status' | 'look'>
  readonly screen: Screen
  readonly clock: Clock
  /** Milliseconds between two lines of figures. */
  readonly everyMs: number
  readonly stop: AbortSignal
}

/** Lines after which the header is said again, before it has scrolled away. */
const headerEvery = 20

const waited = (ms: number, signal: AbortSignal): Promise<boolean> =>
  sleep(ms, true, { signal }).catch(() => false)

/** Sends gentle traffic and shows a line of figures a second until `stop`. */
export const live = async (deps: LiveDeps): Promise<void> => {
  const { stage, screen, clock, stop, everyMs } = deps
  const failures: string[] = []
  const background = startBackground(stage, clock, text => void failures.push(text))
  await stage.look()
  const first = figuresOf(stage.status())
  let before = first
  let at = clock.now()
  for (let count = 0; await waited(everyMs, stop); count++) {
    if (count % headerEvery === 0) screen.heading(figuresHeader)
    await stage.look()
    const now = figuresOf(stage.status())
    const seconds = (clock.now() - at) / 1000
    const failed = now.failed - first.failed
    const time = new Date().toTimeString().slice(0, 8)
    screen.line(figuresLine(time, before, now, failed, seconds))
    showFailures(screen, failures.splice(0))
    before = now
    at = clock.now()
  }
  await background.stop()
  showFailures(screen, failures)
  const { asked, failed } = background.outcome
  screen.line()
  screen.line(`The demo sent ${asked} requests meanwhile; ${failed || 'none'} failed.`)
}

/** One line for all of a second: a Service taken out of the manifest fails each time. */
const showFailures = (screen: Screen, failures: readonly string[]): void => {
  const [first, ...others] = failures
  if (first === undefined) return
  screen.warn(others.length === 0 ? first : `${first} (and ${others.length} more)`)
}

/** What one line of live figures is made of, summed over all ServicePorts. */
interface Figures {
  /** TCP connections accepted since Usher started; the demo makes one for each request. */
  readonly accepted: number
  /** TCP connections and UDP flows open now. */
  readonly active: number
  readonly retries: number
  readonly failed: number
  /** UDP datagrams in both directions. */
  readonly datagrams: number
}

export const figuresOf = ({ servicePorts }: StatusDocument): Figures => {
  const sum = (of: (one: (typeof servicePorts)[number]) => number): number =>
    servicePorts.reduce((total, one) => total + of(one), 0)
  return {
    accepted: sum(one => (one.protocol === 'TCP' ? one.accepted : 0)),
    active: sum(one => one.active),
    retries: sum(one => one.retries),
    failed: sum(one => one.failed),
    datagrams: sum(one => one.datagrams),
  }
}

const columns = ['time    ', 'requests/s', 'active', 'retries/s', 'datagrams/s', 'failed']

export const figuresHeader = columns.join('  ')

/**
 * One line: rates over the `seconds` from `before` to `now`; `failed` is the total since
 * the figures began, so that a single failure stays in sight.
 */
export const figuresLine = (
  time: string,
  before: Figures,
  now: Figures,
  failed: number,
  seconds: number,
): string => {
  const rate = (of: 'accepted' | 'retries' | 'datagrams'): string =>
    String(Math.round(Math.max(0, now[of] - before[of]) / seconds))
  const cells = [
    time,
    rate('accepted'),
    String(now.active),
    rate('retries'),
    rate('datagrams'),
    String(failed),
  ]
  return cells.map((cell, i) => cell.padStart(columns[i]?.length ?? 0)).join('  ')
}

/** 20 requests a second. */
const paceMs = 50

/** What the demo's own traffic came to. */
interface Outcome {
  asked: number
  failed: number
}

const failureOf = (error: unknown): Answer => ({
  error: messageOf(error),
})

/**
 * Keeps the figures moving, gently, and is the proof that killing a backend fails no
 * request: every failure is shown. `stop` resolves when the last request has its answer.
 */
const startBackground = (
  stage: Pick<Stage, 'status'>,
  clock: Clock,
  onFailure: (text: string) => void,
): { readonly outcome: Readonly<Outcome>; stop(): Promise<void> } => {
  const udp = openUdpClient()
  const outcome: Outcome = { asked: 0, failed: 0 }
  const underway = new Set<Promise<void>>()
  const ask = async (service: string, asking: () => Promise<Answer>): Promise<void> => {
    outcome.asked += 1
    // A Service that was taken out of the manifest has no target: that is a failure too.
    const answer = await asking().catch(failureOf)
    if (!('error' in answer)) return
    outcome.failed += 1
    onFailure(`a request to ${service} failed: ${answer.error}`)
  }
  const track = (asked: Promise<void>): void => {
    underway.add(asked)
    void asked.finally(() => underway.delete(asked))
  }
  const services = ['web', 'flaky', 'web', 'sticky'] as const
  let turn = 0
  let timer: Timer | undefined
  const step = (): void => {
    timer = clock.setTimeout(step, paceMs)
    const service = services[turn++ % services.length] ?? 'web'
    track(ask(service, async () => askHttp(targetOf(stage, service))))
    if (turn % services.length === 0)
      track(ask('echo', async () => udp.ask(targetOf(stage, 'echo', 'UDP'))))
  }
  step()
  return {
    outcome,
    stop: async () => {
      clock.clearTimeout(timer)
      await Promise.all(underway)
      udp.close()
    },
  }
}
