import { Worker } from 'node:worker_threads'
import type { Endpoint } from '../services.ts'
import { type ErrorCounts, errorName } from './load.ts'

/** Reads what comes, and counts it in memory that the main thread sees. */
const threadSource = `
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
export class SinkThread {
  /** Resolves when it is connected, or never will be. */
  readonly started: Promise<void>
  readonly #bytes = new BigInt64Array(new SharedArrayBuffer(8))
  readonly #worker: Worker
  readonly #ended: Promise<void>

  constructor(to: Endpoint, errors: ErrorCounts) {
    const workerData = { bytes: this.#bytes, to }
    // Neither loaders nor options of this process are for it: it starts sooner without.
    const options = { eval: true, execArgv: [], env: {}, workerData }
    this.#worker = new Worker(threadSource, options)
    this.started = new Promise(resolve => {
      this.#worker.once('message', () => resolve()).once('exit', () => resolve())
    })
    this.#ended = new Promise(resolve => {
      this.#worker.once('exit', () => resolve())
    })
    this.#worker.on('message', (failure: string) => {
      if (failure !== '') errors.add(failure)
    })
    this.#worker.on('error', error => errors.add(errorName(error)))
  }

  get bytes(): number {
    return Number(Atomics.load(this.#bytes, 0))
  }

  async stop(): Promise<void> {
    // Its socket goes with it.
    await this.#worker.terminate()
    await this.#ended
  }
}
