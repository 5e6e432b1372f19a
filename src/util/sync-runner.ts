import { Backoff } from './backoff.ts'
import type { Clock, Timer } from './clock.ts'
import { TokenBucket } from './token-bucket.ts'

export interface SyncRunnerDeps {
  readonly clock: Clock
  /** Never called again before it has settled. */
  readonly sync: () => Promise<void>
  readonly failed: (error: unknown) => void
  /** Milliseconds that one run may keep the next waiting, however dear it was. 0: never. */
  readonly mostWaitMs: number
  /** And how long at least, however cheap it was; 10 by default. */
  readonly leastWaitMs?: number
  /** A run comes after so many milliseconds even if not asked for. */
  readonly maxMs: number
}

/** What runs may cost in the long run: 1 part in so many of the time, */
const share = 20
/** and so many milliseconds of them may come in a row before that is asked. */
const inRowMs = 1000
/** Milliseconds from one to the next at least, as long as what may wait for others does. */
const gatherMs = 10
const firstRetryMs = 500

/**
 * Runs a sync when asked, but not too often: requests that come while one waits or runs
 * are answered by one more run. After a rest runs come at once, until they have cost a second
 * altogether; then each has the next wait for 20 times what it cost, up to `mostWaitMs`, which is
 * what kube-proxy's BoundedFrequencyRunner always waits. A failed run, which is
 * repeated with growing pauses, counts as a second.
 */
export class SyncRunner {
  readonly #deps: SyncRunnerDeps
  readonly #backoff: Backoff
  #timer: Timer | undefined
  #due = Infinity
  /** Milliseconds that runs may cost. */
  readonly #budget: TokenBucket
  /** When the next one may come. */
  #free = -Infinity
  /** Milliseconds that the last one took. */
  #lastTook = Infinity
  #running = false
  #again = false
  #closed = false

  constructor(deps: SyncRunnerDeps) {
    this.#deps = deps
    this.#budget = new TokenBucket(deps.clock, inRowMs, share)
    this.#backoff = new Backoff({ firstMs: firstRetryMs, mostMs: deps.maxMs })
  }

  /** Asks for a run that sees everything that is so now; `canWait`: and what comes in a moment. */
  request(canWait = false): void {
    if (this.#closed) return
    if (this.#running) this.#again = true
    else this.#schedule(canWait ? Math.min(gatherMs, this.#deps.mostWaitMs) : 0)
  }

  close(): void {
    this.#closed = true
    this.#deps.clock.clearTimeout(this.#timer)
  }

  /** After `ms` milliseconds, or when the runs before are waited for. */
  #schedule(ms: number): void {
    const { clock } = this.#deps
    const now = clock.now()
    const due = Math.max(now + ms, this.#free)
    if (due >= this.#due) return
    clock.clearTimeout(this.#timer)
    this.#due = due
    this.#timer = clock.setTimeout(() => void this.#run(), due - now)
  }

  async #run(): Promise<void> {
    const { clock, mostWaitMs, leastWaitMs = gatherMs, maxMs } = this.#deps
    this.#due = Infinity
    this.#running = true
    this.#again = false
    const started = clock.now()
    let pauseMs = maxMs
    let cost = inRowMs
    try {
      await this.#deps.sync()
      this.#backoff.reset()
      const took = clock.now() - started
      // One that was held up once is not to hold up what comes.
      cost = Math.min(took, this.#lastTook)
      this.#lastTook = took
    } catch (error) {
      pauseMs = this.#backoff.next()
      // What was under way at the end may fail because of it.
      if (!this.#closed) this.#deps.failed(error)
    }
    this.#running = false
    if (this.#closed) return
    // What the longest wait would not pay for is not owed.
    const now = clock.now()
    const mostOwed = Math.max(0, started + mostWaitMs - now) / share
    this.#budget.take(Math.min(cost, this.#budget.tokens + mostOwed))
    const least = started + Math.min(leastWaitMs, mostWaitMs)
    this.#free = Math.max(least, now + this.#budget.msUntil(0))
    this.#schedule(this.#again ? 0 : pauseMs)
  }
}
