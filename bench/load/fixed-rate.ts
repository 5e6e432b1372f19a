import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { Endpoint } from '../services.ts'
import { type ConnectionOwner, type HttpConnection, lineTo, Pool } from './http.ts'
import {
  ErrorCounts,
  errorName,
  type Findings,
  freeDescriptors,
  type Load,
  present,
  Timings,
} from './load.ts'
import type { OpenLoop, PacedConnections, Traffics } from './question.ts'

/** When things at a fixed rate are due: the n-th after n / rate. Starts by `startAt`. */
export class Schedule {
  readonly intervalMs: number
  #start = Infinity

  constructor(perSecond: number) {
    if (!(perSecond > 0)) throw new Error(`a rate of ${perSecond}/s: must be above 0`)
    this.intervalMs = 1000 / perSecond
  }

  startAt(ms: number): void {
    this.#start = ms
  }

  dueAt(index: number): number {
    return this.#start + index * this.intervalMs
  }

  /** How many are due by then. */
  dueBy(ms: number): number {
    return ms < this.#start ? 0 : Math.floor((ms - this.#start) / this.intervalMs) + 1
  }
}

/** Shorter would cost more of a core than it gains. */
const shortestPeriodMs = 0.25

/**
 * Timers of the event loop count in whole milliseconds; a thread can sleep for less. A
 * tick that the main thread has not taken yet stands for those after it.
 */
const tickerSource = `
const { parentPort, workerData } = require('node:worker_threads')
const { cells, periodMs } = workerData
const now = () => Number(process.hrtime.bigint()) / 1e6
let next = now()
parentPort.postMessage(next)
while (Atomics.load(cells, 0) === 0) {
  next += periodMs
  const left = next - now()
  if (left > 0) Atomics.wait(cells, 0, 0, left)
  else next -= Math.floor(left / periodMs) * periodMs + periodMs
  if (Atomics.exchange(cells, 1, 1) === 0) parentPort.postMessage(0)
}
`

/** A thread; neither loaders nor options of this process are for it: it starts sooner without. */
const startThread = (source: string, workerData: unknown) => {
  const worker = new Worker(source, { eval: true, execArgv: [], env: {}, workerData })
  const ended = new Promise<void>(resolve => {
    worker.once('exit', () => resolve())
  })
  /** Resolves with its first message, or when there never will be one. */
  const started = new Promise<void>(resolve => {
    worker.once('message', () => resolve()).once('exit', () => resolve())
  })
  return { worker, started, ended }
}

/** Calls back as often as a schedule has something due, to about a tenth of a millisecond. */
class Ticker {
  /** Resolves when it ticks, or never will. */
  readonly started: Promise<void>
  readonly #cells = new Int32Array(new SharedArrayBuffer(8))
  readonly #worker: Worker
  readonly #ended: Promise<void>

