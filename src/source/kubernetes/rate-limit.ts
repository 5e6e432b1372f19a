import type { Clock } from '../../util/clock.ts'
import { TokenBucket } from '../../util/token-bucket.ts'
import { wait } from '../../util/wait.ts'
import { errorOf } from '../../util/usher-error.ts'

const defaultQps = 5
const defaultBurst = 10

/**
 * Limits requests, with client-go's reading of `clientConnection`: 0 stands for the
 * default (5 a second, 10 in a row), a negative qps for no limit.
 */
export class RateLimit {
  readonly #clock: Clock
  readonly #bucket: TokenBucket

  constructor(clock: Clock, qps = 0, burst = 0) {
    this.#clock = clock
    this.#bucket = new TokenBucket(
      clock,
      burst > 0 ? burst : defaultBurst,
      qps < 0 ? 0 : 1000 / (qps || defaultQps),
    )
  }

  /** Resolves when it is one's turn, first come first served; rejects when aborted. */
  async take(signal: AbortSignal): Promise<void> {
    // Each that waits has its token reserved.
    this.#bucket.take()
    const ms = this.#bucket.msUntil(0)
    if (ms > 0) await wait(this.#clock, ms, signal)
    if (!signal.aborted) return
    this.#bucket.giveBack()
    throw errorOf(signal.reason)
  }
}
