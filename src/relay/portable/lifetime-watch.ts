import type { Socket } from 'node:net'
import type { Clock, Timer } from '../../util/clock.ts'
import type { Cause } from '../cause.ts'
import { endOfLife, Lifetimes } from '../lifetimes.ts'

interface Lasting {
  readonly acceptedAt: number
  /** '' while it is not connected. */
  readonly endpoint: string
  readonly bytesMoved: number
  readonly sockets: readonly Socket[]
  kill(cause: Cause, detail: string): void
}

/** Longer than setTimeout can wait: 24.8 days. */
const longestWaitMs = 2 ** 31 - 1

/** Ends connections that have lasted as long as they may, by one timer for all. */
export class LifetimeWatch {
  readonly #clock: Clock
  readonly #lifetimes: Lifetimes<Lasting>
  #timer: Timer | undefined
  #dueAt = Infinity

  /** `random`: 0 <= n < 1. */
  constructor(clock: Clock, random: () => number) {
    this.#clock = clock
    this.#lifetimes = new Lifetimes(random, movedBy)
  }

  /** See `Lifetimes.set`. */
  set(connection: Lasting, lifetimeMs: number | undefined): void {
    this.#lifetimes.set(connection, lifetimeMs, this.#clock.now())
    this.#schedule()
  }

  ended(connection: Lasting): void {
    this.#lifetimes.ended(connection)
  }

  #schedule(): void {
    const now = this.#clock.now()
    const ms = this.#lifetimes.wait(now)
    if (now + ms >= this.#dueAt || ms === Infinity) return
    this.#clock.clearTimeout(this.#timer)
    this.#dueAt = now + ms
    this.#timer = this.#clock.setTimeout(
      () => this.#check(),
      Math.min(Math.ceil(ms), longestWaitMs),
    )
    this.#timer.unref?.()
  }

  #check(): void {
    this.#dueAt = Infinity
    for (const { connection, isQuiet } of this.#lifetimes.overdue(this.#clock.now()))
      connection.kill('LD', endOfLife(isQuiet))
    this.#schedule()
  }
}

const movedBy = ({ endpoint, sockets, bytesMoved }: Lasting): number | undefined =>
  endpoint !== '' && sockets.every(({ writableLength }) => writableLength === 0)
    ? bytesMoved
    : undefined
