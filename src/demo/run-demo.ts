import { demoError, planOf, type PlannedBackend } from './plan.ts'
import type { DrainResult } from '../relay/relay.ts'
import type { StatusDocument, VipStatus } from '../observe/status.ts'
import type { Source } from '../source/source.ts'
import type { Clock, Timer } from '../util/clock.ts'
import { Backends, type Backend } from './backends.ts'
import { type Expectation, echo, flaky, spread, sticky } from './sections.ts'
import { firstState, fixedSource, ontoOneAddress, type Placement } from './demo-source.ts'
import { untilListening } from './ready.ts'
import type { Screen } from './screen.ts'
import { type Stage, servicePortOf, targetOf, textOfTarget } from './stage.ts'
import { hasCode, messageOf } from '../util/usher-error.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { askHttp, openUdpClient, type Answer } from './clients.ts'

/** What the demo needs of a running Usher. */
export interface DemoProxy {
  status(): Promise<StatusDocument>
  /** `ip:port`; '' when it is off. */
  metricsAddress(): string
  drain(ms: number): Promise<DrainResult>
  close(): Promise<void>
}

export interface DemoDeps {
  /** Reads the example's manifest; called anew for each reader. */
  readonly manifest: () => Source
  /** Starts Usher over a source; with `proxyPortsOnly` it listens on no VIP. */
  readonly startProxy: (source: Source, proxyPortsOnly: boolean) => Promise<DemoProxy>
  /** Do it all once, check it, and end; else stay up until `stop`. */
  readonly once: boolean
  /** Whether this system answers on all of 127.0.0.0/8, or on 127.0.0.1 alone. */
  readonly allOfLoopback: boolean
  readonly screen: Screen
  readonly clock: Clock
  readonly stop: AbortSignal
  /** How this Usher is called: `usher`, `node dist/usher.js`. */
  readonly usher: string
  /** Milliseconds before a killed backend is started again: 2000 by default. */
  readonly restartMs?: number
  /** Milliseconds between lines of live figures: 1000 by default. */
  readonly everyMs?: number
}

/** Long enough for what the demo itself has open. */
const drainMs = 500

const clientAddresses = ['127.0.0.11', '127.0.0.12', '127.0.0.13', '127.0.0.14']

type Undo = (() => Promise<unknown>)[]

/**
 * The whole demo. Resolves to the exit code: 0, or 1 when it could not be shown or
 * (with `once`) did not come out as expected. All it started has ended by then.
 */
export const runDemo = async (deps: DemoDeps): Promise<number> => {
  const undo: Undo = []
  try {
    return await perform(deps, undo)
  } catch (error) {
    if (!hasCode(error, 'DEMO')) throw error
    deps.screen.line()
    deps.screen.warn(`The demo can't go on: ${error.message}`)
    return 1
  } finally {
    await unwind(undo)
  }
}

/** The last step first; one that fails does not keep the others from being done. */
const unwind = async (undo: Undo): Promise<void> => {
  const errors: unknown[] = []
  for (const step of undo.toReversed()) {
    await step().catch((error: unknown) => errors.push(error))
  }
  if (errors.length > 0) throw new AggregateError(errors, 'the demo did not end cleanly')
}

const perform = async (deps: DemoDeps, undo: Undo): Promise<number> => {
  const { screen, stop, once } = deps
  screen.heading('Usher demo')
  screen.line(
    'Clients dial a Service. Usher passes each connection on to one of its backends.',
  )
  const { stage, proxy, backends } = await setUp(deps, undo)
  screen.line()
  showServices(screen, stage, backends.list())

  const expectations = await showSections(stage, screen, stop)
  if (once) {
    if (stop.aborted) throw demoError('it was stopped before the end')
    screen.summary(expectations)
    return expectations.every(({ ok }) => ok) ? 0 : 1
  }
  if (stop.aborted) return 0
  const running = backends.list()
  const metrics = proxy.metricsAddress()
  showWhatToType(screen, { stage, running, metrics, usher: deps.usher })
  await live({ ...deps, stage, everyMs: deps.everyMs ?? 1000 })
  return 0
}

