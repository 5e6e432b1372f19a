import { Worker } from 'node:worker_threads'
import type { Remote } from '../../remote/remote.ts'
import type { Order, Report, WorkerCall, WorkerSetup } from '../../engine/orders.ts'
import { WorkerSigns } from '../../engine/shared/worker-signs.ts'
import type { Syscalls, NativeMemory } from '../../../ffi/syscalls.ts'
import type { WorkerChannel } from '../../engine/socket-layer.ts'

/** What a worker is started from, and with. */
export interface WorkerProgram {
  /** JavaScript: a worker that has to compile TypeScript takes a second to start. */
  readonly file: URL
  readonly execArgv?: readonly string[]
}

/** Orders are posted together, but a message must hold neither loop for long. */
const mostOrders = 32

/** The way to one thread of a worker. */
export class WorkerThread implements WorkerChannel {
  readonly #calls: Syscalls
  readonly #wakeFd: number
  readonly #one: NativeMemory
  readonly #signs: WorkerSigns
  readonly #worker: Worker
  #orders: Order[] = []
  #flush: NodeJS.Immediate | undefined

  /** Throws when there is no thread left (EAGAIN, pids.max of a cgroup). */
  constructor(
    calls: Syscalls,
    program: WorkerProgram,
    setup: WorkerSetup,
    remote: Remote<WorkerCall, null>,
    retired: (slot: number) => void,
  ) {
    this.#calls = calls
    this.#wakeFd = setup.wakeFd
    this.#signs = new WorkerSigns(setup.signs)
    this.#one = calls.allocate(8)
    this.#one.view.setBigUint64(0, 1n, true)
    const { file, execArgv } = program
    const worker = new Worker(file, {
      workerData: setup,
      name: `usher-relay-${setup.thread}`,
      // NODE_OPTIONS may load what a worker has no use for, and no descriptors.
      env: {},
      ...(execArgv === undefined ? {} : { execArgv: [...execArgv] }),
    })
    let error = new Error('it ended')
    worker.on('message', (report: Report) => {
      if (report.kind === 'retired') retired(report.slot)
      else remote.receive(report)
    })
    worker.on('error', thrown => (error = thrown))
    worker.on('exit', () => {
      this.#drop()
      remote.end(error)
    })
    this.#worker = worker
  }

  beats(): number {
    return this.#signs.beats
  }

  /** With others in a moment; what is waited for, and the last one, at once. */
  send(order: Order): void {
    this.#orders.push(order)
    const isUrgent = order.kind === 'call' || order.kind === 'exit'
    if (isUrgent || this.#orders.length >= mostOrders) this.#post()
    else this.#flush ??= setImmediate(() => this.#post())
  }

  /** But for a system call that does not return. */
  kill(): void {
    void this.#worker.terminate()
    // It waits in a system call, and notices when that returns.
    this.#wake()
  }

  #post(): void {
    const orders = this.#orders
    this.#drop()
    // A thread has no origin.
    // oxlint-disable-next-line unicorn/require-post-message-target-origin
    this.#worker.postMessage(orders)
    this.#wake()
  }

  #drop(): void {
    this.#orders = []
    clearImmediate(this.#flush)
    this.#flush = undefined
  }

  #wake(): void {
    // The only error is a counter that is full (EAGAIN), and then the worker is awake.
    this.#calls.write(this.#wakeFd, this.#one.address, 8)
  }
}
