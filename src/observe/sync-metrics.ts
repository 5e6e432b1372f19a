import { ipFamilies } from '../util/ip.ts'
import type { IpFamily } from '../util/ip.ts'
import { labelText } from './exposition.ts'
import type { OwnFamily, Sample } from './exposition.ts'
import type { ChangeCount } from './kube-families.ts'
import { PlainHistogram } from './plain-histogram.ts'

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
 * What kube-proxy measures of its syncs, under its names. Told of each wanted state that
 * waits and each that was applied; read at a scrape.
 */
export class SyncMetrics {
  readonly #epoch: () => number
  readonly #startedAt: number
  #services = 0
  #endpoints = 0
  readonly #states: Readonly<Record<IpFamily, FamilyState>> = {
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
    this.#states[family].queuedAt = this.#epoch()
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
    const state = this.#states[family]
    state.appliedAt = now
    state.duration.observe(sync.seconds)
    for (const at of sync.triggerTimes) {
      if (at < this.#startedAt) continue
      // A negative latency is a difference of two clocks.
      state.programming.observe(Math.max(0, now - at) / 1000)
    }
  }

  readonly families: readonly OwnFamily[] = [
    {
      name: 'kubeproxy_sync_proxy_rules_duration_seconds',
      type: 'histogram',
      help: 'Time it took to apply the wanted state.',
      samples: () =>
        this.#each((state, labels) =>
          state.appliedAt === undefined ? [] : state.duration.samples(labels),
        ),
    },
    {
      name: 'kubeproxy_sync_proxy_rules_last_timestamp_seconds',
      type: 'gauge',
      help: 'When the wanted state was last applied (Unix time).',
      samples: () => this.#times(state => state.appliedAt),
    },
    {
      name: 'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds',
      type: 'gauge',
      help: 'When a change last asked to be applied (Unix time).',
      samples: () => this.#times(state => state.queuedAt),
    },
    {
      name: 'kubeproxy_network_programming_duration_seconds',
      type: 'histogram',
      help: 'Time from what changed in the cluster (last-change-trigger-time) until it was applied here.',
      samples: () =>
        this.#each((state, labels) =>
          state.appliedAt === undefined ? [] : state.programming.samples(labels),
        ),
    },
  ]

  #each(read: (state: FamilyState, labels: string) => readonly Sample[]): Sample[] {
    return ipFamilies.flatMap(name =>
      read(this.#states[name], labelText({ ip_family: name })),
    )
  }

  #times(read: (state: FamilyState) => number | undefined): Sample[] {
    return this.#each((state, labels) => {
      const at = read(state)
      return at === undefined ? [] : [{ suffix: '', labels, value: at / 1000 }]
    })
  }
}
