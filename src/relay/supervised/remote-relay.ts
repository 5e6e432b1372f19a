import type { DrainResult, RelayListener } from '../relay.ts'
import type { DataPlaneProcess } from './data-plane-process.ts'
import type { Look } from './known-stats.ts'
import { listenerChanges } from './listener-changes.ts'
import type { StatsPage } from './messages.ts'

/** Listeners that a process which has none yet opens together. */
const atOnce = 1000

/**
 * The relay in one process of the data plane. Its calls reject with `DataPlaneGone` when
 * the process ends before it has answered.
 */
export class RemoteRelay {
  readonly #process: DataPlaneProcess
  /** What the process knows. */
  #sent: readonly RelayListener[] = []
  #looks = 0
  #turn: Promise<unknown> = Promise.resolve()

  constructor(process: DataPlaneProcess) {
    this.#process = process
  }

  /** One call after the other; only what has changed since the last one travels. */
  apply(listeners: readonly RelayListener[]): Promise<void> {
    const done = this.#turn.then(() => this.#apply(listeners))
    this.#turn = done.catch(() => {}) // Its caller hears of it.
    return done
  }

  /**
   * Page by page, so that neither end is held up by 10 000 listeners. Rejects after the next
   * page when it is given up.
   */
  async look(givenUp: AbortSignal): Promise<Look> {
    this.#looks += 1
    const look = this.#looks
    const listeners: StatsPage['listeners'][number][] = []
    for (;;) {
      const page = (await this.#process.call({ kind: 'stats', look })) as StatsPage
      givenUp.throwIfAborted()
      listeners.push(...page.listeners)
      if (page.last) return { listeners, whole: page.whole }
    }
  }

  async drain(ms: number): Promise<DrainResult> {
    return (await this.#process.call({ kind: 'drain', ms })) as DrainResult
  }

  async #apply(listeners: readonly RelayListener[]): Promise<void> {
    const isFirst = this.#sent.length === 0
    let waiting = 0
    // An answer to each part before the next one is made: so nothing piles up.
    for (const part of listenerChanges(this.#sent, listeners)) {
      await this.#process.call({ kind: 'change', ...part })
      waiting += part.changed.length
      // Of 10 000 the first need not wait for the last.
      if (!isFirst || waiting < atOnce) continue
      await this.#process.call({ kind: 'apply' })
      waiting = 0
    }
    this.#sent = listeners
    await this.#process.call({ kind: 'apply' })
  }
}
