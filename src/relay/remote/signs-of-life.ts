import type { Clock, Timer } from '../../util/clock.ts'

export interface Patience {
  /** Milliseconds between two checks. */
  readonly checkMs: number
  /** Looks in a row without a sign of life until one is taken to hang. */
  readonly mostSilent: number
  /** The same until it is ready: it loads its program first. */
  readonly mostAtStart: number
}

/**
 * Notices a thread or process that hangs. Looks are counted, not time: while this process is
 * stopped, or gets no CPU, there are no checks.
 */
export class SignsOfLife {
  readonly #clock: Clock
  readonly #patience: Patience
  readonly #beats: () => number
  readonly #silent: (ms: number) => void
  #seen: number | undefined
  #count = 0
  #isReady = false
  #timer: Timer | undefined

  /**
   * `beats` gives a number that is another one at the next check if it lives. `silent` is called
   * once, when it has given no sign of life for `ms`.
   */
  constructor(
    clock: Clock,
    patience: Patience,
    beats: () => number,
    silent: (ms: number) => void,
  ) {
    this.#clock = clock
    this.#patience = patience
    this.#beats = beats
    this.#silent = silent
  }

  start(): void {
    this.#timer = this.#clock.setTimeout(() => {
      if (this.#isAlive()) this.start()
    }, this.#patience.checkMs)
  }

  /** What it needs to start has no part in what follows. */
  ready(): void {
    this.#isReady = true
    this.#seen = undefined
  }

  stop(): void {
    this.#clock.clearTimeout(this.#timer)
  }

  #isAlive(): boolean {
    const { checkMs, mostSilent, mostAtStart } = this.#patience
    const beats = this.#beats()
    this.#count = beats === this.#seen ? this.#count + 1 : 0
    this.#seen = beats
    const most = this.#isReady ? mostSilent : mostAtStart
    if (this.#count < most) return true
    this.#silent(most * checkMs)
    return false
  }
}
