import { type Clock, within } from '../../util/clock.ts'
import { Deferred } from '../../util/deferred.ts'
import { forEachYielding } from '../../util/list-diff.ts'
import { ReceivedLines } from '../access-log/access-lines.ts'
import type { WantedRelay } from '../choose-relay.ts'
import { causes } from '../counters.ts'
import { noNodeClients } from '../node-clients.ts'
import {
  type QueryResult,
  type QueryParams,
  type QueryName,
  emptyResults,
} from '../queries.ts'
import type {
  DrainResult,
  HandedOver,
  HandOverPlace,
  HandsOver,
  Inheritance,
  NodeClients,
  Relay,
  RelayLimits,
  RelayListener,
  RelayObserver,
  RelayStats,
  TakenOver,
} from '../relay.ts'
import { type NewsObserver, NewsReader } from '../remote/news-reader.ts'
import { Remote, type RemoteEnding, RemoteGone } from '../remote/remote.ts'
import { Restarts } from '../remote/restarts.ts'
import {
  DataPlaneProcess,
  type DataPlaneProgram,
  describeEnding,
  startError,
} from './data-plane-process.ts'
import { LastBinds, LastStats } from './last-stats.ts'
import type { Call, DataPlaneSelf, OrphanPlace, Setup, StatsPage } from './messages.ts'
import { listenerChanges } from '../listener-changes.ts'

export interface SupervisedRelayDeps {
  readonly clock: Clock
  /** 0 <= n < 1. */
  readonly random: () => number
  /** What is to run in the process. */
  readonly relay: WantedRelay
  readonly limits: RelayLimits
  readonly observer: RelayObserver
  /** RLIMIT_NOFILE of this process: the other one inherits it, and has it for itself. */
  readonly openFileLimit: number
  /** Threads; 0: as many as fit the machine. */
  readonly workers: number
  /** What is applied has been lost with the process, and is to be applied again. */
  readonly lost?: () => void
  readonly program: DataPlaneProgram
  /** Where a data plane waits that this process leaves behind; see `Setup`. */
  readonly orphan?: OrphanPlace | undefined
  /** Ends this process, as there is a data plane that can't be. Default: process.exit(1). */
  readonly endProcess?: () => void
}

/**
 * Milliseconds for a read of the figures; after that the last known ones count. Less than
 * the 3 s that `usher status` waits.
 */
const readTimeoutMs = 2000
/** Milliseconds between two starts of one that dies again and again. */
const longestPauseMs = 10_000
/** 10 s without an answer to a ping. Starting may take longer. */
const patience = { checkMs: 1000, mostSilent: 10, mostAtStart: 30 }
/** Milliseconds it has to leave in when it is asked to. */
const leaveMs = 1000
/** Milliseconds that the kernel may take to end a process, of which 100 000 sockets take one. */
const deadMs = 10_000

/**
 * A relay in a process of its own (the data plane), which is started again when it dies
 * and given the whole state. What dies with it: connections, UDP flows, affinity, and what
 * was counted since the last read. The first one has to come to serve.
 */
export class SupervisedRelay implements Relay, HandsOver {
  readonly #deps: SupervisedRelayDeps
  #setup: Setup
  readonly #restarts: Restarts
  readonly #news: NewsReader
  readonly #binds = new LastBinds()
  readonly #lastStats: LastStats
  #wanted: readonly RelayListener[] = []
  #nodeClients = noNodeClients
  #remote: Remote<Call, DataPlaneSelf> | undefined
  #process: DataPlaneProcess | undefined
  /** What the first one has become. */
  readonly #first = new Deferred<DataPlaneSelf>()
  #hasServed = false
  #serving = new Serving()
  /** It has all that was wanted when it started. */
  #restored = false
  #reading: Promise<RelayStats> | undefined
  readonly #accessLines = new ReceivedLines()
  /** Workers that have given no sign of life. */
  readonly #hung = new Set<number>()
  #draining = false

  constructor(deps: SupervisedRelayDeps) {
    const { relay, limits, observer, openFileLimit, workers, orphan } = deps
    const { clock, random } = deps
    this.#deps = deps
    const wantedCauses = causes.filter(cause => observer.wants(cause))
    this.#setup = { relay, limits, wantedCauses, openFileLimit, workers, orphan }
    this.#restarts = new Restarts(clock, longestPauseMs, () => this.#start(), random)
    this.#news = new NewsReader(clock, this.#newsObserver())
    this.#lastStats = new LastStats(openFileLimit)
    if (orphan !== undefined) this.#endWithThis()
    this.#start()
  }

