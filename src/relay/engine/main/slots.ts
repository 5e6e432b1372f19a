/** Small numbers that are given out, the ones given back first. */
export class Slots {
  readonly #free: number[] = []
  #count = 0

  take(): number {
    const free = this.#free.pop()
    if (free !== undefined) return free
    this.#count += 1
    return this.#count - 1
  }

  free(slot: number): void {
    this.#free.push(slot)
  }

  /** How many there have ever been: all numbers below have been given out. */
  get count(): number {
    return this.#count
  }
}
