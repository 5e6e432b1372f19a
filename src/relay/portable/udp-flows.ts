import type { Clock, Timer } from '../../util/clock.ts'
import type { FdBudget } from '../fd-budget.ts'
import type { RelayLimits } from '../relay.ts'
import { FlowAges } from '../flow-ages.ts'
import type { UdpFlow } from './udp-flow.ts'

const tickMs = 100

/**
 * The flows of all UDP listeners and their idle limits. One coarse timer serves them all,
 * and only while there are any: a datagram costs a comparison, not a timer.
 */
export class UdpFlows {
  readonly #clock: Clock
  readonly #limits: RelayLimits
  /** Half of all descriptors at most: a flood of datagrams must leave TCP its own. */
  readonly #most: number
  readonly #ages = new FlowAges<UdpFlow>(flow => flow.commonPlace)
  #timer: Timer | undefined
  #now = 0

  constructor(clock: Clock, limits: RelayLimits, budget: Pick<FdBudget, 'spendable'>) {
    this.#clock = clock
    this.#limits = limits
    this.#most = Math.min(limits.udpFlows, Math.floor(budget.spendable / 2))
  }

  /** Monotonic milliseconds, up to one tick old while there are flows. */
  get now(): number {
    return this.#now
  }

  /** Ends the most dispensable flow if there is no room for one more. */
  makeRoom(): void {
    if (this.#ages.size >= this.#most) this.#ages.mostDispensable?.close()
  }

  /** Ends a flow to get its descriptor; false when there is none to end. */
  evict(): boolean {
    const flow = this.#ages.mostDispensable
    flow?.close()
    return flow !== undefined
  }

  add(flow: UdpFlow): void {
    if (this.#timer === undefined) this.#schedule()
    flow.touchedAt = this.#now
    this.#ages.push(flow)
  }

  push(flow: UdpFlow): void {
    this.#ages.push(flow)
  }

  remove(flow: UdpFlow): void {
    this.#ages.remove(flow)
  }

  #schedule(): void {
    this.#now = this.#clock.now()
    this.#timer = this.#clock.setTimeout(() => this.#tick(), tickMs)
    this.#timer.unref?.()
  }

  #tick(): void {
    this.#timer = undefined
    this.#now = this.#clock.now()
    const { udpReplyIdleMs, udpIdleMs } = this.#limits
    this.#expire(() => this.#ages.oldestUnanswered, udpReplyIdleMs)
    this.#expire(() => this.#ages.oldestAnswered, udpIdleMs)
    if (this.#ages.size > 0) this.#schedule()
  }

  #expire(oldest: () => UdpFlow | undefined, idleMs: number): void {
    for (let flow = oldest(); flow !== undefined; flow = oldest()) {
      // It may have been used up to a tick later than noted; a reply must not be lost by it.
      if (this.#now - flow.touchedAt < idleMs + tickMs) return
      flow.close()
    }
  }
}
