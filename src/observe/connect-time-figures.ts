import type {
  ConnectTime,
  ConnectTimeObserver,
} from '../kernel/connect-time/connect-time.ts'
import type { LedCount } from '../kernel/connect-time/tables.ts'
import { counter, gauge, type Sample } from './exposition.ts'
import type { Log } from './log.ts'
import type { Table } from './metrics-table.ts'

/** What connect-time steering did since the process started; and the log of it. */
export class ConnectTimeFigures implements ConnectTimeObserver {
  readonly #log: Log
  syncs = 0
  seconds = 0
  failures = 0
  repairs = 0
  #reported = ''
  #reportedOfUdp = ''

  constructor(log: Log) {
    this.#log = log
  }

  synced(seconds: number): void {
    if (this.syncs === 0 || this.#reported !== '')
      this.#log.info({ ms: Math.round(seconds * 1000) }, 'connect-time steering is on')
    this.#reported = ''
    this.syncs += 1
    this.seconds += seconds
  }

  failed(error: Error, stays: boolean): void {
    this.failures += 1
    if (this.#reported === error.message) return
    this.#reported = error.message
    const what = stays
      ? 'connect-time steering fails, and stale entries still direct clients'
      : 'connect-time steering fails; the proxy mode serves all clients'
    this.#log.error({ why: error.message }, what)
  }

  damaged(what: string): void {
    this.repairs += 1
    this.#log.warn(
      { what },
      "another program changed Usher's connect-time programs; restored them",
    )
  }

  udpFailed(why: string): void {
    if (why !== '' && why !== this.#reportedOfUdp)
      this.#log.warn({ why }, 'UDP clients may keep using removed endpoints')
    this.#reportedOfUdp = why
  }
}

export interface ConnectTimeReadings {
  readonly figures: ConnectTimeFigures
  readonly state: ConnectTime['state'] | 'not usable'
  readonly left: number
  readonly counts: readonly LedCount[]
}

const servicePort = ['service_port', 'protocol']
const each = (read: (count: LedCount) => number) =>
  function* ({ counts }: ConnectTimeReadings): Generator<Sample> {
    for (const one of counts) yield [one.labels, read(one)]
  }

export const connectTimeTable: Table<ConnectTimeReadings> = [
  gauge(
    'usher_connect_time_leads',
    '1 while connect-time steering is on.',
    ({ state }) => (state === 'leading' ? 1 : 0),
  ),
  counter(
    'usher_connect_time_led_total',
    'Connects and UDP flows of processes on this node that were sent to an endpoint.',
    each(({ led }) => led),
    servicePort,
  ),
  counter(
    'usher_connect_time_refused_total',
    'Connects and UDP flows refused because there was no endpoint.',
    each(({ refused }) => refused),
    servicePort,
  ),
  gauge(
    'usher_connect_time_left',
    'ServicePorts that do not fit into the tables.',
    ({ left }) => left,
  ),
  counter(
    'usher_connect_time_syncs_total',
    'Syncs of the tables.',
    ({ figures }) => figures.syncs,
  ),
  counter(
    'usher_connect_time_sync_seconds_total',
    'Seconds spent syncing the tables.',
    ({ figures }) => figures.seconds,
  ),
  counter(
    'usher_connect_time_sync_failures_total',
    'Syncs of the tables that the kernel rejected.',
    ({ figures }) => figures.failures,
  ),
  counter(
    'usher_connect_time_repairs_total',
    "Times another program changed Usher's tables or programs and Usher restored them.",
    ({ figures }) => figures.repairs,
  ),
]
