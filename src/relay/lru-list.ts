/** The place of an item in a list. An item has one per list that it can be in. */
export class Place<T> {
  readonly item: T
  before: Place<T> | undefined
  after: Place<T> | undefined
  listed = false

  constructor(item: T) {
    this.item = item
  }
}

/**
 * Items in the order of their last use. Doubly linked through the items themselves:
 * moving one to the young end, for every datagram, allocates and hashes nothing.
 */
export class LruList<T> {
  #oldest: Place<T> | undefined
  #youngest: Place<T> | undefined
  #size = 0

  get size(): number {
    return this.#size
  }

  get oldest(): T | undefined {
    return this.#oldest?.item
  }

  /** Makes it the youngest, whether it was listed or not. */
  push(place: Place<T>): void {
    if (this.#youngest === place) return
    this.remove(place)
    place.listed = true
    place.before = this.#youngest
    if (this.#youngest === undefined) this.#oldest = place
    else this.#youngest.after = place
    this.#youngest = place
    this.#size += 1
  }

  remove(place: Place<T>): void {
    if (!place.listed) return
    if (place.before === undefined) this.#oldest = place.after
    else place.before.after = place.after
    if (place.after === undefined) this.#youngest = place.before
    else place.after.before = place.before
    place.before = undefined
    place.after = undefined
    place.listed = false
    this.#size -= 1
  }
}
