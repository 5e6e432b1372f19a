import type { Clock } from '../src/util/clock.ts'

/** Where progress is written; `process.stderr` satisfies it. */
export interface Screen {
  readonly isTTY?: boolean
  write(text: string): unknown
}

/** One line that says what is being measured and how long the rest will take. */
export class Progress {
  readonly #screen: Screen
  readonly #clock: Clock
  readonly #startedAt: number
  readonly #expected: number
  #done = 0

  /** @param expectedSeconds - a first guess at the whole, corrected by how it goes */
  constructor(expectedSeconds: number, screen: Screen, clock: Clock) {
    this.#screen = screen
    this.#clock = clock
    this.#startedAt = clock.now()
    this.#expected = expectedSeconds
  }

  /** Says what begins now, and books what it is expected to take. */
  step(what: string, expectedSeconds: number): void {
    const text = `${what}, ${timeText(this.#secondsLeft())} left`
    this.#done += expectedSeconds
    this.#screen.write(this.#screen.isTTY ? `\r\u001B[K${text}` : `${text}\n`)
  }

  clear(): void {
    if (this.#screen.isTTY) this.#screen.write('\r\u001B[K')
  }

  #secondsLeft(): number {
    const left = Math.max(0, this.#expected - this.#done)
    const elapsed = (this.#clock.now() - this.#startedAt) / 1000
    // A few steps are needed before the guess can be corrected by what they took.
    return this.#done < 5 ? left : left * (elapsed / this.#done)
  }
}

/** `45 s`, `2 min 05 s`. */
export const timeText = (seconds: number): string => {
  const whole = Math.ceil(seconds)
  if (whole < 60) return `${whole} s`
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, '0')} s`
}
