import { channel } from 'node:diagnostics_channel'
import { performance } from 'node:perf_hooks'
import { setImmediate } from 'node:timers/promises'
import type { TriggerTimes } from '../model/change-tracker.ts'
import type { CheckedOut, Registry } from '../model/registry.ts'
import type { Change } from '../model/service.ts'
import type { Problem, Snapshot } from '../model/snapshot.ts'
import type { SourceSink } from '../source/source.ts'
import type { Clock } from '../util/clock.ts'
import { Deferred } from '../util/deferred.ts'
import { ipFamilies, type IpFamily } from '../util/ip.ts'
import { SyncRunner } from '../util/sync-runner.ts'

/** Called with what becomes of the wanted state: health and metrics. */
export interface SyncObserver {
  /** A wanted state of the family waits to be applied. */
  queued(family: IpFamily): void
  /** It has been; `triggerTimes` are epoch milliseconds of the changes in it. */
  applied(
    family: IpFamily,
    sync: { readonly seconds: number; readonly triggerTimes: readonly number[] },
  ): void
}

export interface ReconcilerDeps {
  readonly clock: Clock
  readonly registry: Registry
  /** Makes the world equal to the snapshots. */
  readonly sync: (snapshots: readonly Snapshot[]) => Promise<void>
  readonly observers: readonly SyncObserver[]
  readonly failed: (error: unknown) => void
  /** Called before each sync with what cannot be honoured. */
  readonly problems: (problems: readonly Problem[]) => void
  /** Before the first sync: what of the wanted state has yet to be found out. */
  readonly known?: () => Promise<void>
  /** Called with what a sync took in that was not there before. */
  readonly taken: (changes: CheckedOut) => void
  /** Milliseconds; see `SyncRunner`. */
  readonly mostWaitMs: number
  readonly maxMs: number
}

/** Milliseconds of rebuilding before connections get their turn. */
const rebuildSliceMs = 5

/** Called when a sync has come into effect, for metrics. */
const appliedChannel = channel('usher:applied')

/**
 * Keeps what is served equal to what the source wants. Level-triggered: each sync is
 * handed the whole wanted state, and whatever failed is simply still different at the
 * next. Nothing is synced before the source has said that its first state is complete.
 */
export class Reconciler implements SourceSink {
  readonly #deps: ReconcilerDeps
  readonly #runner: SyncRunner
  #sourceProblems: readonly Problem[] = []
  #complete = false
  /** Trigger times of changes that no sync has brought into effect yet. */
  #triggerTimes: TriggerTimes = { IPv4: [], IPv6: [] }
  /** What the last sync was handed. */
  #snapshots: readonly Snapshot[] = []
  #registryProblems: readonly Problem[] = []
  /** Those who wait for a sync that has not begun yet. */
  #waiting: Deferred<void>[] = []
  #closed = false
  #isKnown = false
  readonly #firstSync: Promise<void>
  #firstSyncDone: () => void = () => {}

  constructor(deps: ReconcilerDeps) {
    this.#deps = deps
    this.#firstSync = new Promise(resolve => (this.#firstSyncDone = resolve))
    this.#runner = new SyncRunner({
      clock: deps.clock,
      mostWaitMs: deps.mostWaitMs,
      maxMs: deps.maxMs,
      sync: () => this.#sync(),
      failed: error => {
        // What was there may have been lost: it waits to be applied again.
        this.#queued()
        deps.failed(error)
      },
    })
  }

  /** Resolves when the source's first state is served. */
  get firstSync(): Promise<void> {
    return this.#firstSync
  }

  /** The wanted state as the last sync was handed it. */
  snapshots(): readonly Snapshot[] {
    return this.#snapshots
  }

  /** What cannot be honoured, by the source and as of the last sync. */
  allProblems(): readonly Problem[] {
    return [...this.#sourceProblems, ...this.#registryProblems]
  }

  apply(changes: readonly Change[]): void {
    // Clients of an endpoint that has gone fail until it is applied.
    const takesAway = this.#deps.registry.apply(changes)
    this.#request(!takesAway)
  }

  synced(): void {
    this.#complete = true
    this.#request()
  }

  problems(problems: readonly Problem[]): void {
    this.#sourceProblems = problems
    this.#deps.problems(this.allProblems())
  }

  /** What was applied may have been lost: it is to be applied again soon. */
  resync(): void {
    this.#request()
  }

  /** Asks for a sync; resolves when one that began after this call is applied. Rejects at the end. */
  applied(): Promise<void> {
    const done = new Deferred<void>()
    if (this.#closed) done.reject(ended())
    this.#waiting.push(done)
    this.#request()
    return done.promise
  }

  close(): void {
    this.#closed = true
    this.#runner.close()
    for (const done of this.#waiting) done.reject(ended())
  }

  #request(canWait = false): void {
    if (!this.#complete) return
    this.#queued()
    this.#runner.request(canWait)
  }

  #queued(): void {
    for (const family of ipFamilies)
      for (const observer of this.#deps.observers) observer.queued(family)
  }

  async #sync(): Promise<void> {
    const { clock, registry, sync, problems, taken, known } = this.#deps
    if (!this.#isKnown) await known?.()
    this.#isKnown = true
    const started = clock.now()
    const waiting = [...this.#waiting]
    await this.#rebuild()
    const wanted = ipFamilies.map(family => registry.snapshot(family))
    const changes = registry.checkout()
    this.#snapshots = wanted
    this.#triggerTimes = joined(this.#triggerTimes, changes.triggerTimes)
    this.#registryProblems = registry.problems()
    taken(changes)
    problems(this.allProblems())
    await sync(wanted)
    // Of one that failed they wait for the next.
    this.#waiting = this.#waiting.slice(waiting.length)
    for (const done of waiting) done.resolve()
    this.#applied((clock.now() - started) / 1000)
    // What came meanwhile waits for the next run.
    const { services, endpoints } = registry.pending()
    if (services + endpoints > 0) this.#queued()
    this.#firstSyncDone()
  }

  /** In slices: 10 000 Services at once would hold up every connection. */
  async #rebuild(): Promise<void> {
    const { clock, registry } = this.#deps
    for (;;) {
      const until = clock.now() + rebuildSliceMs
      if (registry.rebuild(() => clock.now() < until)) return
      await setImmediate()
    }
  }

  #applied(seconds: number): void {
    const triggerTimes = this.#triggerTimes
    this.#triggerTimes = { IPv4: [], IPv6: [] }
    for (const family of ipFamilies)
      for (const observer of this.#deps.observers)
        observer.applied(family, { seconds, triggerTimes: triggerTimes[family] })
    if (appliedChannel.hasSubscribers)
      appliedChannel.publish({
        atEpochMs: performance.timeOrigin + performance.now(),
        triggerTimes: ipFamilies.flatMap(family => triggerTimes[family]),
      })
  }
}

const ended = (): Error => new Error('Usher is ending')

/** While syncs go on failing, the oldest are enough to tell how late it is. */
const mostTriggerTimes = 20_000

const joined = (before: TriggerTimes, now: TriggerTimes): TriggerTimes => ({
  IPv4: [...before.IPv4, ...now.IPv4].slice(0, mostTriggerTimes),
  IPv6: [...before.IPv6, ...now.IPv6].slice(0, mostTriggerTimes),
})
