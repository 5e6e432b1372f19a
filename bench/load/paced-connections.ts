import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { freeDescriptors } from './descriptors.ts'
import { destroyAll, type Line, lineTo } from './line.ts'
import { ErrorCounts, type Findings, type Load } from './load.ts'
import { OneShot, type OneShotOwner } from './one-shot.ts'
import type { PacedConnections } from './question.ts'
import { Schedule } from './schedule.ts'
import { Ticker } from './ticker.ts'
import { present, Timings } from './timings.ts'

const sweepMs = 50

/** New connections at a fixed rate; those due within the window count. */
export class PacedConnectionsLoad implements Load, OneShotOwner {
  readonly errors = new ErrorCounts()
  readonly isFromTheFirst: boolean
  readonly #line: Line
  readonly #timeoutMs: number
  readonly #schedule: Schedule
  readonly #ticker: Ticker
  readonly #sweeper: NodeJS.Timeout
  readonly #mostOpen = freeDescriptors()
  readonly #open = new Set<OneShot>()
  readonly #connect = new Timings()
  readonly #latency = new Timings()
  readonly #late = new Timings()
  #next = 0
  #firstDueAt = Infinity
  #end = Infinity
  #tried = 0
  #done = 0
  #isStopped = false

  constructor({
    to,
    path,
    perSecond,
    timeoutMs,
    fromTheFirst = false,
  }: Omit<PacedConnections, 'kind' | 'fromTheFirst'> & {
    readonly fromTheFirst?: boolean
  }) {
    this.isFromTheFirst = fromTheFirst
    this.#line = lineTo(to, path)
    this.#timeoutMs = timeoutMs
    this.#schedule = new Schedule(perSecond)
    this.#ticker = new Ticker(
      this.#schedule.intervalMs,
      at => this.#schedule.startAt(at + this.#schedule.intervalMs),
      () => this.#dialDue(),
    )
    this.#sweeper = setInterval(() => this.#sweep(), sweepMs)
  }

  done(): number {
    return this.#done
  }

  onConnect(one: OneShot, at: number): void {
    if (one.dueAt >= this.#firstDueAt) this.#connect.record(at - one.dialledAt)
  }

  onAnswer(one: OneShot, at: number): void {
    if (one.dueAt < this.#firstDueAt || this.#isStopped) return
    this.#done += 1
    this.#latency.record(at - one.dueAt)
  }

  onEnd(one: OneShot, failure: string): void {
    this.#open.delete(one)
    // It was served; how it ended after that is not what is asked here.
    if (!this.#isStopped && !one.isAnswered) this.errors.add(failure)
  }

  ready(): Promise<void> {
    return this.#ticker.started
  }

  openWindow(): void {
    this.#firstDueAt = performance.now()
  }

  async closeWindow(): Promise<void> {
    this.#dialDue()
    this.#end = this.#next
    while (Array.from(this.#open).some(one => !one.isAnswered)) await sleep(10)
  }

  findings(): Findings {
    return present({
      done: this.#done,
      tried: this.#tried,
      connect: this.#connect.percentiles(),
      latency: this.#latency.percentiles(),
      late: this.#late.percentiles(),
    })
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#sweeper)
    await this.#ticker.stop()
    await destroyAll(Array.from(this.#open, ({ socket }) => socket))
  }

  #dialDue(): void {
    const due = Math.min(this.#schedule.dueBy(performance.now()), this.#end)
    for (; this.#next < due; this.#next += 1) this.#dial(this.#schedule.dueAt(this.#next))
  }

  #dial(dueAt: number): void {
    const counts = dueAt >= this.#firstDueAt
    if (counts) this.#tried += 1
    if (this.#open.size >= this.#mostOpen) return this.errors.add('not sent')
    if (counts) this.#late.record(performance.now() - dueAt)
    this.#open.add(new OneShot(this.#line, this, dueAt))
  }

  #sweep(): void {
    const now = performance.now()
    for (const one of this.#open) one.expire(now, this.#timeoutMs)
  }
}
