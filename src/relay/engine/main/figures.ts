import { isCoolingDown } from '../../../balance/cooldown.ts'
import {
  cellsOf,
  counterCell,
  gaugeCells,
  type ListenerCounters,
} from '../../counters.ts'
import type { EndpointStats } from '../../relay.ts'
import type { SharedEndpointState } from '../shared/shared-endpoint-state.ts'
import { endpointCell as cell, StatsPages } from '../shared/stats-pages.ts'
import type { WorkerHandle } from './worker-handle.ts'

/** Counters of a listener, and of its endpoints by slot. */
export interface CountedBefore {
  readonly counters: ListenerCounters
  readonly endpoints: ReadonlyMap<number, Pick<EndpointStats, 'failures' | 'retransmits'>>
}

/** Reads what workers have written, summed over all of them. */
export class Figures {
  readonly #listeners: readonly StatsPages[]
  readonly #endpoints: readonly StatsPages[]
  readonly #endpointState: SharedEndpointState
  /** What another process has counted that served before; the last one. */
  readonly #before = {
    listeners: new StatsPages(counterCell.count),
    endpoints: new StatsPages(cell.count),
  }
  readonly #sums = new Float64Array(counterCell.count)
  readonly now: () => number

  /** `now`: the time that workers write, see `monotonicClock`. */
  constructor(
    workers: readonly WorkerHandle[],
    endpointState: SharedEndpointState,
    now: () => number,
  ) {
    this.#endpointState = endpointState
    const { listeners, endpoints } = this.#before
    this.#listeners = [...workers.map(one => one.listenerPages), listeners]
    this.#endpoints = [...workers.map(one => one.endpointPages), endpoints]
    this.now = now
  }

  /** Of a listener, by `counterCell`; overwritten by the next call. */
  counters(slot: number): Float64Array {
    const sums = this.#sums.fill(0)
    for (const pages of this.#listeners) pages.addTo(sums, slot)
    // Of times the latest counts, not their sum.
    let [servedAt, unservedAt] = [0, 0]
    for (const pages of this.#listeners) {
      servedAt = Math.max(servedAt, pages.read(slot, counterCell.servedAt))
      unservedAt = Math.max(unservedAt, pages.read(slot, counterCell.unservedAt))
    }
    sums[counterCell.servedAt] = servedAt
    sums[counterCell.unservedAt] = unservedAt
    return sums
  }

  /** Asked for 100 000 times a scrape: without a list for each figure. */
  endpoint(key: string, slot: number): EndpointStats {
    const coolingDown = isCoolingDown(this.#endpointState.readCooldown(slot), this.now())
    const stats = { key, active: 0, failures: 0, coolingDown, retransmits: 0 }
    let [rttUs, known] = [0, 0]
    for (const pages of this.#endpoints) {
      stats.active += pages.read(slot, cell.active)
      stats.failures += pages.read(slot, cell.failures)
      stats.retransmits += pages.read(slot, cell.retransmits)
      const rtt = pages.read(slot, cell.rttUs)
      if (rtt <= 0) continue
      rttUs += rtt
      known += 1
    }
    return known === 0 ? stats : { ...stats, rttMs: rttUs / known / 1000 }
  }

  /** What was counted before, in another process; said again it takes the place of what was said. */
  takeOver(slot: number, { counters, endpoints }: CountedBefore): void {
    this.#before.listeners.ensure(slot)
    for (const [at, count] of cellsOf(counters).entries())
      if (!gaugeCells.includes(at)) this.#before.listeners.write(slot, at, count)
    for (const [endpoint, { failures, retransmits = 0 }] of endpoints) {
      this.#before.endpoints.ensure(endpoint)
      this.#before.endpoints.write(endpoint, cell.failures, failures)
      this.#before.endpoints.write(endpoint, cell.retransmits, retransmits)
    }
  }

  /** Before the slots are used again. */
  clear(listener: number, endpoints: Iterable<number>): void {
    for (const pages of this.#listeners) pages.clear(listener)
    this.clearEndpoints(endpoints)
  }

  clearEndpoints(slots: Iterable<number>): void {
    for (const slot of slots) {
      for (const pages of this.#endpoints) pages.clear(slot)
      this.#endpointState.renew(slot)
    }
  }
}
