import type { Registry } from '../model/registry.ts'
import type { Change } from '../model/service.ts'
import type { Problem, Snapshot } from '../model/snapshot.ts'
import type { SourceSink } from '../source/source.ts'
import type { Clock } from '../util/clock.ts'
import { ipFamilies } from '../util/ip.ts'
import { SyncRunner } from '../util/sync-runner.ts'

export interface ReconcilerDeps {
  readonly clock: Clock
  readonly registry: Registry
  /** Makes the world equal to the snapshots. */
  readonly sync: (snapshots: readonly Snapshot[]) => Promise<void>
  readonly health: { queued(): void; applied(): void }
  readonly failed: (error: unknown) => void
  /** Told before each sync what cannot be honoured. */
  readonly problems: (problems: readonly Problem[]) => void
  /** Milliseconds; see `SyncRunner`. */
  readonly minMs: number
  readonly maxMs: number
}

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
  readonly #firstSync: Promise<void>
  #firstSyncDone: () => void = () => {}

  constructor(deps: ReconcilerDeps) {
    this.#deps = deps
    this.#firstSync = new Promise(resolve => (this.#firstSyncDone = resolve))
    this.#runner = new SyncRunner({
      clock: deps.clock,
      minMs: deps.minMs,
      maxMs: deps.maxMs,
      sync: () => this.#sync(),
      failed: deps.failed,
    })
  }

  /** Resolves when the source's first state is served. */
  get firstSync(): Promise<void> {
    return this.#firstSync
  }

  snapshots(): readonly Snapshot[] {
    return ipFamilies.map(family => this.#deps.registry.snapshot(family))
  }

  allProblems(): readonly Problem[] {
    return [...this.#sourceProblems, ...this.#deps.registry.problems()]
  }

  apply(changes: readonly Change[]): void {
    this.#deps.registry.apply(changes)
    this.#request()
  }

  synced(): void {
    this.#complete = true
    this.#request()
  }

  problems(problems: readonly Problem[]): void {
    this.#sourceProblems = problems
    this.#deps.problems(this.allProblems())
  }

  close(): void {
    this.#runner.close()
  }

  #request(): void {
    if (!this.#complete) return
    this.#deps.health.queued()
    this.#runner.request()
  }

  async #sync(): Promise<void> {
    const { health, sync, problems } = this.#deps
    const wanted = this.snapshots()
    problems(this.allProblems())
    await sync(wanted)
    health.applied()
    // What came meanwhile waits for the next run.
    if (this.snapshots().some((snapshot, i) => snapshot !== wanted[i])) health.queued()
    this.#firstSyncDone()
  }
}
