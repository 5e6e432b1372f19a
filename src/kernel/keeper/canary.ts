import type { Clock, Timer } from '../../util/clock.ts'
import { ToolError } from '../run-tool.ts'
import type { Installed } from './installed.ts'
import type { Sleeper } from './sleeper.ts'

export interface CanaryDeps<T> {
  readonly clock: Clock
  /** A check during which it was written does not count. */
  readonly installed: Pick<Installed<T>, 'value' | 'epoch'>
  /**
   * What is wrong, in a few words; '' for nothing. `whole`: check all, at any cost. Rejects
   * with ToolError when nothing can be read now; a sync that fails is logged.
   */
  readonly findDamage: (written: T, whole: boolean) => Promise<string>
  /** Is notified of changes: until there is one, a check would come to nothing. */
  readonly sleeper?: Sleeper | undefined
  /** Whether it is notified of all changes of this; by default it is. */
  readonly isNotified?: (written: T) => boolean
  /** How many rules, or the like, are checked; by default few. */
  readonly size?: (written: T) => number
  readonly damaged: (what: string) => void
}

/** Milliseconds between checks, and for a minute after damage: what does it mostly does it again. */
const [calmMs, closeMs, recentMs] = [4000, 1000, 60_000]
/** The most, while no change is notified. */
const seldomMs = 300_000
/** After a check that a change of Usher's own came in the way of. */
const againMs = 250
/**
 * Of the time, how much may go into checks of all: 2 %. With few rules a check mostly waits for
 * processes to start, and may take 20 %; no more, as rules of others are read, too.
 */
const [pauseFactor, pauseFactorOfFew, fewRules] = [50, 5, 1000]

/**
 * Checks now and then whether what Usher has written is still there, at what costs more less often,
 * and seldom while it is notified of no change. What empties a table, as firewalls do when they start, takes that too.
 */
export class Canary<T> {
  readonly #deps: CanaryDeps<T>
  #timer: Timer | undefined
  #isStopped = false
  #nextWhole = 0
  #closeUntil = -Infinity
  /** `runs` of the sleeper at the last check of all that found nothing wrong. */
  #quiet: string | undefined
  #quietUntil = -Infinity

  constructor(deps: CanaryDeps<T>) {
    this.#deps = deps
    this.#wait(calmMs)
  }

  stop(): void {
    this.#isStopped = true
    this.#deps.clock.clearTimeout(this.#timer)
    this.#deps.sleeper?.stop()
  }

  #wait(ms: number): void {
    if (this.#isStopped) return
    const { clock } = this.#deps
    this.#timer = clock.setTimeout(() => void this.#check(), ms)
    this.#timer.unref?.()
  }

  async #check(): Promise<void> {
    const { clock, findDamage, installed, sleeper, isNotified = () => true } = this.#deps
    const { size = () => 0, damaged } = this.#deps
    const { epoch, value } = installed
    if (epoch === undefined || value === undefined) return this.#wait(againMs)
    const started = clock.now()
    // Before the check, so that a change meanwhile is followed by another.
    const runs = isNotified(value) ? sleeper?.runs : undefined
    if (runs !== undefined && runs === this.#quiet && started < this.#quietUntil)
      return this.#wait(started < this.#closeUntil ? closeMs : calmMs)
    const isWhole = started >= this.#nextWhole
    const isFew = size(value) <= fewRules
    const what = await findDamage(value, isWhole).catch(notSeen)
    const took = clock.now() - started
    if (this.#isStopped) return undefined
    const counts = installed.epoch === epoch
    // One that came to nothing is soon made again where rules are few.
    const factor = isFew ? (counts ? pauseFactorOfFew : 1) : pauseFactor
    if (isWhole) this.#nextWhole = started + took * factor
    if (!counts) return this.#wait(againMs)
    if (isWhole) {
      this.#quiet = what === '' ? runs : undefined
      this.#quietUntil = started + seldomMs
    }
    if (what) {
      this.#closeUntil = started + recentMs
      damaged(what)
    }
    const pauseMs = started < this.#closeUntil ? closeMs : calmMs
    return this.#wait(Math.max(againMs, pauseMs - took))
  }
}

const notSeen = (error: unknown): undefined => {
  if (error instanceof ToolError) return undefined
  throw error
}
