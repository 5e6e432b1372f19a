import type { Relay, RelayStats } from '../relay/relay.ts'

const nothing: RelayStats = {
  listeners: [],
  fds: { used: 0, limit: 0 },
  acceptPaused: false,
}

/** The figures of a relay that may have to ask another process for them. */
export class RelayFigures {
  readonly #relay: Pick<Relay, 'stats'>
  #known = nothing

  constructor(relay: Pick<Relay, 'stats'>) {
    this.#relay = relay
  }

  async ask(): Promise<RelayStats> {
    this.#known = await this.#relay.stats()
    return this.#known
  }

  /** At once; those of a relay in another process are as old as the last `ask`. */
  atOnce(): RelayStats {
    const stats = this.#relay.stats()
    if (!(stats instanceof Promise)) return stats
    // It is asked for the next time; whoever wants to know of a failure uses `ask`.
    stats.then(
      fresh => (this.#known = fresh),
      () => {},
    )
    return this.#known
  }
}
