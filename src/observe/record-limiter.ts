import type { Clock, Timer } from '../util/clock.ts'
import { TokenBucket } from '../util/token-bucket.ts'

export interface LimiterOptions {
  readonly clock: Clock
  /** Records of one key that pass at once. */
  readonly burst: number
  /** Records of one key that pass per second after that. */
  readonly perSecond: number
  /** Called with what was held back and not reported yet when a key has become quiet. */
  readonly onQuiet: (key: string, heldBack: number) => void
}

interface Limited {
  readonly bucket: TokenBucket
  seenAt: number
  heldBack: number
}

/** A key without records for so many milliseconds is quiet. */
const quietMs = 5000

/**
 * Limits how many records each key may write, with a token bucket per key. Buckets that
 * are full again are forgotten, so there are only as many as keys that were busy lately.
 */
export class RecordLimiter {
  readonly #options: LimiterOptions
  readonly #limited = new Map<string, Limited>()
  #timer: Timer | undefined

  constructor(options: LimiterOptions) {
    this.#options = options
  }

  /** How many records were held back before this one, or undefined to hold it back. */
  take(key: string): number | undefined {
    const limited = this.#of(key)
    if (limited.bucket.msUntil(1) > 0) {
      limited.heldBack += 1
      return undefined
    }
    const { heldBack } = limited
    limited.bucket.take()
    limited.heldBack = 0
    return heldBack
  }

  /** Says what is still held back, and stops. */
  close(): void {
    this.#options.clock.clearTimeout(this.#timer)
    this.#timer = undefined
    for (const [key, limited] of this.#limited) this.#say(key, limited)
    this.#limited.clear()
  }

  #of(key: string): Limited {
    const { clock, burst, perSecond } = this.#options
    let limited = this.#limited.get(key)
    if (limited === undefined) {
      const bucket = new TokenBucket(clock, burst, 1000 / perSecond)
      limited = { bucket, seenAt: 0, heldBack: 0 }
      this.#limited.set(key, limited)
    }
    limited.seenAt = clock.now()
    this.#sweepLater()
    return limited
  }

  #sweepLater(): void {
    if (this.#timer !== undefined) return
    this.#timer = this.#options.clock.setTimeout(() => {
      this.#timer = undefined
      this.#sweep()
    }, quietMs)
    this.#timer.unref?.()
  }

  #sweep(): void {
    const now = this.#options.clock.now()
    for (const [key, limited] of this.#limited) {
      if (now - limited.seenAt < quietMs) continue
      this.#say(key, limited)
      if (limited.bucket.isFull) this.#limited.delete(key)
    }
    if (this.#limited.size > 0) this.#sweepLater()
  }

  #say(key: string, limited: Limited): void {
    if (limited.heldBack > 0) this.#options.onQuiet(key, limited.heldBack)
    limited.heldBack = 0
  }
}
