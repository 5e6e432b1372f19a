import type { Relay, RelayStats } from '../relay/relay.ts'

const nothing: RelayStats = {
  listeners: [],
  fds: { used: 0, limit: 0 },
  acceptPaused: false,
}

/**
 * The figures of a relay that may have to ask another process for them, and that may not be
 * there: the kernel modes have none.
 */
export class RelayFigures {
  readonly #relay: () => Pick<Relay, 'stats'> | undefined
  #known = nothing

  constructor(relay: () => Pick<Relay, 'stats'> | undefined) {
    this.#relay = relay
  }

  async ask(): Promise<RelayStats> {
    this.#known = (await this.askRelay()) ?? nothing
    return this.#known
  }

  /** Undefined where there is no relay. */
  async askRelay(): Promise<RelayStats | undefined> {
    return this.#relay()?.stats()
  }

  /** At once; those of a relay in another process are as old as the last `ask`. */
  atOnce(): RelayStats {
    const stats = this.#relay()?.stats() ?? nothing
    if (!(stats instanceof Promise)) return stats
    // It is asked for the next time; whoever wants to know of a failure uses `ask`.
    stats.then(
      fresh => (this.#known = fresh),
      () => {},
    )
    return this.#known
  }
}
