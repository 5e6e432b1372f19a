import type { Clock, Timer } from '../../util/clock.ts'
import type { Loads } from './read-kernel.ts'
import type { Draining } from './wanted-state.ts'

export interface DrainWatchDeps {
  readonly clock: Clock
  /** Of all virtual servers. */
  readonly loads: () => Promise<Loads>
  /** Takes those of them out that are still to go. Does not reject. */
  readonly remove: (drained: readonly Draining[]) => Promise<void>
}

/** Milliseconds between looks. */
const everyMs = 10_000
/** Of the time, how much may go into looking: 2 %. */
const pauseFactor = 50
/** However long a look takes: kube-proxy's pause. */
const longestMs = 60_000

/** Waits for destinations of weight 0 to lose their last connection. Costs nothing when none is. */
export class DrainWatch {
  readonly #deps: DrainWatchDeps
  readonly #waiting = new Map<string, Draining>()
  #timer: Timer | undefined
  #isClosed = false

  constructor(deps: DrainWatchDeps) {
    this.#deps = deps
  }

  /** Those that drain now, besides those that were added before. */
  add(draining: readonly Draining[]): void {
    for (const one of draining) this.#waiting.set(`${one.id} ${one.destination}`, one)
    if (this.#timer === undefined) this.#wait(everyMs)
  }

  /** Forgets them all. */
  clear(): void {
    this.#waiting.clear()
  }

  close(): void {
    this.#isClosed = true
    this.#deps.clock.clearTimeout(this.#timer)
  }

  #wait(ms: number): void {
    if (this.#isClosed || this.#waiting.size === 0) return
    this.#timer = this.#deps.clock.setTimeout(() => void this.#look(), ms)
    this.#timer.unref?.()
  }

  async #look(): Promise<void> {
    const { clock, loads, remove } = this.#deps
    const started = clock.now()
    const asked = [...this.#waiting]
    try {
      const now = await loads()
      const took = clock.now() - started
      const ended = asked.filter(
        ([key, one]) =>
          // What came back and went again meanwhile has begun anew.
          this.#waiting.get(key) === one && !isBusy(now, one),
      )
      for (const [key] of ended) this.#waiting.delete(key)
      if (ended.length > 0 && !this.#isClosed) await remove(ended.map(([, one]) => one))
      this.#next(took)
    } catch {
      // It could not be read: the next look will tell.
      this.#next(0)
    }
  }

  #next(took: number): void {
    this.#timer = undefined
    this.#wait(Math.min(Math.max(everyMs, took * pauseFactor), longestMs))
  }
}

/** A destination that is gone, or that came back and has a weight again, drains no more. */
const isBusy = (loads: Loads, { id, destination }: Draining): boolean => {
  const load = loads.get(id)?.get(destination)
  return load?.weight === 0 && load.connections > 0
}