  /**
   * Which relay it is, and what its process may do. Rejects when the first process can't
   * have one: with RelayUnavailable where it was asked for by name.
   */
  get chosen(): Promise<DataPlaneSelf> {
    return this.#first.promise
  }

  /** Undefined while there is none. */
  get pid(): number | undefined {
    return this.#process?.pid
  }

  async apply(listeners: readonly RelayListener[]): Promise<void> {
    if (this.#draining) return
    this.#wanted = listeners
    for (;;) {
      const relay = await this.#serving.relay
      if (relay === undefined) return
      if (!(await livesTo(relay.apply(listeners)))) continue
      this.#hasAll(relay)
      return
    }
  }

  setNodeClients(clients: NodeClients): void {
    this.#nodeClients = clients
    if (this.#remote?.isReady === true)
      this.#process?.send({ kind: 'node-clients', clients })
  }

  stats(): Promise<RelayStats> {
    this.#reading ??= this.#readStats().finally(() => (this.#reading = undefined))
    return this.#reading
  }

  /** While there is no process there are no connections: they ended with it. */
  async query<Q extends QueryName>(
    name: Q,
    params: QueryParams<Q>,
  ): Promise<QueryResult<Q>> {
    return (await orGone(this.#serving.now?.query(name, params))) ?? emptyResults[name]
  }

  handOver(): Promise<HandOverPlace> {
    return this.#handsOver({ kind: 'hand-over' }) as Promise<HandOverPlace>
  }

  handedOver(): Promise<HandedOver> {
    return this.#handsOver({ kind: 'handed-over' }) as Promise<HandedOver>
  }

  takeOver(place: HandOverPlace): Promise<Inheritance> {
    return this.#handsOver({ kind: 'take-over', place }) as Promise<Inheritance>
  }

  finishTakeOver(): Promise<TakenOver | undefined> {
    return this.#handsOver({ kind: 'finish-take-over' }) as Promise<TakenOver | undefined>
  }

  /** As of any relay; when it is over the process is gone too. */
  async drain(ms: number): Promise<DrainResult> {
    this.#draining = true
    this.#restarts.stop()
    const remote = this.#remote
    const relay = remote?.isReady === true ? await this.#serving.relay : undefined
    if (relay === undefined) this.#serving.is(undefined) // And there won't be one.
    let result: DrainResult = { reset: 0 }
    if (relay !== undefined)
      await livesTo(relay.drain(ms).then(drained => (result = drained)))
    // What it has counted to the end.
    await this.stats()
    await remote?.leave(leaveMs)
    return result
  }

  /** An end that was meant leaves none behind, as a crash does. */
  #endWithThis(): void {
    let hasCrashed = false
    process.on('uncaughtExceptionMonitor', () => (hasCrashed = true))
    process.on('exit', () => {
      if (!hasCrashed) this.#process?.kill()
    })
  }

  /** Rejects when the process that has the sockets ends before it has answered. */
  async #handsOver(call: Call): Promise<unknown> {
    const relay = await this.#serving.relay
    if (relay === undefined) throw new RemoteGone('the data plane has ended')
    return relay.call(call)
  }

  #start(): void {
    const { clock, program, endProcess = endThisProcess } = this.#deps
    const remote = new Remote<Call, DataPlaneSelf>({
      clock,
      patience,
      deadMs,
      start: to => {
        this.#process = new DataPlaneProcess(clock, program, this.#setup, to)
        return this.#process
      },
      ready: self => void this.#serve(remote, self),
      news: (news, isGone) => this.#news.read(news, isGone),
      ended: ending => this.#ended(ending),
      killFailed: detail => this.#killFailed(detail),
      endProcess,
    })
    this.#remote = remote
    remote.start()
  }

  async #serve(remote: Remote<Call, DataPlaneSelf>, self: DataPlaneSelf): Promise<void> {
    this.#isFirst(self)
    this.#process?.send({ kind: 'node-clients', clients: this.#nodeClients })
    const relay = new RemoteRelay(remote)
    this.#serving.is(relay)
    try {
      if (this.#wanted.length > 0) await livesTo(relay.apply(this.#wanted))
      this.#hasAll(relay)
    } catch (error) {
      // The next sync asks for all of it again.
      this.#deps.observer.fault('', error as Error)
    }
  }

  #hasAll(relay: RemoteRelay): void {
    this.#restored = relay === this.#serving.now
    if (this.#restored) this.#deps.observer.processGone?.('')
  }

  #isFirst(self: DataPlaneSelf): void {
    if (this.#hasServed) return
    this.#hasServed = true
    this.#first.resolve(self)
    // Another one after it is the same relay.
    const { name, workers } = self.choice
    this.#setup = { ...this.#setup, relay: name, workers }
  }

  #ended(ending: RemoteEnding): void {
    const { observer, lost } = this.#deps
    const ended = this.#process
    const text = describeEnding(ending)
    this.#remote = undefined
    this.#process = undefined
    this.#restored = false
    // Who waits for one that never came to serve waits for the next.
    if (this.#serving.now !== undefined) this.#serving = new Serving()
    if (this.#draining) this.#serving.is(undefined)
    if (ending.wasLeaving) return
    if (!this.#hasServed) {
      this.#first.reject(startError(ended, text, this.#setup.relay))
      this.#serving.is(undefined)
      return
    }
    const pause = this.#restarts.pauseAfter(ending.livedMs)
    const then = this.#draining ? '' : `; it is started again ${whenStarted(pause)}`
    const lived = `${(ending.livedMs / 1000).toFixed(1)} s`
    const reason =
      ended?.cannotStart === undefined ? '' : ` (${ended.cannotStart.reason})`
    observer.fault(
      '',
      new Error(`the data plane ${text}${reason}; it had run for ${lived}${then}`),
    )
    observer.processGone?.(`${text}${reason}`)
    this.#reportLostLines()
    this.#lastStats.died(this.#wanted)
    for (const thread of this.#hung) this.#reportHung(thread, false)
    void this.#startAgain(pause)
    // Callers that wait for it learn for how long there has been none.
    if (!this.#draining) lost?.()
  }

  /**
   * It holds the ports of the one that would be started in its place, and serves no client: what
   * started this process, the kubelet for instance, can end both.
   */
  #killFailed(detail: string): void {
    const what = `the data plane (process ${this.pid}) ${detail}`
    const error = new Error(`${what}; Usher ends so that it is started again`)
    this.#deps.observer.fault('', error)
  }

  async #startAgain(pause: number): Promise<void> {
    const { observer } = this.#deps
    await forEachYielding(this.#binds.lost(), lost => observer.bindChanged(...lost))
    if (!this.#draining) this.#restarts.startIn(pause)
  }

  #newsObserver(): NewsObserver {
    const { observer } = this.#deps
    return {
      connectionClosed: record => observer.connectionClosed(record),
      accessLines: batch => {
        this.#accessLines.received(batch)
        observer.accessLines?.(batch)
      },
      bindChanged: (listener, state) => {
        this.#binds.changed(listener, state)
        observer.bindChanged(listener, state)
      },
      acceptPaused: (...pause) => observer.acceptPaused(...pause),
      workerHung: (thread, hung) => this.#reportHung(thread, hung),
      allFailed: listener => observer.allFailed?.(listener),
      fault: (...fault) => observer.fault(...fault),
    }
  }

  #reportHung(thread: number, hung: boolean): void {
    if (hung) this.#hung.add(thread)
    else this.#hung.delete(thread)
    this.#deps.observer.workerHung(thread, hung)
  }

  /** Those of the connections that were open when its figures were read last. */
  #reportLostLines(): void {
    const received = this.#accessLines
    received.forgetAllBut(new Set(this.#wanted.map(({ name }) => name)))
    for (const spec of this.#wanted) {
      const counters = this.#lastStats.countersOf(spec.id)
      const lost = counters && received.lost(spec, counters)
      if (lost) this.#deps.observer.accessLines?.(lost)
    }
  }

  /** While a process is being started, or does not answer: what was known last. */
  async #readStats(): Promise<RelayStats> {
    const { clock, observer } = this.#deps
    const relay = this.#serving.now
    const giveUp = new AbortController()
    if (relay !== undefined && this.#restored)
      try {
        const pages = this.#readPages(relay, giveUp.signal)
        await within(clock, readTimeoutMs, pages)
      } catch (error) {
        if (!(error instanceof RemoteGone)) observer.fault('', error as Error)
      } finally {
        giveUp.abort()
      }
    return this.#lastStats.stats()
  }

  /** Also of a read that is given up: what was sent is not sent again. */
  async #readPages(relay: RemoteRelay, givenUp: AbortSignal): Promise<void> {
    for await (const page of relay.statsPages(givenUp))
      if (relay === this.#serving.now) this.#lastStats.read(page)
  }
}

const endThisProcess = (): void => process.exit(1)

const whenStarted = (ms: number): string =>
  ms === 0 ? 'at once' : `in ${Math.round(ms)} ms`

/** The result; undefined when the data plane dies before it answers. */
const orGone = async <T>(reply: Promise<T> | undefined): Promise<T | undefined> => {
  try {
    return await reply
  } catch (error) {
    if (error instanceof RemoteGone) return undefined
    throw error
  }
}

/** Whether the data plane lived to do it. */
const livesTo = async (done: Promise<unknown>): Promise<boolean> => {
  try {
    await done
    return true
  } catch (error) {
    if (error instanceof RemoteGone) return false
    throw error
  }
}

/** The relay that takes calls: waited for while its process starts. */
class Serving {
  now: RemoteRelay | undefined
  readonly #deferred = new Deferred<RemoteRelay | undefined>()

  get relay(): Promise<RemoteRelay | undefined> {
    return this.#deferred.promise
  }

  /** Undefined: there is none, and won't be. */
  is(relay: RemoteRelay | undefined): void {
    this.now = relay
    this.#deferred.resolve(relay)
  }
}

/** Listeners that a process which has none yet opens together. */
const atOnce = 1000

/** Listeners and endpoints in one message: about a millisecond's work at either end. */
const partWeight = 500

/**
 * The relay in one process of the data plane. Its calls reject with `RemoteGone` when
 * the process ends before it has answered.
 */
class RemoteRelay {
  readonly #remote: Remote<Call, DataPlaneSelf>
  /** What the process knows. */
  #sent: readonly RelayListener[] = []
  #readNumber = 0
  #turn: Promise<unknown> = Promise.resolve()

  constructor(remote: Remote<Call, DataPlaneSelf>) {
    this.#remote = remote
  }

  /** One call after the other; only what has changed since the last one travels. */
  apply(listeners: readonly RelayListener[]): Promise<void> {
    const done = this.#turn.then(() => this.#apply(listeners))
    this.#turn = done.catch(() => {}) // Its caller gets the rejection.
    return done
  }

  /**
   * Page by page, so that neither end is held up by 10 000 listeners; only what has changed since the
   * last one travels. Throws after the next page when it is given up.
   */
  async *statsPages(givenUp: AbortSignal): AsyncGenerator<StatsPage> {
    this.#readNumber += 1
    const read = this.#readNumber
    for (;;) {
      const page = (await this.#remote.call({ kind: 'stats', read })) as StatsPage
      yield page
      if (page.last) return
      givenUp.throwIfAborted()
    }
  }

  async query<Q extends QueryName>(
    name: Q,
    params: QueryParams<Q>,
  ): Promise<QueryResult<Q>> {
    return (await this.#remote.call({ kind: 'query', name, params })) as QueryResult<Q>
  }

  call(call: Call): Promise<unknown> {
    return this.#remote.call(call)
  }

  async drain(ms: number): Promise<DrainResult> {
    return (await this.#remote.call({ kind: 'drain', ms })) as DrainResult
  }

  async #apply(listeners: readonly RelayListener[]): Promise<void> {
    const isFirst = this.#sent.length === 0
    let waiting = 0
    // An answer to each part before the next one is made: so nothing piles up.
    for (const part of changesInParts(this.#sent, listeners)) {
      await this.#remote.call(part)
      waiting += part.changed.length
      // Of 10 000 the first need not wait for the last.
      if (!isFirst || waiting < atOnce) continue
      await this.#remote.call({ kind: 'apply' })
      waiting = 0
    }
    this.#sent = listeners
    await this.#remote.call({ kind: 'apply' })
  }
}

/** The changes in parts; at least one, so that a change of nothing is one too. */
export function* changesInParts(
  before: readonly RelayListener[],
  after: readonly RelayListener[],
): Generator<Extract<Call, { readonly kind: 'change' }>> {
  const { gone, changed } = listenerChanges(before, after)
  let part: RelayListener[] = []
  let weight = 0
  yield { kind: 'change', gone: gone.map(({ id }) => id), changed: [] }
  for (const listener of changed) {
    part.push(listener)
    weight += 1 + listener.fronts.length + listener.endpoints.length
    if (weight < partWeight) continue
    yield { kind: 'change', gone: [], changed: part }
    part = []
    weight = 0
  }
  if (part.length > 0) yield { kind: 'change', gone: [], changed: part }
}
