import type { Clock, Timer } from '../../util/clock.ts'
import { Deferred } from '../../util/deferred.ts'
import { forEachYielding } from '../../util/yielding.ts'
import { type Cause, causeText } from '../cause.ts'
import type { WantedRelay } from '../choose-relay.ts'
import { noNodeClients } from '../node-clients.ts'
import type {
  DrainResult,
  NodeClients,
  Relay,
  RelayLimits,
  RelayListener,
  RelayObserver,
  RelayStats,
} from '../relay.ts'
import {
  DataPlaneGone,
  DataPlaneProcess,
  type DataPlaneProgram,
  type Ending,
} from './data-plane-process.ts'
import { KnownBinds } from './known-binds.ts'
import { KnownStats } from './known-stats.ts'
import type { DataPlaneSelf, News, Setup } from './messages.ts'
import { neverServed } from './never-served.ts'
import { RemoteRelay } from './remote-relay.ts'
import { RestartPause } from '../restart-pause.ts'
import { within } from './within.ts'

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
  /** Ends this process, as there is a data plane that can't be. Default: process.exit(1). */
  readonly endProcess?: () => void
}

/**
 * Milliseconds for a look at the figures; after that the last known ones are told. Less than
 * the 3 s that `usher status` waits.
 */
const lookMs = 2000
/** Milliseconds between two starts of one that dies again and again. */
const longestPauseMs = 10_000
/** Milliseconds between two words on records that were lost. */
const lostEveryMs = 60_000

/**
 * A relay in a process of its own (the data plane), which is started again when it dies
 * and given the whole state. What dies with it: connections, UDP flows, affinity, and what
 * was counted since the last look. The first one has to come to serve.
 */
export class SupervisedRelay implements Relay {
  readonly #deps: SupervisedRelayDeps
  #setup: Setup
  readonly #pause: RestartPause
  readonly #binds = new KnownBinds()
  readonly #known: KnownStats
  #wanted: readonly RelayListener[] = []
  #nodeClients = noNodeClients
  #process: DataPlaneProcess | undefined
  /** What the first one has become. */
  readonly #first = new Deferred<DataPlaneSelf>()
  #hasServed = false
  #serving = new Serving()
  /** It has all that was wanted when it started. */
  #restored = false
  #restart: Timer | undefined
  #looking: Promise<RelayStats> | undefined
  /** Workers that have given no sign of life. */
  readonly #hung = new Set<number>()
  #lost = 0
  #lostToldAt = -Infinity
  #draining = false
  #leaving = false

