import type { BindState } from '../relay/relay.ts'
import type { Clock } from '../util/clock.ts'
import type { Log } from './log.ts'

/** A bind that goes on failing is logged again after so many milliseconds. */
const againAfterMs = 60_000

/** Writes when binds come, go and fail. */
export class BindLog {
  readonly #log: Log
  readonly #clock: Clock
  /** When the failure of a bind was last logged, oldest first. */
  readonly #failedAt = new Map<string, number>()

  constructor(log: Log, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  changed(servicePort: string, address: string, state: BindState): void {
    const key = `${servicePort} ${address}`
    if (state.state === 'failed') {
      if (!this.#isNews(key)) return
      const since = new Date(state.since).toISOString()
      this.#log.error(
        { servicePort, address, error: state.error, since },
        'cannot listen; trying again',
      )
      return
    }
    if (state.state === 'listening') {
      this.#failedAt.delete(key)
      this.#log.info({ servicePort, address }, 'listening')
    }
    if (state.state === 'closed')
      this.#log.info(
        { servicePort, address, reason: state.reason },
        'no longer listening',
      )
  }

  #isNews(key: string): boolean {
    const now = this.#clock.now()
    // Entries are in the order of their time, and old ones change no answer.
    for (const [old, at] of this.#failedAt) {
      if (now - at < againAfterMs) break
      this.#failedAt.delete(old)
    }
    if (this.#failedAt.has(key)) return false
    this.#failedAt.set(key, now)
    return true
  }
}
