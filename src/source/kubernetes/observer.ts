import type { Clock } from '../../util/clock.ts'

/** What happens between Usher and the API server, for the log. `resource` is `services`. */
export interface KubernetesObserver {
  /** A watch stands again after `lost`, or for the first time. */
  connected(resource: string): void
  /**
   * The newest state can't be read. Called when the reason changes, and again while it lasts,
   * at most once a minute. `lastDataAt`: epoch milliseconds, undefined before the first.
   */
  lost(resource: string, reason: string, lastDataAt: number | undefined): void
  /** All was read anew; what had not changed was not sent on again. */
  relisted(resource: string, reason: string): void
  /** Something before the server closes watches after so many milliseconds. */
  idleLimit(limitMs: number): void
  /** The server can't do something; how it is done from now on. */
  fellBack(resource: string, how: string): void
}

/** Milliseconds between two notices with the same reason. */
const quietMs = 60_000

/** Reports losses and returns to the observer, the same one once a minute at most. */
export class LossNotice {
  readonly #resource: () => string
  readonly #observer: KubernetesObserver
  readonly #clock: Clock
  #reported = ''
  #reportedAt = -Infinity
  /** Whether a loss was reported last, or nothing yet. */
  #away = true

  constructor(resource: () => string, observer: KubernetesObserver, clock: Clock) {
    this.#resource = resource
    this.#observer = observer
    this.#clock = clock
  }

  /** `once`: the same reason is not reported a second time, however long it lasts. */
  lost(reason: string, lastDataAt: number | undefined, once = false): void {
    const now = this.#clock.now()
    if (reason === this.#reported && (once || now - this.#reportedAt < quietMs)) return
    this.#reported = reason
    this.#reportedAt = now
    this.#away = true
    this.#observer.lost(this.#resource(), reason, lastDataAt)
  }

  connected(): void {
    if (!this.#away) return
    this.#away = false
    this.#observer.connected(this.#resource())
  }
}
