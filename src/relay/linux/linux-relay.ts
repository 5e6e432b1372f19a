import type { Clock } from '../../util/clock.ts'
import { listDiff } from '../../util/list-diff.ts'
import { forEachYielding } from '../../util/yielding.ts'
import { noNodeClients } from '../node-clients.ts'
import { openFronts } from '../open-fronts.ts'
import type {
  DrainResult,
  NodeClients,
  Relay,
  RelayLimits,
  RelayListener,
  RelayObserver,
  RelayStats,
} from '../relay.ts'
import { Figures } from './main/figures.ts'
import { ListeningBudget } from './main/listening-budget.ts'
import { OpenSockets, socketKey } from './main/open-sockets.ts'
import { OwnBindsBook } from './main/own-binds-book.ts'
import { Ports } from './main/ports.ts'
import { Slots } from './main/slots.ts'
import { WorkerReports } from './main/worker-reports.ts'
import { type PoolOwner, WorkerPool } from './main/worker-pool.ts'
import type { WorkerProgram, WorkerHandle } from './main/worker-handle.ts'
import { Descriptors, newDescriptorsMemory } from './shared/descriptors.ts'
import { monotonicClock } from './shared/monotonic.ts'
import { causes } from './shared/stats-layout.ts'
import { loadSyscalls, type Syscalls } from './syscalls.ts'

export interface LinuxRelayDeps {
  /** Of the main thread; workers have their own. */
  readonly clock: Clock
  readonly limits: RelayLimits
  readonly observer: RelayObserver
  /** RLIMIT_NOFILE of the process. */
  readonly openFileLimit: number
  /** Threads that move bytes; 1 or more. */
  readonly workers: number
  /** Default: the worker that lies beside this file, compiled. */
  readonly workerProgram?: WorkerProgram
  /** Default: those that koffi finds. */
  readonly calls?: Syscalls
  /** Ends the process, of which a thread can't be ended. Default: by SIGKILL. */
  readonly endProcess?: () => void
}

const sweepMs = 10_000

/**
 * The relay on epoll in threads of its own. This is the main thread's part: it keeps the
 * listeners and their sockets, and workers do what they are ordered.
 */
export class LinuxRelay implements Relay {
  readonly #clock: Clock
  readonly #observer: RelayObserver
  readonly #endProcess: () => void
  readonly #descriptors: Descriptors
  readonly #pool: WorkerPool
  readonly #sockets: OpenSockets
  readonly #ports: Ports
  readonly #ownBinds: OwnBindsBook
  readonly #reports: WorkerReports
  /** What each listener was last told; only of those that are wanted. */
  readonly #specs = new Map<string, RelayListener>()
  /** What the last `apply` was given, undefined when it did not come to its end. */
  #applied: readonly RelayListener[] | undefined = []
  #nodeClients = noNodeClients
  #sweptAt = -Infinity
  #draining = false
  /** Once draining: no TCP connection is left. */
  #idle: Promise<void> | undefined
  #ended: Promise<DrainResult> | undefined

