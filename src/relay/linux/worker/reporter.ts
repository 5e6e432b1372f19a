import type { Cause } from '../../cause.ts'
import type { ConnectionRecord } from '../../relay.ts'
import type { Report } from '../orders.ts'

/** Records that may be sent in one turn, and in one second. */
const mostPerTurn = 512
const mostPerSecond = 20_000

/**
 * Tells the main thread what happens. Records of connections go in batches, and are counted
 * instead when there are too many: the message queue has no bound of its own.
 */
export class Reporter {
  readonly #post: (report: Report) => void
  readonly #now: () => number
  readonly #wanted: ReadonlySet<Cause>
  #records: ConnectionRecord[] = []
  #lost = 0
  #second = 0
  #inSecond = 0

  constructor(
    post: (report: Report) => void,
    now: () => number,
    wanted: readonly Cause[],
  ) {
    this.#post = post
    this.#now = now
    this.#wanted = new Set(wanted)
  }

  wants(cause: Cause): boolean {
    return this.#wanted.has(cause)
  }

  connectionClosed(record: ConnectionRecord): void {
    const second = Math.floor(this.#now() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#inSecond = 0
    }
    this.#inSecond += 1
    if (this.#inSecond > mostPerSecond) this.#lost += 1
    else if (this.#records.push(record) >= mostPerTurn) this.flush()
  }

  lastError(slot: number, text: string): void {
    this.#post({ kind: 'last-error', slot, text })
  }

  fault(listener: string, error: unknown): void {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    this.#post({ kind: 'fault', listener, text })
  }

  /** Sends what has gathered; to be called after each turn. */
  flush(): void {
    if (this.#records.length === 0 && this.#lost === 0) return
    this.#post({ kind: 'records', records: this.#records, lost: this.#lost })
    this.#records = []
    this.#lost = 0
  }
}
