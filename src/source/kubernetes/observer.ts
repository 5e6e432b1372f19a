import type { Clock } from '../../util/clock.ts'

/** What happens between Usher and the API server, for the log. `resource` is `services`. */
export interface KubernetesObserver {
  /** A watch stands again after `lost`, or for the first time. */
  connected(resource: string): void
  /**
   * The newest state can't be had. Said when the reason changes, and again while it lasts,
   * at most once a minute. `lastWordAt`: epoch milliseconds, undefined before the first.
   */
  lost(resource: string, why: string, lastWordAt: number | undefined): void
  /** All was read anew; what had not changed was not told again. */
  relisted(resource: string, why: string): void
  /** The server can't do something; how it is done from now on. */
  fellBack(resource: string, how: string): void
}

/** Milliseconds between two notices with the same reason. */
const quietMs = 60_000

/** Tells the observer of losses and returns, without saying the same all the time. */
export class LossNotice {
  readonly #resource: () => string
  readonly #observer: KubernetesObserver
  readonly #clock: Clock
  #said = ''
  #saidAt = -Infinity
  /** Whether the observer thinks that there is no connection. */
  #away = true

  constructor(resource: () => string, observer: KubernetesObserver, clock: Clock) {
    this.#resource = resource
    this.#observer = observer
    this.#clock = clock
  }

  /** `once`: the same reason is not said a second time, however long it lasts. */
  lost(why: string, lastWordAt: number | undefined, once = false): void {
    const now = this.#clock.now()
    if (why === this.#said && (once || now - this.#saidAt < quietMs)) return
    this.#said = why
    this.#saidAt = now
    this.#away = true
    this.#observer.lost(this.#resource(), why, lastWordAt)
  }

  connected(): void {
    if (!this.#away) return
    this.#away = false
    this.#observer.connected(this.#resource())
  }
}
