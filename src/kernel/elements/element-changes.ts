/** A thing that a kernel's set or map has, by its key. */
export interface Element {
  /** The set or map that it is in. */
  readonly set: string
  readonly key: string
  /** What a map gives for the key; '' in a set. */
  readonly value: string
}

/** What an element was, and what it is to be; undefined: it is not there. */
export interface Change {
  readonly gone?: string
  readonly come?: string
}

/** Elements to take out and to put in, in any order. */
export class ElementChanges {
  readonly #sets = new Map<string, Map<string, { gone?: string; come?: string }>>()

  gone({ set, key, value }: Element): void {
    this.#change(set, key).gone = value
  }

  come({ set, key, value }: Element): void {
    this.#change(set, key).come = value
  }

  /** By set and key. Some change nothing: what went came again with the same value. */
  get sets(): ReadonlyMap<string, ReadonlyMap<string, Change>> {
    return this.#sets
  }

  /** By how many elements each set grows. */
  *growth(): Iterable<readonly [string, number]> {
    for (const [set, changes] of this.#sets) {
      let growth = 0
      for (const { gone, come } of changes.values()) {
        growth += (come === undefined ? 0 : 1) - (gone === undefined ? 0 : 1)
      }
      yield [set, growth]
    }
  }

  #change(set: string, key: string): { gone?: string; come?: string } {
    let changes = this.#sets.get(set)
    if (changes === undefined) this.#sets.set(set, (changes = new Map()))
    let change = changes.get(key)
    if (change === undefined) changes.set(key, (change = {}))
    return change
  }
}
