import { LruList, type Place } from './lru-list.ts'

/** What makes a flow ageable. */
export interface Ageing {
  /** Whether the endpoint has ever answered it. */
  answered: boolean
}

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
   * Whom to end when there are too many. Unanswered ones first: a flood from made-up
   * addresses then displaces itself and not those who are being served.
   */
  get mostDispensable(): F | undefined {
    return this.#unanswered.oldest ?? this.#answered.oldest
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
