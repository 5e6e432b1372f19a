import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { KeptConnection, KeptOwner } from './kept-connection.ts'
import { KeptConnections } from './kept-connections.ts'
import { lineTo } from './line.ts'
import { ErrorCounts, type Findings, type Load } from './load.ts'
import type { OpenLoop } from './question.ts'
import { Queue } from './queue.ts'
import { Schedule } from './schedule.ts'
import { Ticker } from './ticker.ts'
import { present, Timings } from './timings.ts'

const answerWithinMs = 5000
/** So long those that were due within the window may take after it. */
const drainMs = 2000

/**
 * Requests at a fixed rate. One that finds no free connection waits for its turn, first
 * come first served. Nothing is stored for it: they are due at known times, so a number
 * says who is next.
 */
export class OpenLoopLoad implements Load, KeptOwner {
  readonly errors = new ErrorCounts()
  readonly #schedule: Schedule
  readonly #ticker: Ticker
  readonly #connections: KeptConnections
  /** By turns, so that the load is spread over all of them. */
  readonly #free: Queue<KeptConnection>
  readonly #latency = new Timings()
  readonly #late = new Timings()
  readonly #asked = new Set<KeptConnection>()
  /** Which is sent next, and which were seen to wait for a connection. */
  #next = 0
  #waiting = 0
  /** The first within the window, and the first after it. */
  #first = Infinity
  #end = Infinity
  #done = 0

  constructor({ to, path, connections, perSecond }: Omit<OpenLoop, 'kind'>) {
    this.#schedule = new Schedule(perSecond)
    this.#free = new Queue(connections)
    const plan = { line: lineTo(to, path), connections, answerWithinMs }
    this.#connections = new KeptConnections(plan, this, this.errors)
    this.#ticker = new Ticker(
      this.#schedule.intervalMs,
      at => this.#schedule.startAt(at + this.#schedule.intervalMs),
      () => this.#tick(),
    )
  }

  done(): number {
    return this.#done
  }

  onFree(connection: KeptConnection, at: number): void {
    this.#free.push(connection)
    this.#send(at)
  }

  onAnswer(connection: KeptConnection, at: number): void {
    if (!this.#asked.delete(connection) || !this.#counts(connection)) return
    this.#done += 1
    this.#latency.record(at - connection.dueAt)
  }

  onEnd(connection: KeptConnection, failure: string): void {
    this.#free.remove(connection)
    if (!this.#asked.delete(connection) || !this.#counts(connection)) return
    // What took too long is charged with the time that it had.
    if (failure === 'timeout') this.#latency.record(answerWithinMs)
  }

  ready(): Promise<void> {
    return this.#ticker.started
  }

  openWindow(): void {
    this.#first = this.#schedule.dueBy(performance.now())
  }

  async closeWindow(): Promise<void> {
    const closed = performance.now()
    this.#end = Math.max(this.#schedule.dueBy(closed), this.#first)
    while (performance.now() - closed < drainMs) {
      if (this.#next >= this.#end && this.#asked.size === 0) return
      await sleep(5)
    }
    this.#giveUp(performance.now())
  }

  findings(): Findings {
    return present({
      done: this.#done,
      tried: this.#end - this.#first,
      latency: this.#latency.percentiles(),
      late: this.#late.percentiles(),
    })
  }

  async stop(): Promise<void> {
    await Promise.all([this.#ticker.stop(), this.#connections.stop()])
  }

  #tick(): void {
    const now = performance.now()
    this.#send(now)
    this.#waiting = Math.max(this.#next, this.#schedule.dueBy(now))
  }

  #send(now: number): void {
    const due = Math.min(this.#schedule.dueBy(now), this.#end)
    while (this.#next < due) {
      const connection = this.#free.shift()
      if (connection === undefined) return
      this.#ask(connection, now)
    }
  }

  #ask(connection: KeptConnection, now: number): void {
    const dueAt = this.#schedule.dueAt(this.#next)
    // Those that waited for a connection were kept by the target, not by the generator.
    if (this.#next >= this.#first && this.#next >= this.#waiting)
      this.#late.record(now - dueAt)
    this.#next += 1
    this.#asked.add(connection)
    connection.ask(dueAt, now)
  }

  #counts(connection: KeptConnection): boolean {
    return connection.dueAt >= this.#schedule.dueAt(this.#first)
  }

  /** What has no answer is charged with the time that it had: left out it would flatter. */
  #giveUp(now: number): void {
    for (const connection of this.#asked) {
      this.errors.add('no answer')
      if (this.#counts(connection)) this.#latency.record(now - connection.dueAt)
    }
    this.#asked.clear()
    const from = Math.max(this.#next, this.#first)
    this.errors.add('not sent', this.#end - from)
    for (let index = from; index < this.#end; index += 1)
      this.#latency.record(now - this.#schedule.dueAt(index))
    this.#next = this.#end
  }
}
