import { type Linked, LinkedSet } from '../util/linked-set.ts'

/** The place of an item in a list. An item has one per list that it can be in. */
export class Place<T> implements Linked<Place<T>> {
  readonly item: T
  setNext: Place<T> | undefined = undefined
  setPrevious: Place<T> | undefined = undefined

  constructor(item: T) {
    this.item = item
  }
}

/** Items in the order of their last use: moving one to the young end is done for every datagram. */
export class LruList<T> extends LinkedSet<Place<T>> {
  get oldest(): T | undefined {
    return this.first?.item
  }

  /** Makes it the youngest, whether it was listed or not. */
  push(place: Place<T>): void {
    if (this.last === place) return
    this.delete(place)
    this.add(place)
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

  /** Puts them in order again after some were pushed that are not the youngest; `age` goes up with use. */
  sort(age: (flow: F) => number): void {
    for (const list of [this.#unanswered, this.#answered]) {
      const places = [...list].toSorted((one, other) => age(one.item) - age(other.item))
      for (const place of places) list.push(place)
    }
  }

  /** To be called before a flow's `answered` changes, and `push` after it. */
  remove(flow: F): void {
    this.#listOf(flow).delete(this.#placeOf(flow))
  }

  #listOf(flow: F): LruList<F> {
    return flow.answered ? this.#answered : this.#unanswered
  }
}
