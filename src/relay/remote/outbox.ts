import type { Cause, ConnectionRecord } from '../cause.ts'
import { WaitingLines } from '../access-log/access-lines.ts'
import {
  type AccessBatch,
  bindKey,
  type BindState,
  type RelayObserver,
} from '../relay.ts'
import type { Clock, Timer } from '../../util/clock.ts'
import type { News, StateNews } from './messages.ts'
import { errorOf } from '../../util/usher-error.ts'

/** Records and faults that may wait; more are counted and lost. */
const mostRecords = 20_000
const mostFaults = 100
/** Of each kind in one message. */
const together = 500
/** Milliseconds between two messages; what comes meanwhile travels together. */
const everyMs = 20

/**
 * News on their way to the other end of a channel, which has no bound of its own: gathered,
 * bounded, and one message at a time, so that an end that does not read costs no memory. Of a
 * state only the last one waits.
 */
export class Outbox implements RelayObserver {
  readonly #clock: Clock
  readonly #wanted: ReadonlySet<Cause>
  readonly #send: (news: News) => void
  readonly #states = new Map<string, StateNews>()
  readonly #lines = new WaitingLines()
  #records: ConnectionRecord[] = []
  #faults: News['faults'][number][] = []
  #lost = 0
  /** Messages that have not been read yet. */
  #unread = 0
  #timer: Timer | undefined

  constructor(clock: Clock, wanted: readonly Cause[], send: (news: News) => void) {
    this.#clock = clock
    this.#wanted = new Set(wanted)
    this.#send = send
  }

  wants(cause: Cause): boolean {
    return this.#wanted.has(cause)
  }

  connectionClosed(record: ConnectionRecord): void {
    if (this.#records.length < mostRecords) this.#records.push(record)
    else this.#lost += 1
    this.#soon()
  }

  accessLines(batch: AccessBatch): void {
    this.#lines.add(batch)
    this.#soon()
  }

  bindChanged(listener: string, state: BindState): void {
    this.#changed(`${listener} ${bindKey(state.bind)}`, { kind: 'bind', listener, state })
  }

  /** Both of a pause that was short: each is a line in the log. */
  acceptPaused(paused: boolean, used: number, limit: number): void {
    this.#changed(`paused ${paused}`, { kind: 'accept-paused', paused, used, limit })
  }

  workerHung(thread: number, hung: boolean): void {
    this.#changed(`hung ${thread}`, { kind: 'hung', thread, hung })
  }

  lastError(slot: number, text: string): void {
    this.#changed(`error ${slot}`, { kind: 'last-error', slot, text })
  }

  allFailed(listener: string): void {
    this.#changed(`all failed ${listener}`, { kind: 'all-failed', listener })
  }

  fault(listener: string, error: unknown): void {
    if (this.#faults.length < mostFaults) this.#faults.push([listener, errorOf(error)])
    else this.#lost += 1
    // It may be the last message of this end.
    if (this.#unread === 0) this.#go()
  }

  /** One of the messages has been read. */
  taken(): void {
    this.#unread -= 1
    if (!this.#isEmpty) this.#soon()
  }

  /** Sends all that waits: what is sent after it arrives after it. */
  flush(): void {
    while (!this.#isEmpty) this.#go()
  }

  get #isEmpty(): boolean {
    const waiting = this.#states.size + this.#records.length + this.#faults.length
    return waiting + this.#lost === 0 && this.#lines.isEmpty
  }

  /** The last one to change travels last. */
  #changed(key: string, state: StateNews): void {
    this.#states.delete(key)
    this.#states.set(key, state)
    this.#soon()
  }

  #soon(): void {
    if (this.#unread > 0) return
    this.#timer ??= this.#clock.setTimeout(() => this.#go(), everyMs)
  }

  #go(): void {
    this.#clock.clearTimeout(this.#timer)
    this.#timer = undefined
    this.#unread += 1
    const states = [...this.#states].slice(0, together)
    for (const [key] of states) this.#states.delete(key)
    this.#send({
      states: states.map(([, state]) => state),
      records: this.#records.splice(0, together),
      faults: this.#faults.splice(0),
      accessLines: this.#lines.take(),
      lost: this.#lost,
    })
    this.#lost = 0
  }
}
