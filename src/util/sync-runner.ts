import { Backoff } from './backoff.ts'
import type { Clock, Timer } from './clock.ts'
import { TokenBucket } from './token-bucket.ts'

export interface SyncRunnerDeps {
  readonly clock: Clock
  /** Never called again before it has settled. */
  readonly sync: () => Promise<void>
  readonly failed: (error: unknown) => void
  /** Milliseconds that a run costs; two may come in a row. 0: no limit. */
  readonly minMs: number
  /** A run comes after so many milliseconds even if not asked for. */
  readonly maxMs: number
}

const burst = 2
const firstRetryMs = 500

/**
 * Runs a sync when asked, but not too often: requests that come while one waits or runs
 * are answered by one more run (kube-proxy's BoundedFrequencyRunner: a token bucket with
 * a burst of 2). A failed run is repeated with growing pauses.
 */
export class SyncRunner {
  readonly #deps: SyncRunnerDeps
  readonly #bucket: TokenBucket
  readonly #backoff: Backoff
  #timer: Timer | undefined
  #due = Infinity
  #running = false
  #again = false
  #closed = false

  constructor(deps: SyncRunnerDeps) {
    this.#deps = deps
    const { clock, minMs, maxMs } = deps
    this.#bucket = new TokenBucket(clock, burst, minMs)
    this.#backoff = new Backoff({ firstMs: firstRetryMs, mostMs: maxMs })
  }

  /** Asks for a run that sees everything that is so now. */
  request(): void {
    if (this.#closed) return
    if (this.#running) this.#again = true
    else this.#schedule(this.#bucket.msUntil(1))
  }

  close(): void {
    this.#closed = true
    this.#deps.clock.clearTimeout(this.#timer)
  }

  #schedule(ms: number): void {
    const { clock } = this.#deps
    const due = clock.now() + ms
    if (due >= this.#due) return
    clock.clearTimeout(this.#timer)
    this.#due = due
    this.#timer = clock.setTimeout(() => void this.#run(), ms)
  }

  async #run(): Promise<void> {
    this.#due = Infinity
    this.#running = true
    this.#again = false
    this.#bucket.take()
    let pauseMs = this.#deps.maxMs
    try {
      await this.#deps.sync()
      this.#backoff.reset()
    } catch (error) {
      pauseMs = this.#backoff.next()
      // What was under way at the end may fail because of it.
      if (!this.#closed) this.#deps.failed(error)
    }
    this.#running = false
    if (this.#closed) return
    const token = this.#bucket.msUntil(1)
    this.#schedule(this.#again ? token : Math.max(pauseMs, token))
  }
}
