import type { FirstTicket, QueueTickets } from './queue-tickets.ts'
import type { SharedPlaces } from './shared-places.ts'

/** A client that waits for a place at an endpoint. */
export interface Waiting {
  /** What it may choose from: where one gets no place, no other of the same does. */
  readonly choice: unknown
  /** Goes to an endpoint that has a place, and leaves the queue; false: it goes on waiting. */
  leaveForPlace(): boolean
}

/** What the workers of a listener share of its queue. */
export interface SharedQueue {
  readonly tickets: QueueTickets
  /** One for each client that waits, so that their number is bounded. */
  readonly places: SharedPlaces
}

/**
 * Clients of a listener whose endpoints are full, first come first served over all workers. This is
 * a worker's part: each wakes the one whose turn it is when it has given a place back.
 *
 * Nobody is forgotten: who joins looks for a place after its ticket is to be seen, who gives one
 * back looks for tickets after that.
 */
export class ConnectionQueue {
  readonly #shared: SharedQueue
  readonly #hasPlace: () => boolean
  readonly #wake: (worker: number) => void
  /** In the order of their tickets. */
  readonly #waiting = new Map<Waiting, bigint>()
  /** How many wait of each choice. */
  readonly #choices = new Map<unknown, number>()

  /**
   * `hasPlace`: whether any endpoint has room for one connection more. `wake` has another worker
   * call `woken`.
   */
  constructor(
    shared: SharedQueue,
    hasPlace: () => boolean,
    wake: (worker: number) => void,
  ) {
    this.#shared = shared
    this.#hasPlace = hasPlace
    this.#wake = wake
  }

  /** Clients that wait, in all workers. */
  get length(): number {
    return this.#shared.places.taken
  }

  /** What `join` would say now. */
  hasRoom(most: number): boolean {
    return this.#shared.places.has(most)
  }

  /** False when `most` wait already. `placeFreed` is to be called next. */
  join(one: Waiting, most: number): boolean {
    const { tickets, places } = this.#shared
    if (!places.take(most)) return false
    const ticket = tickets.draw()
    if (this.#waiting.size === 0) tickets.setFirst(ticket)
    this.#waiting.set(one, ticket)
    this.#choices.set(one.choice, (this.#choices.get(one.choice) ?? 0) + 1)
    return true
  }

  /** It is served, or waits no longer. */
  leave(one: Waiting): void {
    const ticket = this.#waiting.get(one)
    if (ticket === undefined) return
    const [first] = this.#waiting.values()
    this.#waiting.delete(one)
    const left = (this.#choices.get(one.choice) ?? 0) - 1
    if (left > 0) this.#choices.set(one.choice, left)
    else this.#choices.delete(one.choice)
    if (ticket === first) {
      const [next] = this.#waiting.values()
      this.#shared.tickets.setFirst(next)
    }
    this.#shared.places.free()
  }

  /** There may be a place for whoever waits. */
  placeFreed(): void {
    const { tickets } = this.#shared
    const first = tickets.first()
    if (first?.worker === tickets.worker) this.serve()
    else this.#offer(first)
  }

  /** Another worker may have offered a place; workers are woken for other reasons, too. */
  woken(): void {
    const offered = this.#shared.tickets.takeOffer()
    if (offered !== undefined) this.serve(offered)
  }

  /**
   * Serves those of this worker, as many as get a place; what is left is for the other workers, of
   * whose tickets those before `offered` were tried.
   */
  serve(offered?: bigint): void {
    const { tickets } = this.#shared
    const stuck = new Set<unknown>()
    for (const one of this.#waiting.keys()) {
      if (stuck.size === this.#choices.size) break
      if (!stuck.has(one.choice) && !one.leaveForPlace()) stuck.add(one.choice)
    }
    // Upwards only, so that it comes to an end. What waits here first by now says nothing of those
    // before it: who waited before it may have left.
    this.#offer(tickets.first(offered, tickets.worker))
  }

  #offer(to: FirstTicket | undefined): void {
    if (to === undefined || !this.#hasPlace()) return
    this.#shared.tickets.offer(to)
    this.#wake(to.worker)
  }
}
