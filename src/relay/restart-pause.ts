/** Milliseconds that one must have lived for its death not to count as one in a row. */
const earlyMs = 10_000
const firstPauseMs = 250

/**
 * How long to wait before what died is started again: not at all the first time, then 250 ms,
 * 500 ms and so on, while each dies within 10 s.
 */
export class RestartPause {
  readonly #longestMs: number
  readonly #random: () => number
  #early = 0

  /** `random`: 0 <= n < 1, for jitter down to a half; without it there is none. */
  constructor(longestMs: number, random: () => number = () => 1) {
    this.#longestMs = longestMs
    this.#random = random
  }

  /** Milliseconds, after one that lived for `livedMs`. */
  after(livedMs: number): number {
    this.#early = livedMs < earlyMs ? this.#early + 1 : 0
    if (this.#early < 2) return 0
    const full = Math.min(this.#longestMs, firstPauseMs * 2 ** (this.#early - 2))
    return full * (0.5 + this.#random() / 2)
  }
}
