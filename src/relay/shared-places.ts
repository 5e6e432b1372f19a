/** For all workers of a listener. */
export const newSharedPlaces = (workers = 1): SharedPlaces =>
  new SharedPlaces(new SharedArrayBuffer((1 + workers) * 4))

/**
 * Places of which there are so many and no more, counted over all workers of a listener: for clients
 * that wait, say, or for its connections. Any worker may have all. What each has taken is known,
 * to be given back when its thread dies.
 */
export class SharedPlaces {
  readonly memory: SharedArrayBuffer
  /** Cell 0: of all; from 1 on: of each worker. */
  readonly #cells: Int32Array
  readonly #worker: number
  readonly #freed: () => void

  /** `worker`: which one takes places, from 1 on; `freed` is called when it has given one back. */
  constructor(memory: SharedArrayBuffer, worker = 1, freed: () => void = () => {}) {
    this.memory = memory
    this.#cells = new Int32Array(memory)
    this.#worker = worker
    this.#freed = freed
  }

  /** By all workers. */
  get taken(): number {
    return Atomics.load(this.#cells, 0)
  }

  /** What `take` would return now. */
  has(most: number): boolean {
    return this.taken < most
  }

  /** Takes a place; false when `most` are taken. */
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
    this.#freed()
  }

  /** The thread of a worker is no more, and what it had taken is free. */
  lost(worker: number): void {
    Atomics.sub(this.#cells, 0, Atomics.exchange(this.#cells, worker, 0))
  }
}

/** Of connections to one endpoint. */
export class EndpointPlaces extends SharedPlaces {
  /** Tells it from others of its listener; what is posted to a thread has no identity. */
  readonly id: number

  constructor(id: number, memory: SharedArrayBuffer, worker: number, freed: () => void) {
    super(memory, worker, freed)
    this.id = id
  }
}
