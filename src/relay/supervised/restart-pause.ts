/** Milliseconds a data plane must have lived for its death not to count as one in a row. */
const earlyMs = 10_000
const firstPauseMs = 250
const longestPauseMs = 10_000

/**
 * How long to wait before a data plane that died is started again: not at all the first
 * time, then 250 ms, 500 ms, ... 10 s with jitter, while each dies within 10 s.
 */
export class RestartPause {
  readonly #random: () => number
  #early = 0

  /** `random`: 0 <= n < 1. */
  constructor(random: () => number) {
    this.#random = random
  }

  /** Milliseconds, after one that lived for `livedMs`. */
  after(livedMs: number): number {
    this.#early = livedMs < earlyMs ? this.#early + 1 : 0
    if (this.#early < 2) return 0
    const full = Math.min(longestPauseMs, firstPauseMs * 2 ** (this.#early - 2))
    return full * (0.5 + this.#random() / 2)
  }
}
