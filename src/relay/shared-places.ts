/** For all workers of a listener. */
export const newSharedPlaces = (): SharedPlaces =>
  new SharedPlaces(new SharedArrayBuffer(4))

/**
 * Places of which there are so many and no more, counted over all workers of a listener: for clients
 * that wait, say, or for its connections. Any worker may have all.
 */
export class SharedPlaces {
  readonly memory: SharedArrayBuffer
  /** One number: how many are taken. */
  readonly #taken: Int32Array
  readonly #freed: () => void

  /** `freed` is called when one has been given back here. */
  constructor(memory: SharedArrayBuffer, freed: () => void = () => {}) {
    this.memory = memory
    this.#taken = new Int32Array(memory)
    this.#freed = freed
  }

  /** By all workers. */
  get taken(): number {
    return Atomics.load(this.#taken, 0)
  }

  /** What `take` would return now. */
  has(most: number): boolean {
    return this.taken < most
  }

  /** Takes a place; false when `most` are taken. */
  take(most: number): boolean {
    for (;;) {
      const { taken } = this
      if (taken >= most) return false
      if (Atomics.compareExchange(this.#taken, 0, taken, taken + 1) === taken) return true
    }
  }

  free(): void {
    Atomics.sub(this.#taken, 0, 1)
    this.#freed()
  }
}

/** Of connections to one endpoint. */
export class EndpointPlaces extends SharedPlaces {
  /** Tells it from others of its listener; what is posted to a thread has no identity. */
  readonly id: number

  constructor(id: number, memory: SharedArrayBuffer, freed: () => void) {
    super(memory, freed)
    this.id = id
  }
}
