import { setImmediate as nextTurn } from 'node:timers/promises'
import { errorOf } from '../../../util/usher-error.ts'
import type { Remote } from '../../remote/remote.ts'
import type { WorkerChannel } from '../../engine/socket-layer.ts'
import type { Order, WorkerCall, WorkerSetup } from '../../engine/orders.ts'
import { RelayWorker } from '../../engine/worker/relay-worker.ts'
import { type NodeCalls, nodeLayout } from './node-calls.ts'

/** It is woken for everything. Milliseconds. */
const longestWaitMs = 3_600_000
/** Clients of one listener; the kernel has a limit of its own, which is lower by default. */
const mostQueued = 4096

/** A worker in this thread: its loop has a turn whenever Node's has brought something. */
export class LocalWorker implements WorkerChannel {
  readonly #calls: NodeCalls
  readonly #remote: Remote<WorkerCall, null>
  readonly #wakeFd: number
  readonly #worker: RelayWorker
  readonly #memoriesBefore: number
  #orders: Order[] = []
  #isOver = false
  #soon: NodeJS.Immediate | undefined
  #later: NodeJS.Timeout | undefined

  constructor(
    calls: NodeCalls,
    setup: WorkerSetup,
    remote: Remote<WorkerCall, null>,
    retired: (slot: number) => void,
  ) {
    this.#calls = calls
    this.#remote = remote
    this.#wakeFd = setup.wakeFd
    this.#memoriesBefore = calls.allocated
    calls.wake = () => this.#schedule()
    this.#worker = new RelayWorker({
      setup,
      calls,
      layout: nodeLayout,
      knowsTtl: false,
      buffersWrites: true,
      takeOrders: () => this.#orders.splice(0),
      // As from a thread: not within what the worker does just now.
      post: report =>
        queueMicrotask(() => {
          if (report.kind === 'retired') retired(report.slot)
          else remote.receive(report)
        }),
    })
    this.#schedule()
  }

  /** It can't hang but with all of this process. */
  beats(): number {
    return NaN
  }

  send(order: Order): void {
    const isLastCall = order.kind === 'call' && order.call.kind === 'accept-queued'
    if (isLastCall) void this.#whenQueuesAreEmpty().then(() => this.#take(order))
    else this.#take(order)
  }

  kill(): void {
    this.#end(new Error('it was ended'))
  }

  #take(order: Order): void {
    this.#orders.push(order)
    this.#calls.write(this.#wakeFd, 0, 8)
  }

  /** Node accepts one client of a listener in a turn, and resets the others when that is closed. */
  async #whenQueuesAreEmpty(): Promise<void> {
    let before = -1
    for (let left = mostQueued; left > 0; left -= 1) {
      const { arrived } = this.#calls
      if (arrived === before) return
      before = arrived
      await nextTurn()
      await nextTurn()
    }
  }

  #schedule(): void {
    if (!this.#isOver) this.#soon ??= setImmediate(() => this.#turn())
  }

  #turn(): void {
    clearImmediate(this.#soon)
    this.#soon = undefined
    clearTimeout(this.#later)
    if (this.#isOver) return
    try {
      this.#worker.turn(longestWaitMs)
    } catch (error) {
      return this.#end(errorOf(error))
    }
    if (!this.#worker.isRunning) return this.#end(new Error('it ended'))
    const { waits } = this.#calls
    if (waits === 0) this.#schedule()
    // Node's timers run before it looks at its sockets, and what has come is to be seen first.
    else if (waits > 0) this.#later = setTimeout(() => this.#schedule(), waits).unref()
  }

  #end(error: Error): void {
    if (this.#isOver) return
    this.#isOver = true
    clearImmediate(this.#soon)
    clearTimeout(this.#later)
    queueMicrotask(() => {
      this.#remote.end(error)
      this.#calls.forget(this.#memoriesBefore)
    })
  }
}
