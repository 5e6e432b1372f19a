import { bindKey } from '../counters.ts'
import type { Cause } from '../cause.ts'
import type { BindState, RelayObserver } from '../relay.ts'
import type { News } from './messages.ts'

/** Records and faults that may wait; more are counted and lost. */
const mostRecords = 4000
const mostFaults = 100
/** Of each kind in one message. */
const together = 500
/** Milliseconds between two messages; what comes meanwhile travels together. */
const everyMs = 20

interface Flush {
  /** That the parent has yet to read. */
  messages: number
  readonly resolve: () => void
}

/**
 * What the relay tells its observer, on its way to the parent: gathered, bounded, and one
 * message at a time, so that a parent that does not read costs no memory. Of a bind only
 * the last state waits.
 */
export class Outbox implements RelayObserver {
  readonly #wanted: ReadonlySet<Cause>
  readonly #send: (news: News) => void
  readonly #binds = new Map<string, News['binds'][number]>()
  #records: News['records'][number][] = []
  #pauses: News['pauses'][number][] = []
  /** By worker: only the last state of each waits. */
  readonly #hung = new Map<number, boolean>()
  #faults: News['faults'][number][] = []
  #lost = 0
  #onItsWay = false
  #timer: NodeJS.Timeout | undefined
  #flushes: Flush[] = []

  constructor(wanted: readonly Cause[], send: (news: News) => void) {
    this.#wanted = new Set(wanted)
    this.#send = send
  }

  wants(cause: Cause): boolean {
    return this.#wanted.has(cause)
  }

  connectionClosed(record: News['records'][number]): void {
    if (this.#records.length < mostRecords) this.#records.push(record)
    else this.#lost += 1
    this.#soon()
  }

  bindChanged(listener: string, state: BindState): void {
    const key = `${listener} ${bindKey(state.bind)}`
    // The last one to change travels last.
    this.#binds.delete(key)
    this.#binds.set(key, [listener, state])
    this.#soon()
  }

  acceptPaused(paused: boolean, used: number, limit: number): void {
    // Only the last two matter.
    if (this.#pauses.length === 2) this.#pauses.shift()
    this.#pauses.push([paused, used, limit])
    this.#soon()
  }

  workerHung(thread: number, hung: boolean): void {
    this.#hung.set(thread, hung)
    this.#soon()
  }

  fault(listener: string, error: Error): void {
    if (this.#faults.length < mostFaults) this.#faults.push([listener, error])
    else this.#lost += 1
    this.#soon()
  }

  /** The parent has read what was on its way. */
  taken(): void {
    this.#onItsWay = false
    for (const flush of this.#flushes) flush.messages -= 1
    for (const { messages, resolve } of this.#flushes) if (messages === 0) resolve()
    this.#flushes = this.#flushes.filter(({ messages }) => messages > 0)
    if (this.#flushes.length > 0) this.#go()
    else if (!this.#isEmpty()) this.#soon()
  }

  /**
   * Resolves when all that was told so far has reached the parent. What is told later does
   * not put that off: there may be no end to it.
   */
  flush(): Promise<void> {
    const most = Math.max(this.#binds.size, this.#records.length, this.#isEmpty() ? 0 : 1)
    const messages = (this.#onItsWay ? 1 : 0) + Math.ceil(most / together)
    if (messages === 0) return Promise.resolve()
    this.#go()
    return new Promise(resolve => this.#flushes.push({ messages, resolve }))
  }

  #isEmpty(): boolean {
    const waiting = this.#binds.size + this.#records.length + this.#pauses.length
    return waiting + this.#hung.size + this.#faults.length + this.#lost === 0
  }

  #soon(): void {
    if (!this.#onItsWay) this.#timer ??= setTimeout(() => this.#go(), everyMs)
  }

  #go(): void {
    if (this.#onItsWay) return
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#onItsWay = true
    const binds = [...this.#binds.entries()].slice(0, together)
    for (const [key] of binds) this.#binds.delete(key)
    this.#send({
      binds: binds.map(([, told]) => told),
      records: this.#records.splice(0, together),
      pauses: this.#pauses.splice(0),
      hung: [...this.#hung],
      faults: this.#faults.splice(0),
      lost: this.#lost,
    })
    this.#hung.clear()
    this.#lost = 0
  }
}
