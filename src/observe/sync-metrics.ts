import type { IpFamily } from '../util/ip.ts'
import { PlainHistogram } from './exposition.ts'

/** Changed objects: Services, and the slices (or Endpoints) of Services. */
export interface ChangeCount {
  readonly services: number
  readonly endpoints: number
}

const range = (from: number, to: number, step: number): number[] =>
  Array.from({ length: (to - from) / step + 1 }, (_, i) => from + i * step)

/** kube-proxy's: 1 ms, and each twice the one before, to 16 s. */
export const syncBuckets: readonly number[] = range(0, 14, 1).map(k => 0.001 * 2 ** k)

/** kube-proxy's: fine up to a minute, since that is where its objective lies. */
const programmingBuckets: readonly number[] = [
  0.25,
  0.5,
  ...range(1, 59, 1),
  ...range(60, 115, 5),
  ...range(120, 300, 30),
]

interface FamilyState {
  readonly duration: PlainHistogram
  readonly programming: PlainHistogram
  /** Epoch milliseconds; undefined until it has happened. */
  queuedAt: number | undefined
  appliedAt: number | undefined
}

const newState = (): FamilyState => ({
  duration: new PlainHistogram(syncBuckets),
  programming: new PlainHistogram(programmingBuckets),
  queuedAt: undefined,
  appliedAt: undefined,
})

/**
 * What kube-proxy measures of its syncs, under its names: each wanted state that waits and
 * each that was applied. Read at a scrape.
 */
export class SyncMetrics {
  readonly #epoch: () => number
  readonly #startedAt: number
  #services = 0
  #endpoints = 0
  readonly families: Readonly<Record<IpFamily, FamilyState>> = {
    IPv4: newState(),
    IPv6: newState(),
  }

  /** `epoch`: epoch milliseconds; Date.now. */
  constructor(epoch: () => number = Date.now) {
    this.#epoch = epoch
    this.#startedAt = epoch()
  }

  /** How many changes syncs have taken in since the process started. */
  get changes(): ChangeCount {
    return { services: this.#services, endpoints: this.#endpoints }
  }

  /** A sync takes in so many changes. */
  taken({ services, endpoints }: ChangeCount): void {
    this.#services += services
    this.#endpoints += endpoints
  }

  queued(family: IpFamily): void {
    this.families[family].queuedAt = this.#epoch()
  }

  /**
   * `seconds` the sync took; `triggerTimes` (epoch milliseconds) of the changes in it. Those
   * from before this process say nothing about it and are not counted.
   */
  applied(
    family: IpFamily,
    sync: { readonly seconds: number; readonly triggerTimes: readonly number[] },
  ): void {
    const now = this.#epoch()
    const state = this.families[family]
    state.appliedAt = now
    state.duration.observe(sync.seconds)
    for (const at of sync.triggerTimes) {
      if (at < this.#startedAt) continue
      // A negative latency is a difference of two clocks.
      state.programming.observe(Math.max(0, now - at) / 1000)
    }
  }
}
