import { performance } from 'node:perf_hooks'
import { Worker } from 'node:worker_threads'

/** Shorter would cost more of a core than it gains. */
const shortestPeriodMs = 0.25

/**
 * Timers of the event loop count in whole milliseconds; a thread can sleep for less. A
 * tick that the main thread has not taken yet stands for those after it.
 */
const threadSource = `
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

/** Calls back at a fixed rate, to about a tenth of a millisecond. */
export class Ticker {
  /** Resolves when it ticks, or never will. */
  readonly started: Promise<void>
  readonly #cells = new Int32Array(new SharedArrayBuffer(8))
  readonly #worker: Worker
  readonly #ended: Promise<void>

  /**
   * @param periodMs - at least 0.25
   * @param onStart - told the time of `performance.now` that all ticks are whole periods
   *   away from; comes once, before them
   */
  constructor(periodMs: number, onStart: (at: number) => void, onTick: () => void) {
    const workerData = {
      cells: this.#cells,
      periodMs: Math.max(shortestPeriodMs, periodMs),
    }
    // Neither loaders nor options of this process are for it: it starts sooner without.
    const options = { eval: true, execArgv: [], env: {}, workerData }
    this.#worker = new Worker(threadSource, options)
    this.#ended = new Promise(resolve => {
      this.#worker.once('exit', () => resolve())
    })
    this.started = new Promise(resolve => {
      this.#worker.once('message', () => resolve()).once('exit', () => resolve())
    })
    // Without ticks nothing is sent, and that is reported.
    this.#worker.on('error', () => undefined)
    this.#worker.on('message', (startedAt: number) => {
      if (startedAt > 0) return onStart(startedAt + clockOffsetMs())
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
