/**
 * An immutable map in the order of its keys. One with a few entries changed is made in
 * the time of copying an array, which a Map with its hash table takes ten times as long
 * for; looking a key up is a binary search.
 */
export class SortedMap<V> implements ReadonlyMap<string, V> {
  readonly #keys: readonly string[]
  readonly #values: readonly V[]

  private constructor(keys: readonly string[], values: readonly V[]) {
    this.#keys = keys
    this.#values = values
  }

  static empty<V>(): SortedMap<V> {
    return new SortedMap<V>([], [])
  }

  get size(): number {
    return this.#keys.length
  }

  get(key: string): V | undefined {
    const at = this.#firstNotBefore(key)
    return this.#keys[at] === key ? this.#values[at] : undefined
  }

  has(key: string): boolean {
    return this.#keys[this.#firstNotBefore(key)] === key
  }

  keys(): ArrayIterator<string> {
    return this.#keys.values()
  }

  /** The values in the order of their keys; not a copy. */
  get list(): readonly V[] {
    return this.#values
  }

  values(): ArrayIterator<V> {
    return this.#values.values()
  }

  *entries(): Generator<[string, V], undefined> {
    let at = 0
    for (const value of this.#values) yield [this.#keys[at++] ?? '', value]
  }

  [Symbol.iterator](): Generator<[string, V], undefined> {
    return this.entries()
  }

  forEach(visit: (value: V, key: string, map: ReadonlyMap<string, V>) => void): void {
    for (const [key, value] of this.entries()) visit(value, key, this)
  }

  /** With other values, and with undefined without the key. Itself when nothing changes. */
  with(edits: ReadonlyMap<string, V | undefined>): SortedMap<V> {
    const real = [...edits].filter(([key, value]) => this.get(key) !== value)
    if (real.length === 0) return this
    const grows = real.some(([key, value]) => value === undefined || !this.has(key))
    return grows ? this.#merged(real) : this.#replaced(real)
  }

  #replaced(edits: readonly (readonly [string, V | undefined])[]): SortedMap<V> {
    const values = [...this.#values]
    for (const [key, value] of edits) {
      if (value !== undefined) values[this.#firstNotBefore(key)] = value
    }
    return new SortedMap(this.#keys, values)
  }

  #merged(edits: readonly (readonly [string, V | undefined])[]): SortedMap<V> {
    const keys: string[] = []
    const values: V[] = []
    let from = 0
    const copyUntil = (to: number): void => {
      for (const key of this.#keys.slice(from, to)) keys.push(key)
      for (const value of this.#values.slice(from, to)) values.push(value)
      from = to
    }
    for (const [key, value] of edits.toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      copyUntil(this.#firstNotBefore(key))
      if (this.#keys[from] === key) from++
      if (value === undefined) continue
      keys.push(key)
      values.push(value)
    }
    copyUntil(this.size)
    return new SortedMap(keys, values)
  }

  /** The index of the first key that is not smaller. */
  #firstNotBefore(key: string): number {
    let low = 0
    let high = this.#keys.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#keys[middle] ?? '') < key) low = middle + 1
      else high = middle
    }
    return low
  }
}

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
