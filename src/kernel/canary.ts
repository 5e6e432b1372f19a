import type { Clock, Timer } from '../util/clock.ts'

export interface CanaryDeps {
  readonly clock: Clock
  /** What is wrong, in a few words; '' for nothing. `whole`: look at all, at any cost. */
  readonly look: (whole: boolean) => Promise<string>
  /**
   * Grows with each change of Usher's own; undefined while one is under way, or when nothing
   * is known to be there.
   */
  readonly epoch: () => number | undefined
  readonly damaged: (what: string) => void
}

/** Those of one who has several, and ends them all. */
export class Canaries {
  readonly #all = new Set<Canary>()

  /** Until the returned function is called, or `stop`. */
  watch(deps: CanaryDeps): () => void {
    const canary = new Canary(deps)
    this.#all.add(canary)
    return () => {
      this.#all.delete(canary)
      canary.stop()
    }
  }

  stop(): void {
    for (const canary of this.#all) canary.stop()
  }
}

/** Milliseconds between looks. */
const everyMs = 4000
/** After a look that a change of Usher's own came in the way of. */
const againMs = 250
/** Of the time, how much may go into looking at all: 2 %. */
const pauseFactor = 50

/**
 * Looks every 4 s whether what Usher has written is still there, and at what costs more less
 * often. Whoever empties a table, as firewalls do when they start, takes that too.
 */
export class Canary {
  readonly #deps: CanaryDeps
  #timer: Timer | undefined
  #isStopped = false
  #nextWhole = 0

  constructor(deps: CanaryDeps) {
    this.#deps = deps
    this.#wait(everyMs)
  }

  stop(): void {
    this.#isStopped = true
    this.#deps.clock.clearTimeout(this.#timer)
  }

  #wait(ms: number): void {
    if (this.#isStopped) return
    const { clock } = this.#deps
    this.#timer = clock.setTimeout(() => void this.#look(), ms)
    this.#timer.unref?.()
  }

  async #look(): Promise<void> {
    const { clock, look, epoch, damaged } = this.#deps
    const at = epoch()
    if (at === undefined) return this.#wait(againMs)
    const started = clock.now()
    const isWhole = started >= this.#nextWhole
    const what = await look(isWhole)
    const took = clock.now() - started
    if (this.#isStopped) return undefined
    if (epoch() !== at) return this.#wait(againMs)
    if (isWhole) this.#nextWhole = started + Math.max(everyMs, took * pauseFactor)
    if (what !== '') damaged(what)
    return this.#wait(Math.max(againMs, everyMs - took))
  }
}
