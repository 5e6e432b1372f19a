import type { May, Tiered } from './pool.ts'
import { RandomChoice } from './random-choice.ts'

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
  protected override nextOf(may: May<E>): E | undefined {
    // Which of several that are level is drawn, too.
    const one = this.draw(may)
    if (one === undefined) return undefined
    if (this.size > few) {
      const other = this.draw(endpoint => endpoint !== one && may(endpoint))
      return other !== undefined && this.#isLess(other, one) ? other : one
    }
    let least = one
    for (const other of this.all) {
      if (other !== one && this.#isLess(other, least) && may(other)) least = other
    }
    return least
  }

  /** Of many, those that could be drawn. */
  protected override candidatesOf(may: May<E>): readonly E[] {
    const drawn = super.candidatesOf(may)
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
