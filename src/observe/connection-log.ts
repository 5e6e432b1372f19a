import { causeText } from '../relay/cause.ts'
import type { Cause } from '../relay/cause.ts'
import type { Attempt, ConnectionRecord } from '../relay/connection-record.ts'
import type { AccessBatch, Bind, BindState, RelayObserver } from '../relay/relay.ts'
import type { Clock } from '../util/clock.ts'
import type { RelayGone } from './health.ts'
import { BindLog, FailingBinds } from './bind-log.ts'
import type { Log, LogFields } from './log.ts'
import { RecordLimiter } from './record-limiter.ts'

export interface ConnectionLogOptions {
  readonly log: Log
  readonly clock: Clock
  /** Failures of one ServicePort that are logged at once; 10. */
  readonly burst?: number
  /** And how many per second after that; 1. */
  readonly perSecond?: number
  /** Hears of ServicePorts all of whose endpoints have failed; there is no record of that. */
  readonly allFailed?: (servicePort: string) => void
  /** Another program has what a listener wants to listen on. */
  readonly portTaken?: (listener: string, bind: Bind) => void
  /** Takes lines of the access log; default: nobody. */
  readonly accessLines?: (batch: AccessBatch) => void
}

/** Ends worth an operator's attention; the others are what clients and endpoints commonly do. */
const failures: ReadonlySet<Cause> = new Set([
  'SC',
  'sC',
  'RC',
  'PR',
  'PH',
  'PN',
  'PO',
  'PL',
  'sQ',
  'KD',
  'cD',
  'sD',
])

/** To a microsecond: what is finer is noise, and 17 digits are hard to read. */
const milliseconds = (ms: number): number => Math.round(ms * 1000) / 1000

/** Refusals cost a microsecond, so that a connection may have dozens of attempts. */
const mostAttempts = 3

const attemptFields = (attempts: readonly Attempt[]): LogFields => {
  const said = attempts.slice(0, mostAttempts).map(({ endpoint, result, ms }) => ({
    endpoint,
    result,
    ms: milliseconds(ms),
  }))
  const more = attempts.length - said.length
  return more > 0 ? { attempts: said, moreAttempts: more } : { attempts: said }
}

const recordFields = (record: ConnectionRecord): LogFields => ({
  servicePort: record.listener,
  client: record.client,
  endpoint: record.endpoint,
  ...attemptFields(record.attempts),
  bytes: {
    'client->backend': record.bytesToBackend,
    'backend->client': record.bytesToClient,
  },
  dialMs: milliseconds(record.dialMs),
  totalMs: milliseconds(record.totalMs),
  cause: record.cause,
  causeText: causeText[record.cause],
  detail: record.detail,
})

/**
 * Writes what the relay reports. A connection is one record when it has
 * ended: at debug, or at info when it failed. Failures are limited per ServicePort,
 * because one dead Service under load would otherwise fill the disk and hide the rest;
 * with debug on nothing is held back.
 */
export class ConnectionLog implements RelayObserver {
  /** What cannot be listened on now. */
  readonly failingBinds: FailingBinds
  /** Workers of the relay that give no sign of life. */
  readonly hungWorkers = new Set<number>()
  /** Why the process of the relay has ended, and when, while none serves in its place. */
  relayGone: RelayGone | undefined
  readonly allFailed: (servicePort: string) => void
  readonly accessLines: (batch: AccessBatch) => void
  readonly #portTaken: (listener: string, bind: Bind) => void
  readonly #clock: Clock
  readonly #log: Log
  readonly #binds: BindLog
  readonly #debug: boolean
  readonly #info: boolean
  readonly #failures: RecordLimiter
  readonly #faults: RecordLimiter

  constructor(options: ConnectionLogOptions) {
    const { log, clock, burst = 10, perSecond = 1, allFailed = () => {} } = options
    this.allFailed = allFailed
    this.#portTaken = options.portTaken ?? (() => {})
    this.accessLines = options.accessLines ?? (() => {})
    this.#log = log
    this.#clock = clock
    this.#debug = log.isLevelEnabled('debug')
    this.#info = log.isLevelEnabled('info')
    this.#binds = new BindLog(log, clock)
    this.failingBinds = new FailingBinds(clock)
    const limit = { clock, burst, perSecond }
    this.#failures = new RecordLimiter({
      ...limit,
      onQuiet: (servicePort, heldBack) =>
        log.info({ servicePort, heldBack }, `held back ${heldBack} failed connections`),
    })
    this.#faults = new RecordLimiter({
      ...limit,
      onQuiet: (servicePort, heldBack) =>
        log.error({ servicePort, heldBack }, `held back ${heldBack} faults`),
    })
  }

  wants(cause: Cause): boolean {
    return this.#debug || (this.#info && failures.has(cause))
  }

  connectionClosed(record: ConnectionRecord): void {
    if (!this.wants(record.cause)) return
    if (!failures.has(record.cause)) {
      this.#log.debug(recordFields(record), 'connection closed')
      return
    }
    const heldBack = this.#debug ? 0 : this.#failures.take(record.listener)
    if (heldBack === undefined) return
    const fields = recordFields(record)
    this.#log.info(heldBack > 0 ? { ...fields, heldBack } : fields, 'connection failed')
  }

  bindChanged(listener: string, state: BindState): void {
    this.failingBinds.changed(listener, state)
    this.#binds.changed(listener, state)
    if (state.state === 'failed' && state.error === 'EADDRINUSE')
      this.#portTaken(listener, state.bind)
  }

  acceptPaused(paused: boolean, used: number, limit: number): void {
    if (paused)
      this.#log.warn(
        { used, limit },
        'too few file descriptors are left: new connections wait; raise the limit (ulimit -n)',
      )
    else this.#log.info({ used, limit }, 'new connections are accepted again')
  }

  workerHung(thread: number, hung: boolean): void {
    if (hung) {
      this.hungWorkers.add(thread)
      this.#log.error(
        { worker: thread },
        'a worker of the relay gives no sign of life: it is ended with its connections, and another takes its place',
      )
    } else if (this.hungWorkers.delete(thread)) {
      this.#log.info({ worker: thread }, 'another worker has taken its place')
    }
  }

  processGone(why: string): void {
    const since = this.relayGone?.since ?? this.#clock.now()
    this.relayGone = why === '' ? undefined : { why, since }
  }

  fault(listener: string, error: Error): void {
    const heldBack = this.#faults.take(listener)
    if (heldBack === undefined) return
    const fields = { servicePort: listener, err: error }
    this.#log.error(heldBack > 0 ? { ...fields, heldBack } : fields, 'fault in the relay')
  }

  /** Says what is still held back; the timers end. */
  close(): void {
    this.#failures.close()
    this.#faults.close()
    this.#binds.close()
  }
}
