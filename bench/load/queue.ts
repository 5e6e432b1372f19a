/** First in, first out, of at most so many, without moving or making anything. */
export class Queue<T> {
  readonly #ring: (T | undefined)[]
  #head = 0
  #length = 0

  constructor(capacity: number) {
    this.#ring = Array.from({ length: capacity })
  }

  /** Throws when it is full. */
  push(item: T): void {
    if (this.#length === this.#ring.length) throw new Error('the queue is full')
    this.#ring[(this.#head + this.#length) % this.#ring.length] = item
    this.#length += 1
  }

  shift(): T | undefined {
    if (this.#length === 0) return undefined
    const item = this.#ring[this.#head]
    this.#ring[this.#head] = undefined
    this.#head = (this.#head + 1) % this.#ring.length
    this.#length -= 1
    return item
  }

  /** Takes it out wherever it is; the others keep their order. */
  remove(item: T): void {
    for (let turns = this.#length; turns > 0; turns -= 1) {
      const first = this.shift()
      if (first !== undefined && first !== item) this.push(first)
    }
  }
}
