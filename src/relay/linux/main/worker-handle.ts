import { Worker } from 'node:worker_threads'
import type { Order, Report, WorkerSetup } from '../orders.ts'
import { endpointCell, listenerCell } from '../shared/stats-layout.ts'
import { StatsPages } from '../shared/stats-pages.ts'
import { WorkerSigns } from '../shared/worker-signs.ts'
import { SOCK_CLOEXEC, SOCK_NONBLOCK } from '../constants.ts'
import { systemError } from '../errno.ts'
import type { NativeMemory } from '../native-memory.ts'
import type { Syscalls } from '../syscalls.ts'

/** What a worker is started from, and with. */
export interface WorkerProgram {
  /** JavaScript: a worker that has to compile TypeScript takes a second to start. */
  readonly file: URL
  readonly execArgv?: readonly string[]
}

export interface HandleOwner {
  reported(worker: WorkerHandle, report: Report): void
  /** The thread has ended without being told to. */
  died(worker: WorkerHandle, error: Error): void
}

/** Orders are posted together, but a message must hold neither loop for long. */
const mostOrders = 32

/**
 * One worker over the lives of its threads: its number, eventfd and figures outlast the thread. While
 * there is no thread, orders are dropped; the next one is told everything anew.
 */
export class WorkerHandle {
  readonly thread: number
  readonly listenerPages = new StatsPages(listenerCell.count)
  readonly endpointPages = new StatsPages(endpointCell.count)
  readonly signs = new WorkerSigns()
  paused = false
  /** It has said that it runs. */
  isReady = false
  hangs = 0
  restarts = 0
  recordsLost = 0
  readonly #calls: Syscalls
  readonly #owner: HandleOwner
  readonly #wakeFd: number
  readonly #one: NativeMemory
  #worker: Worker | undefined
  #orders: Order[] = []
  #flush: NodeJS.Immediate | undefined
  /** Slots of the listeners that the thread has been told of. */
  readonly #known = new Set<number>()
  #leaving = false
  #endedWhy = ''
  #left: Promise<void> = Promise.resolve()

  /** Throws when there is no descriptor for its eventfd. */
  constructor(calls: Syscalls, thread: number, owner: HandleOwner) {
    this.thread = thread
    this.#calls = calls
    this.#owner = owner
    this.#one = calls.allocate(8)
    this.#one.view.setBigUint64(0, 1n, true)
    this.#wakeFd = calls.eventfd(0, SOCK_CLOEXEC | SOCK_NONBLOCK)
    if (this.#wakeFd < 0) throw systemError('eventfd', this.#wakeFd)
  }

  get isTaken(): boolean {
    return this.#worker !== undefined
  }

  start(program: WorkerProgram, common: CommonSetup): void {
    const workerData: WorkerSetup = {
      ...common,
      thread: this.thread,
      wakeFd: this.#wakeFd,
      signs: this.signs.memory,
      listenerPages: this.listenerPages.pages,
      endpointPages: this.endpointPages.pages,
    }
    const { file, execArgv } = program
    const worker = new Worker(file, {
      workerData,
      name: `usher-relay-${this.thread}`,
      // NODE_OPTIONS may load what a worker has no use for, and no descriptors.
      env: {},
      ...(execArgv === undefined ? {} : { execArgv: [...execArgv] }),
    })
    this.#endedWhy = ''
    let error: Error | undefined
    worker.on('message', (report: Report) => this.#owner.reported(this, report))
    worker.on('error', thrown => (error = thrown))
    this.#left = new Promise(resolve => {
      worker.on('exit', () => {
        this.#worker = undefined
        this.isReady = false
        this.signs.clear()
        this.#known.clear()
        this.#drop()
        resolve()
        const why = this.#endedWhy || 'it ended'
        if (!this.#leaving) this.#owner.died(this, error ?? new Error(why))
      })
    })
    this.#worker = worker
  }

  /** Makes room for figures, here and in the worker. */
  ensurePages(listenerSlots: number, endpointSlots: number): void {
    for (const page of this.listenerPages.ensure(listenerSlots - 1)) {
      this.post({ kind: 'listener-page', page })
    }
    for (const page of this.endpointPages.ensure(endpointSlots - 1)) {
      this.post({ kind: 'endpoint-page', page })
    }
  }

  /** Whether orders for a listener get anywhere: not yet, right after a restart. */
  knows(slot: number): boolean {
    return this.#known.has(slot)
  }

  /** Sent with others in a moment, or by `flush`. */
  post(order: Order): void {
    if (this.#worker === undefined || this.#leaving) return
    if (order.kind === 'listener') this.#known.add(order.slot)
    else if ('slot' in order && !this.#known.has(order.slot)) return
    if (order.kind === 'retire') this.#known.delete(order.slot)
    this.#orders.push(order)
    if (this.#orders.length >= mostOrders) this.flush()
    else this.#flush ??= setImmediate(() => this.flush())
  }

  flush(): void {
    const orders = this.#orders
    this.#drop()
    if (orders.length === 0) return
    this.#worker?.postMessage(orders)
    this.#wake()
  }

  /** Orders the thread to end; resolves when it has, be it by force after `ms`. */
  async leave(ms: number): Promise<void> {
    this.sayExit()
    const worker = this.#worker
    if (worker === undefined) return this.#left
    const force = setTimeout(() => void this.terminate(), ms)
    await this.#left
    clearTimeout(force)
  }

  /** The last order; whatever happens to the thread from now on is no news. */
  sayExit(): void {
    this.post({ kind: 'exit' })
    this.#leaving = true
    this.flush()
  }

  /**
   * Ends the thread wherever it is, but for a system call that does not return; `why` is told
   * when it is gone.
   */
  async terminate(why = ''): Promise<void> {
    this.#endedWhy = why
    const ended = this.#worker?.terminate()
    // It waits in a system call, and notices when that returns.
    this.#wake()
    await ended
  }

  /** After `leave`. */
  close(): void {
    this.#calls.close(this.#wakeFd)
  }

  /** For connections of a thread that died. */
  forgetActive(listenerSlots: number, endpointSlots: number): void {
    for (let slot = 0; slot < listenerSlots; slot += 1) {
      this.listenerPages.write(slot, listenerCell.plain.active, 0)
    }
    for (let slot = 0; slot < endpointSlots; slot += 1) {
      this.endpointPages.write(slot, endpointCell.active, 0)
      this.endpointPages.write(slot, endpointCell.restingUntil, 0)
    }
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

/** What is the same for all workers. */
export type CommonSetup = Pick<WorkerSetup, 'limits' | 'wantedCauses' | 'descriptors'>