const setUp = async (deps: DemoDeps, undo: Undo) => {
  const { screen, allOfLoopback, clock, restartMs = 2000 } = deps
  const changes = await firstState(deps.manifest())
  const plan = planOf(changes)
  const backends = new Backends(plan.backends, {
    clock,
    restartMs,
    oneAddress: !allOfLoopback,
    print: text => screen.warn(text),
  })
  undo.push(() => backends.stop())
  await backends.start()

  if (!allOfLoopback) {
    screen.line()
    screen.line()
    screen.warn('This system has only 127.0.0.1 for TCP and UDP. So backends get ports')
    screen.warn(
      'of it, and Usher a proxy port of it for each Service in place of its VIP.',
    )
    screen.line()
  }
  const source = allOfLoopback
    ? deps.manifest()
    : fixedSource('demo', ontoOneAddress(changes, placement(backends.list())))
  const proxy = await deps.startProxy(source, !allOfLoopback)
  undo.push(() => proxy.close())
  undo.push(() => proxy.drain(drainMs))
  let seen = await untilListening(proxy, clock)

  const stage: Stage = {
    backends: plan.backends,
    clientAddresses: allOfLoopback ? clientAddresses : ['127.0.0.1'],
    status: () => seen,
    look: async () => void (seen = await proxy.status()),
  }
  return { stage, proxy, backends }
}

/** Dead backends go to ports that are not in use: 1 (tcpmux), 2, ... */
const placement = (running: readonly Backend[]): Placement => {
  const dead = new Map<string, number>()
  return (address, protocol, port) => {
    const found = running.find(
      one => one.address === address && one.protocol === protocol && one.port === port,
    )
    if (found) return found.listensOn.port
    const key = `${address} ${protocol} ${port}`
    const unused = dead.get(key) ?? dead.size + 1
    dead.set(key, unused)
    return unused
  }
}

const showSections = async (
  stage: Stage,
  screen: Screen,
  stop: AbortSignal,
): Promise<readonly Expectation[]> => {
  const expectations: Expectation[] = []
  for (const show of [spread, sticky, flaky, echo]) {
    if (stop.aborted) break
    const section = await show(stage)
    expectations.push(section.expectation)
    screen.section(expectations.length, section)
  }
  return expectations
}

const vipText = ({ vip, listen }: VipStatus): string =>
  vip === listen ? vip : `${vip}, dial ${listen}`

/** Every Service with its address and what stands behind it. */
const showServices = (
  screen: Screen,
  stage: Stage,
  running: readonly Backend[],
): void => {
  const shown = new Map<string, readonly PlannedBackend[]>()
  for (const one of stage.backends) {
    const key = `${one.service} ${one.protocol}`
    shown.set(key, [...(shown.get(key) ?? []), one])
  }
  for (const [first, ...others] of shown.values()) {
    if (!first) continue
    const { service, protocol } = first
    const { vips } = servicePortOf(stage, service, protocol)
    const names = [first, ...others].map(({ name, dead }) => {
      const pid = running.find(r => r.name === name && r.protocol === protocol)?.pid
      return dead ? `${name} (dead)` : `${name} (pid ${pid ?? '?'})`
    })
    screen.row(service, `${protocol} ${vips.map(vipText).join(', ')}`, 6)
    screen.quiet(`          → ${names.join(', ')}`)
  }
}

interface Addresses {
  readonly stage: Pick<Stage, 'status'>
  readonly running: readonly Backend[]
  /** `ip:port`; '' when it is off. */
  readonly metrics: string
  /** How this Usher is called: `usher`, `node dist/usher.js`. */
  readonly usher: string
}

/** What a newcomer can type now. */
const showWhatToType = (screen: Screen, from: Addresses): void => {
  const { stage, running, metrics, usher } = from
  const victim = running.find(one => one.name === 'web-2') ?? running[0]
  const web = textOfTarget(targetOf(stage, 'web'))
  const stickyAt = textOfTarget(targetOf(stage, 'sticky'))
  const rows: readonly (readonly [command: string, meaning: string])[] = [
    ...(metrics === ''
      ? []
      : [[`http://${metrics}/`, 'in a browser: all of it, live'] as const]),
    [`curl http://${web}`, "a backend, by turns with the demo's own clients"],
    [`curl http://${stickyAt}`, 'always the same backend'],
    ...(victim?.pid === undefined
      ? []
      : [[`kill ${victim.pid}`, `ends ${victim.name}: no request fails`] as const]),
    ...(metrics === ''
      ? []
      : ([
          [`${usher} status --address ${metrics}`, 'what Usher knows and does'],
          [`curl http://${metrics}/metrics`, 'the same for Prometheus'],
        ] as const)),
    ['Ctrl-C', 'here, ends the demo'],
  ]
  const width = Math.max(...rows.map(([command]) => command.length))
  screen.line()
  screen.heading(
    'Your turn. All of this keeps running; open, or type in another terminal,',
  )
  for (const [command, meaning] of rows) screen.row(command, meaning, width)
  screen.line()
}

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
const live = async (deps: LiveDeps): Promise<void> => {
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
  const sum = (of: (one: (typeof servicePorts)[number]) => number | null): number =>
    servicePorts.reduce((total, one) => total + (of(one) ?? 0), 0)
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
