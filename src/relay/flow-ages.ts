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

/** What makes a flow ageable. */
export interface Ageing {
  /** Whether the endpoint has ever answered it. */
  answered: boolean
}

/** Of all flows so many may wait for their first answer before they go first. */
const shareOfUnanswered = 1 / 4

/**
 * Flows in the order of their last datagram, in two stages: those without an answer so far
 * yet and those that were answered.
 */
export class FlowAges<F extends Ageing> {
  readonly #placeOf: (flow: F) => Place<F>
  readonly #unanswered = new LruList<F>()
  readonly #answered = new LruList<F>()

  constructor(placeOf: (flow: F) => Place<F>) {
    this.#placeOf = placeOf
  }

  get size(): number {
    return this.#unanswered.size + this.#answered.size
  }

  get oldestUnanswered(): F | undefined {
    return this.#unanswered.oldest
  }

  get oldestAnswered(): F | undefined {
    return this.#answered.oldest
  }

  /**
   * Whom to end when there are too many. Unanswered ones, as far as they are more than their share:
   * a flood from made-up addresses then displaces itself and not those who are being served. Up to
   * that they may be waiting for an answer that is on its way.
   */
  get mostDispensable(): F | undefined {
    const isFlood = this.#unanswered.size > this.size * shareOfUnanswered
    const first = isFlood ? this.#unanswered : this.#answered
    return first.oldest ?? this.#unanswered.oldest
  }

  /** New, or used again. */
  push(flow: F): void {
    this.#listOf(flow).push(this.#placeOf(flow))
  }

  /** To be called before a flow's `answered` changes, and `push` after it. */
  remove(flow: F): void {
    this.#listOf(flow).remove(this.#placeOf(flow))
  }

  #listOf(flow: F): LruList<F> {
    return flow.answered ? this.#answered : this.#unanswered
  }
}
