/** Names, each with how many need it. */
export class Uses {
  readonly #counts = new Map<string, number>()

  /** True for the first that needs it. */
  add(name: string): boolean {
    const count = this.#counts.get(name) ?? 0
    this.#counts.set(name, count + 1)
    return count === 0
  }

  /** True for the last that needed it. */
  remove(name: string): boolean {
    const count = this.#counts.get(name) ?? 0
    if (count > 1) this.#counts.set(name, count - 1)
    else this.#counts.delete(name)
    return count === 1
  }

  has(name: string): boolean {
    return this.#counts.has(name)
  }

  get size(): number {
    return this.#counts.size
  }

  names(): Iterable<string> {
    return this.#counts.keys()
  }
}
