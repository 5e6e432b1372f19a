/** A member of a LinkedSet, of one at a time. */
export interface Linked<T> {
  setNext: T | undefined
  setPrevious: T | undefined
}

/**
 * Members in the order in which they were added, for thousands a second that come and go. A `Set` of V8 makes a
 * new table now and then, and the one before it, which leads to the next, keeps what was in it alive until a full
 * collection: most of what has long gone would be copied by each small one.
 */
export class LinkedSet<T extends Linked<T>> {
  #size = 0
  #first: T | undefined
  #last: T | undefined
  /** Where each iteration under way is; undefined: before the first. */
  readonly #cursors: { at: T | undefined }[] = []

  get size(): number {
    return this.#size
  }

  /** The one that was added first. */
  get first(): T | undefined {
    return this.#first
  }

  get last(): T | undefined {
    return this.#last
  }

  has(one: T): boolean {
    return one.setPrevious !== undefined || this.#first === one
  }

  /** It must be in none. */
  add(one: T): void {
    one.setPrevious = this.#last
    if (this.#last === undefined) this.#first = one
    else this.#last.setNext = one
    this.#last = one
    this.#size += 1
  }

  /** False: it was not there. */
  delete(one: T): boolean {
    const { setNext: next, setPrevious: previous } = one
    if (!this.has(one)) return false
    for (const cursor of this.#cursors) if (cursor.at === one) cursor.at = previous
    if (previous === undefined) this.#first = next
    else previous.setNext = next
    if (next === undefined) this.#last = previous
    else next.setPrevious = previous
    // Or those that have gone would keep each other.
    one.setNext = undefined
    one.setPrevious = undefined
    this.#size -= 1
    return true
  }

  /** As of a Set: any may come and go meanwhile. */
  *[Symbol.iterator](): Generator<T> {
    const cursor: { at: T | undefined } = { at: undefined }
    this.#cursors.push(cursor)
    try {
      for (;;) {
        const next: T | undefined =
          cursor.at === undefined ? this.#first : cursor.at.setNext
        if (next === undefined) return
        cursor.at = next
        yield next
      }
    } finally {
      this.#cursors.splice(this.#cursors.indexOf(cursor), 1)
    }
  }
}