  /** Throws where system calls can't be made, or the first descriptors are not to be had. */
  constructor(deps: LinuxRelayDeps) {
    const { clock, limits, observer, openFileLimit } = deps
    const { calls = loadSyscalls(), workerProgram: program = besideThis } = deps
    this.#clock = clock
    this.#observer = observer
    this.#endProcess = deps.endProcess ?? killThisProcess
    const { reservedFds } = limits
    const memory = newDescriptorsMemory(openFileLimit, reservedFds, deps.workers + 1)
    const wantedCauses = causes.filter(cause => observer.wants(cause))
    this.#descriptors = new Descriptors(memory, 0)
    const shared = limitsOfOne(limits, deps.workers, this.#descriptors.spendable)
    const common = { limits: shared, wantedCauses, descriptors: memory }
    const pool = { calls, clock, program, common, count: deps.workers }
    this.#pool = new WorkerPool(pool, this.#poolOwner())
    const { workers } = this.#pool
    const budget = new ListeningBudget(this.#descriptors)
    this.#sockets = new OpenSockets(calls, workers, memory, budget, limits)
    this.#ports = new Ports({
      workers,
      sockets: this.#sockets,
      budget,
      figures: new Figures(workers, monotonicClock()),
      listenerSlots: new Slots(),
      endpointSlots: new Slots(),
      observer,
    })
    this.#ownBinds = new OwnBindsBook(order => this.#pool.post(order))
    this.#reports = new WorkerReports({
      workers,
      observer,
      ports: this.#ports,
      descriptors: this.#descriptors,
    })
    this.#pool.start()
  }

  async apply(listeners: readonly RelayListener[]): Promise<void> {
    if (this.#draining) return
    const { gone, changed } = this.#differences(listeners)
    this.#applied = undefined
    if (gone.length + changed.length > 0) await this.#change(gone, changed)
    this.#sweep()
    this.#applied = listeners
  }

  setNodeClients(clients: NodeClients): void {
    this.#nodeClients = clients
    this.#pool.post({ kind: 'node-clients', clients })
  }

  stats(): RelayStats {
    const { used, limit } = this.#descriptors
    return {
      listeners: this.#ports.stats(),
      fds: { used, limit },
      acceptPaused: this.#reports.isPaused,
      workers: this.#pool.workers.map(
        ({ thread, restarts, hangs, recordsLost, signs }) => {
          return { thread, restarts, hangs, recordsLost, heldBytes: signs.heldBytes }
        },
      ),
    }
  }

  /** The threads have ended when it resolves. */
  async drain(ms: number): Promise<DrainResult> {
    this.#draining = true
    this.#idle ??= this.#stopAccepting()
    let timer
    const over = new Promise<void>(resolve => {
      timer = this.#clock.setTimeout(resolve, ms)
    })
    await Promise.race([over, this.#idle])
    this.#clock.clearTimeout(timer)
    this.#ended ??= this.#end()
    return this.#ended
  }

  async #stopAccepting(): Promise<void> {
    this.#sockets.drain()
    await forEachYielding(this.#ports.values(), port => {
      if (port.protocol === 'TCP') port.stopListening('shutting down')
    })
    await this.#pool.stopAccepting()
  }

  async #end(): Promise<DrainResult> {
    const reset = await this.#pool.kill()
    await this.#pool.end()
    for (const port of this.#ports.values()) port.stopListening('shutting down')
    this.#sockets.abandon()
    return { reset }
  }

  async #change(
    gone: readonly RelayListener[],
    changed: readonly RelayListener[],
  ): Promise<void> {
    const sockets = this.#sockets
    await this.#settleOwnBinds(gone, changed)
    sockets.begin(await this.#wantedSockets(changed))
    await this.#forEach(gone, ({ id }) => this.#retire(id))
    await this.#forEach(changed, spec => this.#update(spec))
    // Every port that is let go must be before others may ask for it.
    if (sockets.takeClosing()) await this.#pool.mark()
    await this.#forEach(changed, ({ id }) => this.#ports.get(id)?.listen())
    const free = this.#ports.freeEndpoints()
    await this.#pool.mark()
    sockets.end()
    free()
  }

  /** An address that passes from one to another is there all the while. */
  async #settleOwnBinds(
    gone: readonly RelayListener[],
    changed: readonly RelayListener[],
  ): Promise<void> {
    await this.#forEach(changed, spec => this.#ownBinds.add(spec))
    await this.#forEach(changed, ({ id }) => this.#ownBinds.settle(id, false))
    await this.#forEach(gone, ({ id }) => this.#ownBinds.settle(id, true))
  }

  async #wantedSockets(changed: readonly RelayListener[]): Promise<ReadonlySet<string>> {
    const wanted = new Set<string>()
    await this.#forEach(changed, spec => {
      for (const bind of openFronts(spec).open) wanted.add(socketKey(spec.protocol, bind))
    })
    return wanted
  }

  #retire(id: string): void {
    this.#specs.delete(id)
    this.#ports.retire(id)
  }

  #update(spec: RelayListener): void {
    this.#specs.set(spec.id, spec)
    this.#ports.update(spec)
  }

  /** What affinity has expired is forgotten now and then, not at each of 100 changes a second. */
  #sweep(): void {
    const now = this.#clock.now()
    if (now - this.#sweptAt < sweepMs) return
    this.#sweptAt = now
    this.#pool.post({ kind: 'sweep' })
  }

  #differences(listeners: readonly RelayListener[]): {
    /** Applied before, and not wanted any more. */
    readonly gone: readonly RelayListener[]
    readonly changed: readonly RelayListener[]
  } {
    const known = this.#applied
    const { before, after } = listDiff(known ?? [...this.#specs.values()], listeners)
    const wanted = new Set(after.map(({ id }) => id))
    const gone = before.filter(({ id }) => !wanted.has(id))
    if (known === undefined) return { gone, changed: listeners }
    return { gone, changed: after.filter(spec => this.#specs.get(spec.id) !== spec) }
  }

  /** A drain may begin between two turns; then nothing may be opened any more. */
  #forEach<T>(
    items: Iterable<T>,
    each: (item: T) => void | Promise<void>,
  ): Promise<void> {
    return forEachYielding(items, item => (this.#draining ? undefined : each(item)))
  }

  #poolOwner(): PoolOwner {
    return {
      reported: (worker, report) => this.#reports.take(worker, report),
      died: (worker, error) => this.#died(worker, error),
      started: worker => void this.#tell(worker),
      hung: ({ thread }, hung) => this.#observer.workerHung(thread, hung),
      unendable: ({ thread }) => this.#unendable(thread),
      endProcess: () => this.#endProcess(),
    }
  }

  /** Everything that a worker who knows nothing has to know. */
  async #tell(worker: WorkerHandle): Promise<void> {
    worker.post({ kind: 'node-clients', clients: this.#nodeClients })
    const added = this.#ownBinds.all()
    if (added.length > 0) worker.post({ kind: 'own-binds', added, removed: [] })
    await this.#forEach(this.#ports.values(), port => port.tell(worker))
  }

  /**
   * It is in a system call that does not return, with descriptors that must not be touched: no
   * other can take its place. process.exit would wait for it too.
   */
  #unendable(thread: number): void {
    const text = `worker ${thread} of the relay can't be ended: the process ends, with all connections`
    this.#observer.fault('', new Error(text))
  }

  #died(worker: WorkerHandle, error: Error): void {
    this.#sockets.inherit(worker)
    this.#ports.lost(worker)
    this.#reports.died(worker, error)
  }
}

/** What each worker may have, so that all of them together have what was asked for. */
const limitsOfOne = (
  limits: RelayLimits,
  workers: number,
  spendable: number,
): RelayLimits => {
  // Of descriptors, flows get half at most: see `FlowLimits`.
  const most = Math.min(limits.udpFlows, Math.floor(spendable / 2))
  return { ...limits, udpFlows: Math.max(1, Math.floor(most / workers)) }
}

const killThisProcess = (): void => void process.kill(process.pid, 'SIGKILL')

const besideThis: WorkerProgram = {
  file: new URL('./worker/worker-main.js', import.meta.url),
}
