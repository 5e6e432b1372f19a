import type { Clock } from '../../../util/clock.ts'
import { counterCell, gaugeCells } from '../../counters.ts'
import { type NewsObserver, NewsReader } from '../../remote/news-reader.ts'
import { type RemoteEnding, Remote, RemoteGone } from '../../remote/remote.ts'
import { SOCK_CLOEXEC, SOCK_NONBLOCK } from '../../../ffi/constants.ts'
import { systemError } from '../../../ffi/errno.ts'
import type { Order, PagesOf, WorkerCall, WorkerSetup } from '../orders.ts'
import type { StartWorker, WorkerChannel } from '../socket-layer.ts'
import type { SharedEndpointState } from '../shared/shared-endpoint-state.ts'
import { endpointCell, StatsPages } from '../shared/stats-pages.ts'
import { WorkerSigns } from '../shared/worker-signs.ts'
import type { Syscalls } from '../../../ffi/syscalls.ts'

export interface WorkerDeps {
  readonly calls: Syscalls
  readonly clock: Clock
  readonly startWorker: StartWorker
  /** What is the same for all workers. */
  readonly common: Pick<WorkerSetup, 'limits' | 'wantedCauses' | 'descriptors'>
  /** Cooldowns and the like of endpoints, for all workers. */
  readonly endpointState: SharedEndpointState
  /** Ends the process, of which a thread can't be ended. */
  readonly endProcess: () => void
}

/** What is not for the worker itself. */
export interface WorkerOwner {
  /** The eventfds of all workers, that of thread 1 first. */
  wakeFds(): readonly number[]
  /** For whom its news are. */
  observerOf(worker: WorkerHandle): NewsObserver
  /** Nothing is left of the listener in this slot. */
  retired(worker: WorkerHandle, slot: number): void
  /** Its thread has ended, and was not asked to. */
  died(worker: WorkerHandle, ending: RemoteEnding): void
}

/** 1.5 s. */
const patience = { checkMs: 250, mostSilent: 6, mostAtStart: 120 }
/** Milliseconds that a thread has to end in when it is ended by force. */
const deadMs = 1000

/**
 * One worker over the lives of its threads: its number, eventfd and figures outlast the thread.
 * While there is no thread, orders are dropped.
 */
export class WorkerHandle {
  readonly thread: number
  readonly listenerPages = new StatsPages(counterCell.count)
  readonly endpointPages = new StatsPages(endpointCell.count)
  readonly signs = new WorkerSigns()
  hangs = 0
  /** How often it was its thread that died, and took the others along. */
  deaths = 0
  readonly #deps: WorkerDeps
  readonly #owner: WorkerOwner
  readonly #observer: NewsObserver
  readonly #news: NewsReader
  /** Open for as long as any worker may use it. */
  readonly wakeFd: number
  #remote: Remote<WorkerCall, null> | undefined
  #way: WorkerChannel | undefined
  #isHung = false
  /** Pages of `endpointState` that the thread has been given. */
  #endpointStatePages = 0

  /** Throws when there is no descriptor for its eventfd. */
  constructor(deps: WorkerDeps, thread: number, owner: WorkerOwner) {
    const { calls, clock } = deps
    this.thread = thread
    this.#deps = deps
    this.#owner = owner
    this.#observer = owner.observerOf(this)
    this.#news = new NewsReader(clock, this.#observer)
    this.wakeFd = calls.eventfd(0, SOCK_CLOEXEC | SOCK_NONBLOCK)
    if (this.wakeFd < 0) throw systemError('eventfd', this.wakeFd)
  }

  start(): void {
    const { clock, startWorker, endProcess } = this.#deps
    const owner = this.#owner
    const remote = new Remote<WorkerCall, null>({
      clock,
      patience,
      deadMs,
      start: to => {
        const retired = (slot: number): void => owner.retired(this, slot)
        this.#way = startWorker(this.#setup(), to, retired)
        return this.#way
      },
      ready: () => this.#hung(false),
      silent: () => {
        this.hangs += 1
        this.#hung(true)
      },
      news: (news, isGone) => this.#news.read(news, isGone),
      ended: ending => this.#ended(ending),
      killFailed: () => this.#killFailed(),
      endProcess,
    })
    this.#remote = remote
    remote.start()
  }

  /** Whether it has a thread. */
  get isThere(): boolean {
    return this.#remote !== undefined
  }

  /** Ends its thread, if it has one, wherever that is. */
  kill(reason: string): void {
    this.#remote?.kill(reason)
  }

  /** Makes room for figures, here and in the worker. */
  ensurePages(listenerSlots: number, endpointSlots: number): void {
    const { endpointState } = this.#deps
    endpointState.ensure(endpointSlots - 1)
    const states = endpointState.pages.slice(this.#endpointStatePages)
    this.#endpointStatePages += states.length
    this.#give('listeners', this.listenerPages.ensure(listenerSlots - 1))
    this.#give('endpoints', this.endpointPages.ensure(endpointSlots - 1))
    this.#give('endpoint-state', states)
  }

  #give(of: PagesOf, pages: readonly SharedArrayBuffer[]): void {
    for (const page of pages) this.post({ kind: 'page', of, page })
  }

  post(order: Order): void {
    if (this.#remote?.isOver === false) this.#way?.send(order)
  }

  /** Undefined when there is no thread, or it does not live to answer. */
  async call(call: WorkerCall): Promise<unknown> {
    try {
      return await this.#remote?.call(call)
    } catch (error) {
      if (!(error instanceof RemoteGone)) this.#observer.fault('', error as Error)
      return undefined
    }
  }

  /** Orders the thread to end, by force after `ms`; resolves when nothing of it is left. */
  async leave(ms: number): Promise<void> {
    await this.#remote?.leave(ms)
  }

  /** When no thread of any worker is left. */
  close(): void {
    this.#deps.calls.close(this.wakeFd)
  }

  /** The last order, as the process is about to end. */
  requestExit(): void {
    this.#remote?.requestExit()
  }

  /** Its thread is no more, with its connections: what it has counted stays. */
  clearGauges(listenerSlots: number, endpointSlots: number): void {
    this.ensurePages(listenerSlots, endpointSlots)
    for (let slot = 0; slot < listenerSlots; slot += 1) {
      for (const cell of gaugeCells) this.listenerPages.write(slot, cell, 0)
    }
    for (let slot = 0; slot < endpointSlots; slot += 1) {
      this.endpointPages.write(slot, endpointCell.active, 0)
    }
  }

  #setup(): WorkerSetup {
    const endpointStatePages = this.#deps.endpointState.pages
    this.#endpointStatePages = endpointStatePages.length
    return {
      ...this.#deps.common,
      thread: this.thread,
      wakeFd: this.wakeFd,
      wakeFds: this.#owner.wakeFds(),
      signs: this.signs.memory,
      pages: {
        listeners: this.listenerPages.pages,
        endpoints: this.endpointPages.pages,
        'endpoint-state': endpointStatePages,
      },
    }
  }

  /** It gives no sign of life, or the next thread in its place does. */
  #hung(hung: boolean): void {
    if (hung !== this.#isHung) this.#observer.workerHung(this.thread, hung)
    this.#isHung = hung
  }

  /**
   * It is in a system call that does not return, with descriptors that must not be touched: no
   * other can take its place.
   */
  #killFailed(): void {
    const text = `worker ${this.thread} of the relay can't be ended: the process ends, with all connections`
    this.#observer.fault('', new Error(text))
  }

  #ended(ending: RemoteEnding): void {
    this.#remote = undefined
    this.signs.clear()
    if (!ending.wasLeaving) this.#owner.died(this, ending)
  }
}
