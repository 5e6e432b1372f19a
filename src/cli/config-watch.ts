import { isDeepStrictEqual } from 'node:util'
import type { Clock, Timer } from '../util/clock.ts'
import { messageOf } from '../util/usher-error.ts'

export interface ConfigWatchDeps<C> {
  readonly clock: Clock
  /** Reads and checks the file; rejects when it can't be used. */
  readonly read: () => Promise<C>
  /** What Usher was started with. */
  readonly current: C
  /** The file now says something else. Called once, and then no more. */
  readonly changed: () => void
  /** The file has become unusable; called once for each new reason. */
  readonly unusable: (reason: string) => void
}

/** Milliseconds. A mounted ConfigMap takes up to a minute to arrive anyway. */
const lookEveryMs = 2000

/**
 * Looks whether a configuration file has come to mean something else. What counts is the
 * meaning: neither a touched file nor a ConfigMap that is mounted anew is a change.
 * kube-proxy exits at any write, and then again and again over a file that it can't read;
 * here a bad file is logged and the old configuration stays in force.
 */
export class ConfigWatch<C> {
  readonly #deps: ConfigWatchDeps<C>
  #timer: Timer | undefined
  #closed = false
  #said = ''

  constructor(deps: ConfigWatchDeps<C>) {
    this.#deps = deps
    this.#schedule()
  }

  close(): void {
    this.#closed = true
    this.#deps.clock.clearTimeout(this.#timer)
  }

  #schedule(): void {
    if (this.#closed) return
    this.#timer = this.#deps.clock.setTimeout(() => void this.#look(), lookEveryMs)
  }

  async #look(): Promise<void> {
    const { read, current, changed, unusable } = this.#deps
    try {
      const now = await read()
      this.#said = ''
      if (this.#closed) return
      if (!isDeepStrictEqual(now, current)) {
        this.close()
        changed()
      }
    } catch (error) {
      const reason = messageOf(error)
      if (reason !== this.#said && !this.#closed) unusable(reason)
      this.#said = reason
    }
    this.#schedule()
  }
}
