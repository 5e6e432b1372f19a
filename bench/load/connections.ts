import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { destroyAll, type Line, lineTo } from './line.ts'
import { ErrorCounts, type Findings, type Load } from './load.ts'
import { OneShot, type OneShotOwner } from './one-shot.ts'
import type { Connections } from './question.ts'
import { present, Timings } from './timings.ts'

const answerWithinMs = 2000
const sweepMs = 250
/** A refused connection fails at once: the pause keeps a dead target from spinning. */
const pauseMs = 5
const suspiciousMs = 250

/** Connections of one request each, so many at a time. */
export class ConnectionsLoad implements Load, OneShotOwner {
  readonly errors = new ErrorCounts()
  readonly #line: Line
  readonly #open = new Set<OneShot>()
  readonly #timers = new Set<NodeJS.Timeout>()
  readonly #sweeper: NodeJS.Timeout
  readonly #connect = new Timings()
  readonly #latency = new Timings()
  #done = 0
  #isStopped = false

  constructor({ to, path, parallel }: Omit<Connections, 'kind' | 'generator'>) {
    this.#line = lineTo(to, path)
    for (let count = 0; count < parallel; count += 1) this.#add()
    this.#sweeper = setInterval(() => this.#sweep(), sweepMs)
  }

  done(): number {
    return this.#done
  }

  onConnect(one: OneShot, at: number): void {
    this.#connect.record(at - one.dialledAt)
  }

  onAnswer(one: OneShot, at: number): void {
    this.#latency.record(at - one.dialledAt)
  }

  onEnd(one: OneShot, failure: string): void {
    this.#open.delete(one)
    if (this.#isStopped) return
    if (failure === '') {
      this.#done += 1
      return this.#add()
    }
    this.errors.add(failure)
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      this.#add()
    }, pauseMs)
    this.#timers.add(timer)
  }

  openWindow(): void {
    this.#connect.clear()
    this.#latency.clear()
  }

  /** Waits for those that seem stuck: by then they are answered or counted as errors. */
  async closeWindow(): Promise<void> {
    const limit = performance.now() - suspiciousMs
    const stuck = [...this.#open].filter(one => one.dialledAt < limit)
    while (stuck.some(one => this.#open.has(one))) await sleep(20)
  }

  findings(): Findings {
    const [connect, latency] = [this.#connect, this.#latency]
    return present({ connect: connect.percentiles(), latency: latency.percentiles() })
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#sweeper)
    for (const timer of this.#timers) clearTimeout(timer)
    await destroyAll(Array.from(this.#open, ({ socket }) => socket))
  }

  #add(): void {
    this.#open.add(new OneShot(this.#line, this))
  }

  #sweep(): void {
    const now = performance.now()
    for (const one of this.#open) one.expire(now, answerWithinMs)
  }
}
