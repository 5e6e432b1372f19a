/**
 * What the kernel has, as of the last write. Not known while a write is under way, after one
 * that failed, and after damage by another program, also when that came during the write.
 */
export class Installed<T> {
  #last: T | undefined
  #isKnown = false
  #busy = 0
  #epoch = 0
  #forgotten = 0

  /** Undefined when it is not known. */
  get value(): T | undefined {
    return this.#isKnown ? this.#last : undefined
  }

  /** Another number after each write; undefined while one is under way. */
  get epoch(): number | undefined {
    return this.#busy > 0 ? undefined : this.#epoch
  }

  forget(): void {
    this.#forgotten += 1
    this.#isKnown = false
  }

  /**
   * `work` gives what the kernel has then. `last` is what the last write left, known or not;
   * undefined after one that failed.
   */
  async write<Now extends T | undefined>(
    work: (known: T | undefined, last: T | undefined) => Promise<Now>,
  ): Promise<Now> {
    const [known, last, forgotten] = [this.value, this.#last, this.#forgotten]
    this.#isKnown = false
    this.#last = undefined
    this.#busy += 1
    this.#epoch += 1
    try {
      const now = await work(known, last)
      this.#last = now
      this.#isKnown = this.#forgotten === forgotten
      return now
    } finally {
      this.#busy -= 1
      this.#epoch += 1
    }
  }
}
