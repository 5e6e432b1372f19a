import { listDiff, listHunks, forEachYielding } from './list-diff.ts'

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
  /** The last update did not come to its end: the two lists say less than the map. */
  #unfinished = false

  /** `keyOf` is unique within a list. */
  constructor(keyOf: (item: In) => string) {
    this.#keyOf = keyOf
  }

  /** Which of `items` an `update` would make something of. */
  changed(items: readonly In[]): readonly In[] {
    const { after } = listDiff(this.#unfinished ? [] : this.#items, items)
    return after.filter(item => this.#byKey.get(this.#keyOf(item))?.from !== item)
  }

  /**
   * In the order of `items`. `make` is given what it made before of the item with that
   * key. When it throws, what it had made is kept, and the next call does the rest.
   */
  async update(
    items: readonly In[],
    make: Make<In, Out>,
    { all = false, gone = () => {} }: UpdateOptions = {},
  ): Promise<readonly Out[]> {
    const whole = all || this.#unfinished
    this.#unfinished = true
    const hunks = listHunks(whole ? [] : this.#items, items)
    const wanted = new Set(
      hunks.flatMap(({ after }) => items.slice(...after)).map(this.#keyOf),
    )
    const before = whole
      ? [...this.#byKey.keys()]
      : hunks.flatMap(hunk => this.#items.slice(...hunk.before)).map(this.#keyOf)
    await forEachYielding(before, key => {
      if (wanted.has(key)) return
      this.#byKey.delete(key)
      gone(key)
    })
    const made: Out[][] = []
    let kept = 0
    for (const hunk of hunks) {
      made.push(this.#made.slice(kept, hunk.before[0]))
      made.push(await this.#make(items.slice(...hunk.after), make, all))
      kept = hunk.before[1]
    }
    // When all is looked at the one hunk is the whole list.
    if (!whole) made.push(this.#made.slice(kept))
    this.#items = items
    this.#made = ([] as Out[]).concat(...made)
    this.#unfinished = false
    return this.#made
  }

  async #make(items: readonly In[], make: Make<In, Out>, all: boolean): Promise<Out[]> {
    const made: Out[] = []
    await forEachYielding(items, async item => {
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
    return made
  }
}

type Make<In, Out> = (item: In, before: Out | undefined) => Out | Promise<Out>

interface UpdateOptions {
  /** Makes every item anew, also those that are the same. */
  readonly all?: boolean
  /** Called with each key that is no longer there, before anything is made. */
  readonly gone?: (key: string) => void
}
