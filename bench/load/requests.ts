import type { KeptConnection, KeptOwner } from './kept-connection.ts'
import { KeptConnections } from './kept-connections.ts'
import { lineTo } from './line.ts'
import { ErrorCounts, type Findings, type Load } from './load.ts'
import type { Requests } from './question.ts'
import { present, Timings } from './timings.ts'

/** As wrk(1) has it. */
const answerWithinMs = 2000

/** A closed loop: the next request goes when the answer to the last has come. */
export class RequestsLoad implements Load, KeptOwner {
  readonly errors = new ErrorCounts()
  readonly #latency = new Timings()
  readonly #connections: KeptConnections
  #done = 0

  constructor({ to, path, connections }: Omit<Requests, 'kind' | 'generator'>) {
    const plan = { line: lineTo(to, path), connections, answerWithinMs }
    this.#connections = new KeptConnections(plan, this, this.errors)
  }

  done(): number {
    return this.#done
  }

  onFree(connection: KeptConnection, at: number): void {
    connection.ask(at, at)
  }

  onAnswer(connection: KeptConnection, at: number): void {
    this.#done += 1
    this.#latency.record(at - connection.dueAt)
  }

  onEnd(): void {
    // It is counted and replaced; there is nothing to undo.
  }

  openWindow(): void {
    this.#latency.clear()
  }

  closeWindow(): Promise<void> {
    return this.#connections.settleStuck()
  }

  findings(): Findings {
    return present({ latency: this.#latency.percentiles() })
  }

  stop(): Promise<void> {
    return this.#connections.stop()
  }
}
