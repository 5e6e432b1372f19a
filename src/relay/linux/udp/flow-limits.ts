import type { Clock, Timer } from '../../../util/clock.ts'
import { FlowAges } from '../../flow-ages.ts'
import type { Place } from '../../lru-list.ts'
import type { RelayLimits } from '../../relay.ts'

const tickMs = 100
/** To end a flow costs a close(2): others have their turn between so many. */
const mostInATurn = 2048
const nextTurnMs = 1

/** What the flows of all listeners have in common. */
export interface LimitedFlow {
  answered: boolean
  touchedAt: number
  readonly commonPlace: Place<LimitedFlow>
  close(): void
  /** As `close`, but its descriptor stays taken from the budget, for the caller. */
  giveWay(): void
}

/**
 * The flows of all UDP listeners of a worker and their idle limits. One coarse timer
 * serves them all, and only while there are any: a datagram costs a comparison, not a timer.
 */
export class FlowLimits {
  readonly #clock: Clock
  readonly #limits: RelayLimits
  readonly #most: number
  readonly #ages = new FlowAges<LimitedFlow>(flow => flow.commonPlace)
  #timer: Timer | undefined
  #now = 0

  /**
   * `spendable`: descriptors of the process, of which flows get half at most: a flood of
   * datagrams must leave TCP its own.
   */
  constructor(clock: Clock, limits: RelayLimits, spendable: number) {
    this.#clock = clock
    this.#limits = limits
    this.#most = Math.min(limits.udpFlows, Math.floor(spendable / 2))
  }

  /** Monotonic milliseconds, up to one tick old while there are flows. */
  get now(): number {
    return this.#now
  }

  /** Whether there is room for one more only in the place of another. */
  get isFull(): boolean {
    return this.#ages.size >= this.#most
  }

  get mostDispensable(): LimitedFlow | undefined {
    return this.#ages.mostDispensable
  }

  add(flow: LimitedFlow): void {
    if (this.#timer === undefined) this.#schedule(tickMs)
    flow.touchedAt = this.#now
    this.#ages.push(flow)
  }

  push(flow: LimitedFlow): void {
    this.#ages.push(flow)
  }

  remove(flow: LimitedFlow): void {
    this.#ages.remove(flow)
  }

  #schedule(ms: number): void {
    this.#now = this.#clock.now()
    this.#timer = this.#clock.setTimeout(() => this.#tick(), ms)
  }

  #tick(): void {
    this.#timer = undefined
    this.#now = this.#clock.now()
    const { udpReplyIdleMs, udpIdleMs } = this.#limits
    let left = mostInATurn
    left = this.#expire(() => this.#ages.oldestUnanswered, udpReplyIdleMs, left)
    left = this.#expire(() => this.#ages.oldestAnswered, udpIdleMs, left)
    if (this.#ages.size > 0) this.#schedule(left === 0 ? nextTurnMs : tickMs)
  }

  /** Ends at most `most`; gives how many more it might have. */
  #expire(oldest: () => LimitedFlow | undefined, idleMs: number, most: number): number {
    for (let left = most; left > 0; left -= 1) {
      const flow = oldest()
      // It may have been used up to a tick later than noted; a reply must not be lost by it.
      if (flow === undefined || this.#now - flow.touchedAt < idleMs + tickMs) return left
      flow.close()
    }
    return 0
  }
}
