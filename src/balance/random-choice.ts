import { type May, Pool, type Tiered } from './pool.ts'

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
    this.weightOf = weightOf ?? weightSaid
  }

  protected override ordered(incoming: ReadonlyMap<string, E>): readonly E[] {
    return [...incoming.values()]
  }

  protected override changed(): void {
    const [first] = this.all
    this.#isEven =
      !this.#varies && this.all.every(one => weightSaid(one) === weightSaid(first))
  }

  protected override nextOf(may: May<E>): E | undefined {
    return this.draw(may)
  }

  protected override candidatesOf(may: May<E>): readonly E[] {
    const open = this.all.filter(may)
    const weighty = open.filter(endpoint => this.weightOf(endpoint) > 0)
    return weighty.length > 0 ? weighty : open
  }

  /** One of those that `may`. Of thousands only a few are looked at, as long as most of them may. */
  protected draw(may: May<E>): E | undefined {
    const { all } = this
    for (let tries = this.#isEven ? 0 : mostDraws; tries < mostDraws; tries += 1) {
      const endpoint = all[Math.floor(this.#random() * all.length)]
      if (endpoint !== undefined && may(endpoint)) return endpoint
    }
    return this.#drawOfAll(all.filter(may))
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

const weightSaid = (one: Tiered | undefined): number => one?.weight ?? 1