  /** Starts the schedule a period before its first tick. */
  constructor(schedule: Schedule, onTick: () => void) {
    const { intervalMs } = schedule
    const periodMs = Math.max(shortestPeriodMs, intervalMs)
    const thread = startThread(tickerSource, { cells: this.#cells, periodMs })
    this.#worker = thread.worker
    this.#ended = thread.ended
    this.started = thread.started
    // Without ticks nothing is sent, and that is reported.
    this.#worker.on('error', () => undefined)
    this.#worker.on('message', (startedAt: number) => {
      if (startedAt > 0) return schedule.startAt(startedAt + clockOffsetMs() + intervalMs)
      Atomics.store(this.#cells, 1, 0)
      onTick()
    })
  }

  async stop(): Promise<void> {
    Atomics.store(this.#cells, 0, 1)
    Atomics.notify(this.#cells, 0)
    this.#worker.removeAllListeners('message')
    await this.#ended
  }
}

/** From the system's monotonic clock, which all threads share, to `performance.now`. */
const clockOffsetMs = (): number =>
  performance.now() - Number(process.hrtime.bigint()) / 1e6

/** First in, first out, of at most so many, without moving or making anything. */
export class Queue<T> {
  readonly #ring: (T | undefined)[]
  #head = 0
  #length = 0

  constructor(capacity: number) {
    this.#ring = Array.from({ length: capacity })
  }

  /** Throws when it is full. */
  push(item: T): void {
    if (this.#length === this.#ring.length) throw new Error('the queue is full')
    this.#ring[(this.#head + this.#length) % this.#ring.length] = item
    this.#length += 1
  }

  shift(): T | undefined {
    if (this.#length === 0) return undefined
    const item = this.#ring[this.#head]
    this.#ring[this.#head] = undefined
    this.#head = (this.#head + 1) % this.#ring.length
    this.#length -= 1
    return item
  }

  /** Takes it out wherever it is; the others keep their order. */
  remove(item: T): void {
    for (let turns = this.#length; turns > 0; turns -= 1) {
      const first = this.shift()
      if (first !== undefined && first !== item) this.push(first)
    }
  }
}

const answerWithinMs = 5000
/** So long those that were due within the window may take after it. */
const drainMs = 2000

/**
 * Requests at a fixed rate. One that finds no free connection waits for its turn, first
 * come first served. Nothing is stored for it: they are due at known times, so a number
 * says who is next.
 */
class OpenLoopLoad implements Load, ConnectionOwner {
  readonly errors = new ErrorCounts()
  readonly #schedule: Schedule
  readonly #ticker: Ticker
  readonly #pool: Pool
  /** By turns, so that the load is spread over all of them. */
  readonly #free: Queue<HttpConnection>
  readonly #latency = new Timings()
  readonly #late = new Timings()
  readonly #asked = new Set<HttpConnection>()
  /** Which is sent next, and which were seen to wait for a connection. */
  #next = 0
  #waiting = 0
  /** The first within the window, and the first after it. */
  #first = Infinity
  #end = Infinity
  #done = 0

  constructor({ connections, perSecond, ...page }: OpenLoop) {
    this.#schedule = new Schedule(perSecond)
    this.#free = new Queue(connections)
    this.#pool = new Pool({ line: lineTo(page), answerWithinMs, kept: connections }, this)
    this.#ticker = new Ticker(this.#schedule, () => this.#tick())
  }

  done(): number {
    return this.#done
  }

  onFree(connection: HttpConnection, at: number): void {
    this.#free.push(connection)
    this.#send(at)
  }

  onAnswer(connection: HttpConnection, at: number): void {
    if (!this.#asked.delete(connection) || !this.#counts(connection)) return
    this.#done += 1
    this.#latency.record(at - connection.dueAt)
  }

  onEnd(connection: HttpConnection, failure: string): void {
    if (failure !== '') this.errors.add(failure)
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
    await Promise.all([this.#ticker.stop(), this.#pool.stop()])
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

  #ask(connection: HttpConnection, now: number): void {
    const dueAt = this.#schedule.dueAt(this.#next)
    // Those that waited for a connection were kept by the target, not by the generator.
    if (this.#next >= this.#first && this.#next >= this.#waiting)
      this.#late.record(now - dueAt)
    this.#next += 1
    this.#asked.add(connection)
    connection.ask(dueAt, now)
  }

  #counts(connection: HttpConnection): boolean {
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

/** New connections at a fixed rate; those due within the window count. */
export class PacedConnectionsLoad implements Load, ConnectionOwner {
  readonly errors = new ErrorCounts()
  readonly isFromTheFirst: boolean
  readonly #schedule: Schedule
  readonly #ticker: Ticker
  readonly #pool: Pool
  readonly #mostOpen = freeDescriptors()
  readonly #connect = new Timings()
  readonly #latency = new Timings()
  readonly #late = new Timings()
  #next = 0
  #firstDueAt = Infinity
  #end = Infinity
  #tried = 0
  #done = 0

  constructor({ perSecond, timeoutMs, fromTheFirst, ...page }: PacedConnections) {
    this.isFromTheFirst = fromTheFirst === true
    this.#schedule = new Schedule(perSecond)
    this.#pool = new Pool({ line: lineTo(page), answerWithinMs: timeoutMs }, this)
    this.#ticker = new Ticker(this.#schedule, () => this.#dialDue())
  }

  done(): number {
    return this.#done
  }

  onFree(one: HttpConnection, at: number): void {
    if (one.dueAt >= this.#firstDueAt) this.#connect.record(at - one.dialledAt)
    one.askOnce()
  }

  onAnswer(one: HttpConnection, at: number): void {
    if (one.dueAt < this.#firstDueAt) return
    this.#done += 1
    this.#latency.record(at - one.dueAt)
  }

  onEnd({ isAnswered }: HttpConnection, failure: string): void {
    // It was served; how it ended after that is not what is asked here.
    if (!isAnswered) this.errors.add(failure)
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
    while (Array.from(this.#pool.open).some(one => !one.isAnswered)) await sleep(10)
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
    await this.#ticker.stop()
    await this.#pool.stop()
  }

  #dialDue(): void {
    const due = Math.min(this.#schedule.dueBy(performance.now()), this.#end)
    for (; this.#next < due; this.#next += 1) this.#dial(this.#schedule.dueAt(this.#next))
  }

  #dial(dueAt: number): void {
    const counts = dueAt >= this.#firstDueAt
    if (counts) this.#tried += 1
    if (this.#pool.open.size >= this.#mostOpen) return this.errors.add('not sent')
    if (counts) this.#late.record(performance.now() - dueAt)
    this.#pool.add(dueAt)
  }
}

/** Reads what comes, and counts it in memory that the main thread sees. */
const sinkSource = `
const { connect } = require('node:net')
const { parentPort, workerData } = require('node:worker_threads')
const { bytes, to } = workerData
const socket = connect({
  host: to.address,
  port: to.port,
  onread: {
    buffer: new Uint8Array(256 * 1024),
    callback: length => {
      Atomics.add(bytes, 0, BigInt(length))
      return true
    },
  },
})
socket.once('connect', () => parentPort.postMessage(''))
socket.once('error', error => parentPort.postMessage(error.code ?? error.message))
socket.once('end', () => parentPort.postMessage('closed early'))
`

/** One download, taken by a thread of its own. */
const startSink = (to: Endpoint, errors: ErrorCounts) => {
  const bytes = new BigInt64Array(new SharedArrayBuffer(8))
  const { worker, started, ended } = startThread(sinkSource, { bytes, to })
  worker.on('message', (failure: string) => {
    if (failure !== '') errors.add(failure)
  })
  worker.on('error', error => errors.add(errorName(error)))
  return {
    started,
    bytes: () => Number(Atomics.load(bytes, 0)),
    stop: async () => {
      // Its socket goes with it.
      await worker.terminate()
      await ended
    },
  }
}

/**
 * Requests at a fixed rate; beside them a download, where there is one. A thread of its own takes
 * that: in the generator's it would be the generator that makes requests wait.
 */
export const openLoop = ({
  download,
  ...plan
}: OpenLoop & Partial<Traffics['mixed']>): Load => {
  const small = new OpenLoopLoad(plan)
  if (download === undefined) return small
  const sink = startSink(download, small.errors)
  let [atOpen, besideBytes] = [0, 0]
  return {
    errors: small.errors,
    done: () => small.done(),
    ready: async () => void (await Promise.all([small.ready(), sink.started])),
    openWindow: () => {
      atOpen = sink.bytes()
      small.openWindow()
    },
    closeWindow: () => {
      besideBytes = sink.bytes() - atOpen
      if (besideBytes === 0) small.errors.add('nothing came')
      return small.closeWindow()
    },
    findings: () => ({ ...small.findings(), besideBytes }),
    stop: async () => void (await Promise.all([small.stop(), sink.stop()])),
  }
}
