import { type IsPassedOver, Pool, type Tiered } from './pool.ts'

/** As many draws may come to nothing before all endpoints are looked at. */
const mostDraws = 8

/** Each turn is a draw, in which an endpoint of weight 2 has twice the chance of one of weight 1. */
export class RandomChoice<E extends Tiered> extends Pool<E> {
  readonly #random: () => number
  readonly #varies: boolean
  /** What counts in place of the weights that endpoints have. */
  protected readonly weightOf: (endpoint: E) => number
  #isEven = true

  /** As RoundRobin's. */
  constructor(random: () => number, weightOf?: (endpoint: E) => number) {
    super()
    this.#random = random
    this.#varies = weightOf !== undefined
    this.weightOf = weightOf ?? givenWeight
  }

  protected override ordered(incoming: ReadonlyMap<string, E>): readonly E[] {
    return [...incoming.values()]
  }

  protected override changed(): void {
    const [first] = this.all
    this.#isEven =
      !this.#varies && this.all.every(one => givenWeight(one) === givenWeight(first))
  }

  protected override nextOf(isOut: IsPassedOver<E>): E | undefined {
    return this.draw(isOut)
  }

  protected override candidatesOf(isOut: IsPassedOver<E>): readonly E[] {
    const open = this.all.filter(one => !isOut(one))
    const weighty = open.filter(endpoint => this.weightOf(endpoint) > 0)
    return weighty.length > 0 ? weighty : open
  }

  /** One of those that are not out. Of thousands only a few are looked at, as long as few are out. */
  protected draw(isOut: IsPassedOver<E>): E | undefined {
    const { all } = this
    for (let tries = this.#isEven ? 0 : mostDraws; tries < mostDraws; tries += 1) {
      const endpoint = all[Math.floor(this.#random() * all.length)]
      if (endpoint !== undefined && !isOut(endpoint)) return endpoint
    }
    return this.#drawOfAll(all.filter(one => !isOut(one)))
  }

  #drawOfAll(open: readonly E[]): E | undefined {
    let total = 0
    for (const endpoint of open) total += this.weightOf(endpoint)
    // All have no weight: they are for when there are no others.
    if (total === 0) return open[Math.floor(this.#random() * open.length)]
    let at = this.#random() * total
    for (const endpoint of open) {
      at -= this.weightOf(endpoint)
      if (at < 0) return endpoint
    }
    return open.at(-1)
  }
}

const givenWeight = (one: Tiered | undefined): number => one?.weight ?? 1

/** An endpoint whose connections are counted, those of all workers and dials under way too. */
export interface Counted extends Tiered {
  /** 0 where they are not counted. */
  readonly connections?: number
}

/** Of so many all are looked at. */
const few = 8

/**
 * The one with the fewest connections, for its weight, of two that are drawn at random: all but as
 * even as to look at all of them, at a cost that does not grow with them, and proxies that know
 * nothing of each other don't all run to the same one (Mitzenmacher, "The Power of Two Choices in
 * Randomized Load Balancing", 2001). Of few all are looked at.
 */
export class LeastConnections<E extends Counted> extends RandomChoice<E> {
  protected override nextOf(isOut: IsPassedOver<E>): E | undefined {
    // Which of several that are level is drawn, too.
    const one = this.draw(isOut)
    if (one === undefined) return undefined
    if (this.size > few) {
      const other = this.draw(endpoint => endpoint === one || isOut(endpoint))
      return other !== undefined && this.#isLess(other, one) ? other : one
    }
    let least = one
    for (const other of this.all) {
      if (other !== one && this.#isLess(other, least) && !isOut(other)) least = other
    }
    return least
  }

  /** Of many, those that could be drawn. */
  protected override candidatesOf(isOut: IsPassedOver<E>): readonly E[] {
    const drawn = super.candidatesOf(isOut)
    if (this.size > few) return drawn
    return drawn.filter(one => !drawn.some(other => this.#isLess(other, one)))
  }

  /** With the connection that is to be. */
  #isLess(one: E, other: E): boolean {
    const { connections = 0 } = one
    const { connections: others = 0 } = other
    return (connections + 1) * this.weightOf(other) < (others + 1) * this.weightOf(one)
  }
}
