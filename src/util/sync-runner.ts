import type { Clock, Timer } from './clock.ts'

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
  #tokens = burst
  #filledAt: number
  #timer: Timer | undefined
  #due = Infinity
  #running = false
  #again = false
  #failures = 0
  #closed = false

  constructor(deps: SyncRunnerDeps) {
    this.#deps = deps
    this.#filledAt = deps.clock.now()
  }

  /** Asks for a run that sees everything that is so now. */
  request(): void {
    if (this.#closed) return
    if (this.#running) this.#again = true
    else this.#schedule(this.#untilToken())
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
    this.#fill()
    this.#tokens -= 1
    try {
      await this.#deps.sync()
      this.#failures = 0
    } catch (error) {
      this.#failures += 1
      // What was under way at the end may fail because of it.
      if (!this.#closed) this.#deps.failed(error)
    }
    this.#running = false
    if (this.#closed) return
    const token = this.#untilToken()
    if (this.#again) this.#schedule(token)
    else this.#schedule(Math.max(this.#pause(), token))
  }

  /** Milliseconds until the next run that comes without being asked for. */
  #pause(): number {
    const { maxMs } = this.#deps
    if (this.#failures === 0) return maxMs
    return Math.min(firstRetryMs * 2 ** (this.#failures - 1), maxMs)
  }

  /** Milliseconds until there is a token. */
  #untilToken(): number {
    this.#fill()
    return this.#tokens >= 1 ? 0 : (1 - this.#tokens) * this.#deps.minMs
  }

  #fill(): void {
    const { clock, minMs } = this.#deps
    const now = clock.now()
    const earned = minMs === 0 ? burst : (now - this.#filledAt) / minMs
    this.#tokens = Math.min(burst, this.#tokens + earned)
    this.#filledAt = now
  }
}
