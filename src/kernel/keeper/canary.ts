import type { Clock, Timer } from '../../util/clock.ts'
import { ToolError } from '../run-tool.ts'
import type { Known } from './known.ts'

export interface CanaryDeps<T> {
  readonly clock: Clock
  /** A look during which it was written does not count. */
  readonly known: Pick<Known<T>, 'value' | 'epoch'>
  /**
   * What is wrong, in a few words; '' for nothing. `whole`: look at all, at any cost. Rejects
   * with ToolError when nothing can be read now; a sync that fails is logged.
   */
  readonly look: (written: T, whole: boolean) => Promise<string>
  /** How many rules, or the like, are looked at; by default few. */
  readonly size?: (written: T) => number
  readonly damaged: (what: string) => void
}

/** Milliseconds between looks, and for a minute after damage: what does it mostly does it again. */
const [calmMs, closeMs, recentMs] = [4000, 1000, 60_000]
/** After a look that a change of Usher's own came in the way of. */
const againMs = 250
/**
 * Of the time, how much may go into looking at all: 2 %. With few rules a look mostly waits for
 * processes to start, and may take 20 %; no more, as rules of others are read, too.
 */
const [pauseFactor, pauseFactorOfFew, fewRules] = [50, 5, 1000]

/**
 * Looks now and then whether what Usher has written is still there, and at what costs more less
 * often. What empties a table, as firewalls do when they start, takes that too.
 */
export class Canary<T> {
  readonly #deps: CanaryDeps<T>
  #timer: Timer | undefined
  #isStopped = false
  #nextWhole = 0
  #closeUntil = -Infinity

  constructor(deps: CanaryDeps<T>) {
    this.#deps = deps
    this.#wait(calmMs)
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
    const { clock, look, known, size = () => 0, damaged } = this.#deps
    const { epoch, value } = known
    if (epoch === undefined || value === undefined) return this.#wait(againMs)
    const started = clock.now()
    const isWhole = started >= this.#nextWhole
    const isFew = size(value) <= fewRules
    const what = await look(value, isWhole).catch(notSeen)
    const took = clock.now() - started
    if (this.#isStopped) return undefined
    const counts = known.epoch === epoch
    // One that came to nothing is soon made again where rules are few.
    const factor = isFew ? (counts ? pauseFactorOfFew : 1) : pauseFactor
    if (isWhole) this.#nextWhole = started + took * factor
    if (!counts) return this.#wait(againMs)
    if (what !== '') {
      this.#closeUntil = started + recentMs
      damaged(what)
    }
    const pauseMs = started < this.#closeUntil ? closeMs : calmMs
    return this.#wait(Math.max(againMs, pauseMs - took))
  }
}

const notSeen = (error: unknown): string => {
  if (error instanceof ToolError) return ''
  throw error
}
