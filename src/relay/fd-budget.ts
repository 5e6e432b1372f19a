/**
 * Counts the file descriptors that the relay holds against the process's limit, so that
 * Usher stops accepting before the limit instead of failing at it. At EMFILE libuv
 * accepts and closes every waiting connection (uv__emfile_trick): that must never be.
 */
export class FdBudget {
  readonly limit: number
  readonly #spendable: number
  readonly #mostListening: number
  #held = 0
  #listening = 0
  #exhausted = false
  readonly #changed: (exhausted: boolean) => void

  /**
   * `limit`: the process's RLIMIT_NOFILE; `reserved`: what the rest of the process uses
   * and may come to use; `changed` is called when the budget runs out and when it is
   * comfortable again.
   */
  constructor(limit: number, reserved: number, changed: (exhausted: boolean) => void) {
    this.limit = limit
    this.#spendable = Math.max(limit - reserved, 4)
    this.#mostListening = Math.ceil(this.#spendable * 0.75)
    this.#changed = changed
  }

  /** How many may be held in all. */
  get spendable(): number {
    return this.#spendable
  }

  get used(): number {
    return this.#held
  }

  get available(): number {
    return this.#spendable - this.#held
  }

  get exhausted(): boolean {
    return this.#exhausted
  }

  /** Takes `count` descriptors, or none and answers false. */
  take(count: number): boolean {
    if (this.#held + count > this.#spendable) {
      this.#exhaust()
      return false
    }
    this.#held += count
    // One more connection needs two: without them accepting must stop now, not then.
    if (this.available < 2) this.#exhaust()
    return true
  }

  release(count: number): void {
    this.#held -= count
    // The gap keeps accepting from flapping with every connection that ends.
    const comfortable = Math.max(2, Math.min(64, this.#spendable >> 4))
    if (this.#exhausted && this.available >= comfortable) {
      this.#exhausted = false
      this.#changed(false)
    }
  }

  /**
   * One for a listening socket, false when there is none. Together those get three quarters
   * at most: without a descriptor for its connections none of them is of any use, and
   * accepting would stop for all until addresses go.
   */
  takeListening(): boolean {
    if (this.#listening >= this.#mostListening || !this.take(1)) return false
    this.#listening += 1
    return true
  }

  releaseListening(): void {
    this.#listening -= 1
    this.release(1)
  }

  #exhaust(): void {
    if (this.#exhausted) return
    this.#exhausted = true
    this.#changed(true)
  }
}
