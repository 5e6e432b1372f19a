import type { Clock, Timer } from '../util/clock.ts'
import { FlowAges, type Place } from './flow-ages.ts'
import type { RelayLimits } from './relay.ts'

const tickMs = 100
/** So much after its idle limit a flow has ended, where the process is not too busy. */
export const latestEndMs = 3 * tickMs
/** To end a flow costs a close(2): others have their turn between so many. */
const mostInATurn = 2048
const nextTurnMs = 1

/** A UDP flow, as far as its limits go. */
export interface LimitedFlow<F> {
  answered: boolean
  /** As `FlowLimits.now` has it. */
  touchedAt: number
  /** Where it stands in its listener's order of ages, and in that of all. */
  readonly ownPlace: Place<F>
  readonly commonPlace: Place<F>
  close(): void
  /** It has had no reply for as long as it waits for one: it ends. */
  unanswered(): void
}

/**
 * The flows of all UDP listeners and their idle limits. One coarse timer serves them all, and
 * only while there are any: a datagram costs a comparison, not a timer.
 */
export class FlowLimits<F extends LimitedFlow<F>> {
  readonly #clock: Clock
  readonly #limits: RelayLimits
  readonly #ages = new FlowAges<F>(flow => flow.commonPlace)
  /** Those that have flows. */
  readonly #listeners = new Set<ListenerFlows<F>>()
  #timer: Timer | undefined
  #now = 0

  constructor(clock: Clock, limits: RelayLimits) {
    this.#clock = clock
    this.#limits = limits
  }

  /** Monotonic milliseconds, up to one tick old while there are flows. */
  get now(): number {
    return this.#now
  }

  /** Whether there is room for one more only in the place of another. */
  get isFull(): boolean {
    return this.#ages.size >= this.#limits.udpMaxFlows
  }

  /** How many are more than there may be. */
  get excess(): number {
    return this.#ages.size - this.#limits.udpMaxFlows
  }

  get mostDispensable(): F | undefined {
    return this.#ages.mostDispensable
  }

  add(flow: F, listener: ListenerFlows<F>, idleMs: number): void {
    this.#listeners.add(listener)
    if (this.#timer === undefined) this.#schedule(tickMs)
    flow.touchedAt = this.#now - idleMs
    this.#ages.push(flow)
  }

  push(flow: F): void {
    this.#ages.push(flow)
  }

  remove(flow: F): void {
    this.#ages.remove(flow)
  }

  #schedule(ms: number): void {
    this.#now = this.#clock.now()
    this.#timer = this.#clock.setTimeout(() => this.#tick(), ms)
    this.#timer.unref?.()
  }

  #tick(): void {
    this.#timer = undefined
    this.#now = this.#clock.now()
    let left = mostInATurn
    for (const listener of this.#listeners) {
      left = this.#endOverdue(listener, left)
      if (listener.size === 0) this.#listeners.delete(listener)
    }
    if (this.#ages.size > 0) this.#schedule(left === 0 ? nextTurnMs : tickMs)
  }

  /** `most` at most; how many more may end in this turn. */
  #endOverdue(listener: ListenerFlows<F>, most: number): number {
    const { udpReplyTimeout, udpTimeout } = this.#limits
    const { ages, idleMs } = listener
    for (let left = most; left > 0; left -= 1) {
      const silent = this.#overdue(ages.oldestUnanswered, idleMs ?? udpReplyTimeout)
      const flow = silent ?? this.#overdue(ages.oldestAnswered, idleMs ?? udpTimeout)
      if (flow === undefined) return left
      if (flow === silent) flow.unanswered()
      else flow.close()
    }
    return 0
  }

  /** `flow`, if it has been idle for longer than it may be. */
  #overdue(flow: F | undefined, idleMs: number): F | undefined {
    // It may have been used up to a tick later than noted; a reply must not be lost by it.
    const isOver = flow !== undefined && this.#now - flow.touchedAt >= idleMs + tickMs
    return isOver ? flow : undefined
  }
}

/** The flows of one listener by age, within those of all. */
export class ListenerFlows<F extends LimitedFlow<F>> {
  readonly #all: FlowLimits<F>
  readonly #most: number
  readonly ages = new FlowAges<F>(flow => flow.ownPlace)
  /** Milliseconds, in place of both of the relay's limits. */
  idleMs: number | undefined

  /** `most`: of this listener. */
  constructor(all: FlowLimits<F>, most: number) {
    this.#all = all
    this.#most = most
  }

  get size(): number {
    return this.ages.size
  }

  /** The flow in whose place alone there is room for one more. */
  get inTheWay(): F | undefined {
    if (this.ages.size >= this.#most) return this.ages.mostDispensable
    return this.#all.isFull ? this.#all.mostDispensable : undefined
  }

  /** New, or idle for `idleMs`: then `sort` is to be called when all such are there. */
  add(flow: F, idleMs = 0): void {
    this.#all.add(flow, this, idleMs)
    this.ages.push(flow)
  }

  /** How long it has been idle. */
  idleMsOf({ touchedAt }: F): number {
    return this.#all.now - touchedAt
  }

  /** In the order of their ages again; as many end as are too many. */
  sort(): void {
    this.ages.sort(({ touchedAt }) => touchedAt)
    for (let more = this.size - this.#most; more > 0; more -= 1)
      this.ages.mostDispensable?.close()
    for (let more = this.#all.excess; more > 0; more -= 1)
      this.#all.mostDispensable?.close()
  }

  /** It has had a datagram. */
  touched(flow: F): void {
    const { now } = this.#all
    if (flow.touchedAt !== now) this.#push(flow, now)
  }

  /** It has had its first reply. */
  answered(flow: F): void {
    this.remove(flow)
    flow.answered = true
    this.#push(flow, this.#all.now)
  }

  remove(flow: F): void {
    this.ages.remove(flow)
    this.#all.remove(flow)
  }

  #push(flow: F, now: number): void {
    flow.touchedAt = now
    this.ages.push(flow)
    this.#all.push(flow)
  }
}