  constructor(deps: SupervisedRelayDeps) {
    const { relay, limits, observer, openFileLimit, workers, random } = deps
    this.#deps = deps
    const wantedCauses = causes.filter(cause => observer.wants(cause))
    this.#setup = { relay, limits, wantedCauses, openFileLimit, workers }
    this.#pause = new RestartPause(longestPauseMs, random)
    this.#known = new KnownStats(openFileLimit)
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
      this.#restored = relay === this.#serving.now
      return
    }
  }

  setNodeClients(clients: NodeClients): void {
    this.#nodeClients = clients
    if (this.#process?.isReady === true) this.#process.setNodeClients(clients)
  }

  stats(): Promise<RelayStats> {
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined))
    return this.#looking
  }

  /** As of any relay; when it is over the process is gone too. */
  async drain(ms: number): Promise<DrainResult> {
    const { clock } = this.#deps
    this.#draining = true
    clock.clearTimeout(this.#restart)
    const process = this.#process
    const relay = process?.isReady === true ? await this.#serving.relay : undefined
    if (relay === undefined) this.#serving.is(undefined) // And there won't be one.
    let result: DrainResult = { reset: 0 }
    if (relay !== undefined)
      await livesTo(relay.drain(ms).then(drained => (result = drained)))
    // What it has counted to the end.
    await this.stats()
    this.#leaving = true
    await process?.exit()
    return result
  }

  #start(): void {
    const { clock, program } = this.#deps
    const process = new DataPlaneProcess({
      clock,
      program,
      setup: this.#setup,
      news: news => this.#tell(news),
      ended: ending => this.#ended(ending),
      unkillable: words => this.#unkillable(words),
    })
    this.#process = process
    void this.#serve(process)
  }

  async #serve(process: DataPlaneProcess): Promise<void> {
    const self = await process.ready
    if (self === undefined) return
    this.#isFirst(self)
    process.setNodeClients(this.#nodeClients)
    const relay = new RemoteRelay(process)
    this.#serving.is(relay)
    try {
      if (this.#wanted.length > 0) await livesTo(relay.apply(this.#wanted))
      this.#restored = relay === this.#serving.now
    } catch (error) {
      // The next sync asks for all of it again.
      this.#deps.observer.fault('', error as Error)
    }
  }

  #isFirst(self: DataPlaneSelf): void {
    if (this.#hasServed) return
    this.#hasServed = true
    this.#first.resolve(self)
    // Another one after it is the same relay.
    const { name, workers } = self.choice
    this.#setup = { ...this.#setup, relay: name, workers }
  }

  #ended(ending: Ending): void {
    const { observer, lost } = this.#deps
    this.#process = undefined
    this.#restored = false
    // Who waits for one that never came to serve waits for the next.
    if (this.#serving.now !== undefined) this.#serving = new Serving()
    if (this.#draining) this.#serving.is(undefined)
    if (this.#leaving) return
    if (!this.#hasServed) {
      this.#first.reject(neverServed(ending, this.#setup.relay))
      this.#serving.is(undefined)
      return
    }
    const { words, livedMs } = ending
    const pause = this.#pause.after(livedMs)
    const then = this.#draining ? '' : `; it is started again ${inWords(pause)}`
    const lived = `${(livedMs / 1000).toFixed(1)} s`
    const why = ending.told === undefined ? '' : ` (${ending.told.why})`
    observer.fault(
      '',
      new Error(`the data plane ${words}${why}; it had run for ${lived}${then}`),
    )
    this.#known.died(this.#wanted)
    for (const thread of this.#hung) this.#tellHung(thread, false)
    void this.#startAgain(pause)
    // Callers that wait for it learn for how long there has been none.
    if (!this.#draining) lost?.()
  }

  /**
   * It holds the ports of the one that would be started in its place, and serves no client: what
   * started this process, the kubelet for instance, can end both.
   */
  #unkillable(words: string): void {
    const { observer, endProcess = endThisProcess } = this.#deps
    const what = `the data plane (process ${this.pid}) ${words}`
    observer.fault('', new Error(`${what}; Usher ends, to be started again`))
    endProcess()
  }

  async #startAgain(pause: number): Promise<void> {
    const { clock, observer } = this.#deps
    await forEachYielding(this.#binds.lost(), lost => observer.bindChanged(...lost))
    if (this.#draining) return
    this.#restart = clock.setTimeout(() => this.#start(), pause)
  }

  #tell({ binds, records, pauses, hung, faults, lost }: News): void {
    const { observer } = this.#deps
    for (const [listener, state] of binds) {
      this.#binds.changed(listener, state)
      observer.bindChanged(listener, state)
    }
    for (const record of records) observer.connectionClosed(record)
    for (const pause of pauses) observer.acceptPaused(...pause)
    for (const [thread, isHung] of hung) this.#tellHung(thread, isHung)
    for (const fault of faults) observer.fault(...fault)
    if (lost > 0) this.#tellLost(lost)
  }

  #tellHung(thread: number, hung: boolean): void {
    if (hung) this.#hung.add(thread)
    else this.#hung.delete(thread)
    this.#deps.observer.workerHung(thread, hung)
  }

  #tellLost(records: number): void {
    const { clock, observer } = this.#deps
    this.#lost += records
    if (clock.now() - this.#lostToldAt < lostEveryMs) return
    this.#lostToldAt = clock.now()
    const what = `${this.#lost} records of connections, or faults, came too fast and were lost`
    this.#lost = 0
    observer.fault('', new Error(what))
  }

  /** While a process is being started, or does not answer: what was known last. */
  async #look(): Promise<RelayStats> {
    const { clock, observer } = this.#deps
    const relay = this.#serving.now
    const giveUp = new AbortController()
    if (relay !== undefined && this.#restored)
      try {
        const look = await within(clock, lookMs, relay.look(giveUp.signal))
        if (look !== undefined && relay === this.#serving.now) this.#known.seen(look)
      } catch (error) {
        if (!(error instanceof DataPlaneGone)) observer.fault('', error as Error)
      } finally {
        giveUp.abort()
      }
    return this.#known.stats()
  }
}

const causes = Object.keys(causeText) as Cause[]

const endThisProcess = (): void => process.exit(1)

const inWords = (ms: number): string => (ms === 0 ? 'at once' : `in ${Math.round(ms)} ms`)

/** Whether the data plane lived to do it. */
const livesTo = async (done: Promise<unknown>): Promise<boolean> => {
  try {
    await done
    return true
  } catch (error) {
    if (error instanceof DataPlaneGone) return false
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
