import type { Clock } from '../../util/clock.ts'
import type { RelayObserver } from '../relay.ts'
import type { News, StateNews } from './messages.ts'

export interface NewsObserver extends Omit<RelayObserver, 'wants'> {
  /** What went wrong last with a listener. */
  lastError?(slot: number, text: string): void
}

/** Milliseconds between two faults that report lost records. */
const lostEveryMs = 60_000

/** Notifies an observer at this end of what comes from an Outbox at the other. */
export class NewsReader {
  readonly #clock: Clock
  readonly #observer: NewsObserver
  #lost = 0
  #lostReportedAt = -Infinity

  constructor(clock: Clock, observer: NewsObserver) {
    this.#clock = clock
    this.#observer = observer
  }

  /** `isGone`: the other end has died, and with it all states. */
  read({ states, records, faults, accessLines, lost }: News, isGone: boolean): void {
    const observer = this.#observer
    if (!isGone) for (const state of states) this.#state(state)
    for (const record of records) observer.connectionClosed(record)
    for (const fault of faults) observer.fault(...fault)
    for (const batch of accessLines) observer.accessLines?.(batch)
    if (lost > 0) this.#reportLost(lost)
  }

  #state(state: StateNews): void {
    const observer = this.#observer
    switch (state.kind) {
      case 'bind':
        return observer.bindChanged(state.listener, state.state)
      case 'accept-paused':
        return observer.acceptPaused(state.paused, state.used, state.limit)
      case 'hung':
        return observer.workerHung(state.thread, state.hung)
      case 'all-failed':
        return observer.allFailed?.(state.listener)
      case 'last-error':
        return observer.lastError?.(state.slot, state.text)
    }
  }

  #reportLost(records: number): void {
    this.#lost += records
    if (this.#clock.now() - this.#lostReportedAt < lostEveryMs) return
    this.#lostReportedAt = this.#clock.now()
    const what = `${this.#lost} records of connections, or faults, came too fast and were lost`
    this.#lost = 0
    this.#observer.fault('', new Error(what))
  }
}
