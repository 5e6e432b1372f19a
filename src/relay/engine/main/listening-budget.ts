import type { Descriptors } from '../shared/descriptors.ts'

/**
 * What listening sockets cost. Together they get three quarters of all descriptors at most: what
 * is bound beyond that could serve no connection.
 */
export class ListeningBudget {
  readonly #descriptors: Descriptors
  readonly #most: number
  readonly #mostForSharing: number
  #held = 0
  #wanted = 0

  constructor(descriptors: Descriptors) {
    this.#descriptors = descriptors
    this.#most = Math.ceil(descriptors.spendable * 0.75)
    this.#mostForSharing = Math.floor(descriptors.spendable / 4)
  }

  /** Takes `count` descriptors, or none and answers false. */
  take(count: number): boolean {
    if (this.#held + count > this.#most || !this.#descriptors.take(count)) return false
    this.#held += count
    return true
  }

  release(count: number): void {
    this.#held -= count
    this.#descriptors.release(count)
  }

  /** So many more addresses are wanted, or fewer. */
  want(more: number): void {
    this.#wanted += more
  }

  /** Whether a socket for each of `workers` at each address takes no more than a quarter. */
  allowsSharing(workers: number): boolean {
    return this.#wanted * workers <= this.#mostForSharing
  }
}
