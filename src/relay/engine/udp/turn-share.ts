/** Datagrams of all sockets of a kind that are moved in a turn at full pace: some 5 ms. */
const plenty = 2048

/** What a socket may move after that, so that none is left out. */
const few = 2

/**
 * What a socket may move at a time. Many that are flooded must not make a turn so long that
 * timers and other traffic wait: those that come late in it get little.
 */
export class TurnShare {
  readonly #most: number
  #left = plenty

  /** `most`: while there is plenty. */
  constructor(most: number) {
    this.#most = most
  }

  get most(): number {
    return this.#left > 0 ? this.#most : few
  }

  spend(count: number): void {
    this.#left -= count
  }

  /** A new turn begins. */
  renew(): void {
    this.#left = plenty
  }
}
