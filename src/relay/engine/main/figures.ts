import { isCoolingDown } from '../../../balance/cooldown.ts'
import { counterCell } from '../../counters.ts'
import type { EndpointStats } from '../../relay.ts'
import type { SharedEndpointState } from '../shared/shared-endpoint-state.ts'
import { endpointCell as cell, type StatsPages } from '../shared/stats-pages.ts'
import type { WorkerHandle } from './worker-handle.ts'

/** Reads what workers have written, summed over all of them. */
export class Figures {
  readonly #listeners: readonly StatsPages[]
  readonly #endpoints: readonly StatsPages[]
  readonly #endpointState: SharedEndpointState
  readonly #sums = new Float64Array(counterCell.count)
  readonly now: () => number

  /** `now`: the time that workers write, see `monotonicClock`. */
  constructor(
    workers: readonly WorkerHandle[],
    endpointState: SharedEndpointState,
    now: () => number,
  ) {
    this.#endpointState = endpointState
    this.#listeners = workers.map(({ listenerPages }) => listenerPages)
    this.#endpoints = workers.map(({ endpointPages }) => endpointPages)
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
