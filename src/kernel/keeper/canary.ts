import type { Clock, Timer } from '../../util/clock.ts'
import { LookPace } from '../../util/look-pace.ts'
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

/** Milliseconds after a look that a change of Usher's own came in the way of. */
const againMs = 250
/** Of the time, how much may go into looking at all: 2 %. */
const pauseFactor = 50
/** With so many rules a look costs little more than the start of its processes, and is always whole. */
const fewRules = 1000

/**
 * Looks now and then (see LookPace) whether what Usher has written is still there, and at what costs
 * more less often. What empties a table, as firewalls do when they start, takes that too.
 */
export class Canary<T> {
  readonly #deps: CanaryDeps<T>
  #timer: Timer | undefined
  #isStopped = false
  #nextWhole = 0
  readonly #pace = new LookPace()

  constructor(deps: CanaryDeps<T>) {
    this.#deps = deps
    this.#wait(this.#pace.next(deps.clock.now(), false))
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
    const isWhole = started >= this.#nextWhole || size(value) <= fewRules
    const what = await look(value, isWhole).catch(notSeen)
    const took = clock.now() - started
    if (this.#isStopped) return undefined
    if (isWhole) this.#nextWhole = started + took * pauseFactor
    if (known.epoch !== epoch) return this.#wait(againMs)
    if (what !== '') damaged(what)
    return this.#wait(Math.max(againMs, this.#pace.next(started, what !== '') - took))
  }
}

const notSeen = (error: unknown): string => {
  if (error instanceof ToolError) return ''
  throw error
}
