import type { Clock, Timer } from '../util/clock.ts'
import type { ChangeCount } from './sync-metrics.ts'
import type { Log } from './log.ts'

/** A line at most every so many milliseconds. */
const everyMs = 10_000

/**
 * Says that changes of the source were taken in, and how many: the first at once, and what
 * comes in the seconds after it as one line. A cluster at work changes 100 times a second.
 */
export class ChangeLog {
  readonly #log: Log
  readonly #clock: Clock
  #services = 0
  #endpoints = 0
  #syncs = 0
  #timer: Timer | undefined

  constructor(log: Log, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  /** A sync took in so many changed Services, and Services with changed endpoints. */
  taken({ services, endpoints }: ChangeCount): void {
    if (services + endpoints === 0) return
    this.#log.debug({ services, endpoints }, 'changes taken in by one sync')
    this.#services += services
    this.#endpoints += endpoints
    this.#syncs += 1
    if (this.#timer === undefined) this.#say()
  }

  /** Says what is still held back; the timer ends. */
  close(): void {
    this.#clock.clearTimeout(this.#timer)
    this.#timer = undefined
    this.#write()
  }

  #say(): void {
    this.#write()
    this.#timer = this.#clock.setTimeout(() => {
      this.#timer = undefined
      if (this.#syncs > 0) this.#say()
    }, everyMs)
    this.#timer.unref?.()
  }

  #write(): void {
    if (this.#syncs === 0) return
    this.#log.info(
      { services: this.#services, endpoints: this.#endpoints, syncs: this.#syncs },
      'changes of the source were taken in',
    )
    this.#services = 0
    this.#endpoints = 0
    this.#syncs = 0
  }
}
