import { SortedMap } from './sorted-map.ts'

/**
 * A SortedMap that is edited step by step and shown as a whole. What is shown is the
 * same map as before, with the same values in it, as far as nothing differs from it:
 * also when a value went and came back equal between two looks.
 */
export class PublishedMap<V> {
  readonly #same: (a: V, b: V) => boolean
  #published = SortedMap.empty<V>()
  #working = this.#published
  /** Keys under which the two differ. */
  readonly #differing = new Set<string>()

  constructor(same: (a: V, b: V) => boolean) {
    this.#same = same
  }

  /** Undefined takes a key out. */
  edit(edits: ReadonlyMap<string, V | undefined>): void {
    const kept = new Map<string, V | undefined>()
    for (const [key, value] of edits) {
      const shown = this.#published.get(key)
      const equal = shown !== undefined && value !== undefined && this.#same(shown, value)
      const next = equal ? shown : value
      kept.set(key, next)
      if (next === shown) this.#differing.delete(key)
      else this.#differing.add(key)
    }
    this.#working = this.#working.with(kept)
  }

  publish(): SortedMap<V> {
    if (this.#differing.size > 0) this.#published = this.#working
    this.#working = this.#published
    this.#differing.clear()
    return this.#published
  }
}
