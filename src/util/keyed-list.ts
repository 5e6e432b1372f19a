import { listDiff } from './list-diff.ts'
import { forEachYielding } from './yielding.ts'

interface Made<In, Out> {
  readonly from: In
  readonly made: Out
}

/**
 * What is made of each item of a list that changes little from one time to the next: an
 * item that is the same object as before keeps what was made of it, the same object too.
 */
export class KeyedList<In, Out> {
  readonly #keyOf: (item: In) => string
  readonly #byKey = new Map<string, Made<In, Out>>()
  #items: readonly In[] = []
  #made: readonly Out[] = []

  /** `keyOf` tells the items of one list apart. */
  constructor(keyOf: (item: In) => string) {
    this.#keyOf = keyOf
  }

  /** Which of `items` an `update` would make something of. */
  changed(items: readonly In[]): readonly In[] {
    const { after } = listDiff(this.#items, items)
    return after.filter(item => this.#byKey.get(this.#keyOf(item))?.from !== item)
  }

  /**
   * In the order of `items`. `make` is given what it made before of the item with that
   * key. When it throws, what it had made is kept, and the next call does the rest.
   */
  async update(
    items: readonly In[],
    make: (item: In, before: Out | undefined) => Out | Promise<Out>,
    { all = false, gone = () => {} }: UpdateOptions = {},
  ): Promise<readonly Out[]> {
    const { head, tail, before, after } = listDiff(all ? [] : this.#items, items)
    const wanted = new Set(after.map(this.#keyOf))
    await forEachYielding(all ? this.#items : before, item => {
      const key = this.#keyOf(item)
      if (wanted.has(key)) return
      this.#byKey.delete(key)
      gone(key)
    })
    const made: Out[] = []
    await forEachYielding(after, async item => {
      const key = this.#keyOf(item)
      const known = this.#byKey.get(key)
      if (!all && known?.from === item) {
        made.push(known.made)
        return
      }
      const one = await make(item, known?.made)
      this.#byKey.set(key, { from: item, made: one })
      made.push(one)
    })
    const kept = this.#made
    this.#items = items
    this.#made = [...kept.slice(0, head), ...made, ...kept.slice(kept.length - tail)]
    return this.#made
  }
}

interface UpdateOptions {
  /** Makes every item anew, also those that are the same. */
  readonly all?: boolean
  /** Told of the keys that are no longer there, before anything is made. */
  readonly gone?: (key: string) => void
}
