/** For all workers of a listener. */
export const newWaitingPlaces = (workers = 1): WaitingPlaces =>
  new WaitingPlaces(new SharedArrayBuffer((1 + workers) * 4))

/**
 * Clients of a listener that wait for an endpoint, counted over all its workers: any of them may
 * have all places. What each has taken is known, to be given back when its thread dies.
 */
export class WaitingPlaces {
  readonly memory: SharedArrayBuffer
  /** Cell 0: of all; from 1 on: of each worker. */
  readonly #cells: Int32Array
  readonly #worker: number

  /** `worker`: which one takes places, from 1 on. */
  constructor(memory: SharedArrayBuffer, worker = 1) {
    this.memory = memory
    this.#cells = new Int32Array(memory)
    this.#worker = worker
  }

  /** By all workers. */
  get taken(): number {
    return Atomics.load(this.#cells, 0)
  }

  /** Takes a place for one client; false when `most` are taken. */
  take(most: number): boolean {
    const cells = this.#cells
    for (;;) {
      const taken = this.taken
      if (taken >= most) return false
      if (Atomics.compareExchange(cells, 0, taken, taken + 1) === taken) break
    }
    // A thread is ended at calls of functions and in loops: not before this.
    Atomics.add(cells, this.#worker, 1)
    return true
  }

  free(): void {
    Atomics.sub(this.#cells, this.#worker, 1)
    Atomics.sub(this.#cells, 0, 1)
  }

  /** The thread of a worker is no more, and its clients with it. */
  lost(worker: number): void {
    Atomics.sub(this.#cells, 0, Atomics.exchange(this.#cells, worker, 0))
  }
}
