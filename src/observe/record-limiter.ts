import type { Clock, Timer } from '../util/clock.ts'

export interface LimiterOptions {
  readonly clock: Clock
  /** Records of one key that pass at once. */
  readonly burst: number
  /** Records of one key that pass per second after that. */
  readonly perSecond: number
  /** Told what was held back and not yet said when a key has become quiet. */
  readonly onQuiet: (key: string, heldBack: number) => void
}

interface Bucket {
  tokens: number
  filledAt: number
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
  readonly #buckets = new Map<string, Bucket>()
  #timer: Timer | undefined

  constructor(options: LimiterOptions) {
    this.#options = options
  }

  /** How many records were held back before this one, or undefined to hold it back. */
  take(key: string): number | undefined {
    const bucket = this.#filled(key)
    if (bucket.tokens < 1) {
      bucket.heldBack += 1
      return undefined
    }
    const { heldBack } = bucket
    bucket.tokens -= 1
    bucket.heldBack = 0
    return heldBack
  }

  /** Says what is still held back, and stops. */
  close(): void {
    this.#options.clock.clearTimeout(this.#timer)
    this.#timer = undefined
    for (const [key, bucket] of this.#buckets) this.#say(key, bucket)
    this.#buckets.clear()
  }

  #filled(key: string): Bucket {
    const { clock, burst, perSecond } = this.#options
    const now = clock.now()
    let bucket = this.#buckets.get(key)
    if (bucket === undefined) {
      bucket = { tokens: burst, filledAt: now, seenAt: now, heldBack: 0 }
      this.#buckets.set(key, bucket)
    }
    const filled = bucket.tokens + ((now - bucket.filledAt) / 1000) * perSecond
    bucket.tokens = Math.min(burst, filled)
    bucket.filledAt = now
    bucket.seenAt = now
    this.#sweepLater()
    return bucket
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
    const { clock, burst, perSecond } = this.#options
    const now = clock.now()
    for (const [key, bucket] of this.#buckets) {
      if (now - bucket.seenAt < quietMs) continue
      this.#say(key, bucket)
      const missing = burst - bucket.tokens
      if (now - bucket.filledAt >= (missing / perSecond) * 1000) this.#buckets.delete(key)
    }
    if (this.#buckets.size > 0) this.#sweepLater()
  }

  #say(key: string, bucket: Bucket): void {
    if (bucket.heldBack > 0) this.#options.onQuiet(key, bucket.heldBack)
    bucket.heldBack = 0
  }
}
