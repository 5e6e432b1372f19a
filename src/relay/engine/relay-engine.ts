import { type Clock, monotonicClock, within } from '../../util/clock.ts'
import { F_DUPFD_CLOEXEC } from '../../ffi/constants.ts'
import { forEachYielding } from '../../util/list-diff.ts'
import { causes } from '../counters.ts'
import { listenerChanges } from '../listener-changes.ts'
import { noNodeClients } from '../node-clients.ts'
import { openFronts } from '../open-fronts.ts'
import { threadOf } from '../open-connections.ts'
import {
  type QueryResult,
  type QueryParams,
  emptyResults,
  notListening,
  type QueryName,
} from '../queries.ts'
import type {
  DrainResult,
  HandedOver,
  HandsOver,
  Inheritance,
  HandOverPlace,
  NodeClients,
  Relay,
  RelayLimits,
  RelayListener,
  RelayObserver,
  RelayStats,
  TakenOver,
  Bind,
} from '../relay.ts'
import { bindKey } from '../relay.ts'
import { ReceivedLines } from '../access-log/access-lines.ts'
import type { NewsObserver } from '../remote/news-reader.ts'
import { Figures } from './main/figures.ts'
import { ListeningBudget } from './main/listening-budget.ts'
import { OpenSockets, socketKey } from './main/open-sockets.ts'
import type { Port } from './main/port.ts'
import { Ports } from './main/ports.ts'
import { type PoolOwner, WorkerPool } from './main/worker-pool.ts'
import { Slots } from './shared/slot-pages.ts'
import type { WorkerHandle } from './main/worker-handle.ts'
import { Descriptors, newDescriptorsMemory } from './shared/descriptors.ts'
import { SharedEndpointState } from './shared/shared-endpoint-state.ts'
import { ownBindsOf } from '../own-binds.ts'
import type { Order } from './orders.ts'
import type { SocketLayer } from './socket-layer.ts'
import type { Syscalls } from '../../ffi/syscalls.ts'
import { type Door, knock, openDoor } from '../hand-over/channel.ts'
import {
  adoptFlows,
  affinityAt,
  flowsAt,
  inBatches,
  type GivenPort,
  settleFlows,
} from './main/giving.ts'
import {
  type Given,
  type GivenPart,
  type Giver,
  handOver,
  TakeOver,
  type Taker,
} from './main/hand-over.ts'
import type { GivenConnections, MovedAffinity } from '../hand-over/moved.ts'

export interface RelayEngineDeps {
  /** Of the main thread; workers have their own. */
  readonly clock: Clock
  readonly limits: RelayLimits
  readonly observer: RelayObserver
  /** RLIMIT_NOFILE of the process. */
  readonly openFileLimit: number
  /** Threads that move bytes; 1 or more. */
  readonly workers: number
  /** How it has sockets. */
  readonly layer: SocketLayer
  /** Ends the process, of which a thread can't be ended. Default: by SIGKILL. */
  readonly endProcess?: () => void
}

interface GivenPlace extends Omit<HandOverPlace, 'refused'> {
  readonly ms: number
}

const sweepMs = 10_000
const nowhere = { name: '', token: '' }
/** Milliseconds for the other process to come, and to be met. */
const knockMs = 10_000

/** Descriptors that the kernel's table has room for from the start: 0.5 MiB. */
const tableSize = 65_536

/**
 * The relay over a layer of sockets. This is the main thread's part: it keeps the listeners and
 * their sockets, and workers do what they are ordered.
 */
export class RelayEngine implements Relay, HandsOver {
  readonly #clock: Clock
  readonly #calls: Syscalls
  readonly #observer: RelayObserver
  readonly #descriptors: Descriptors
  readonly #pool: WorkerPool
  readonly #sockets: OpenSockets
  readonly #ports: Ports
  readonly #ownBinds: OwnListenAddresses
  readonly #hasThreads: boolean
  /** Workers that have stopped accepting for want of descriptors. */
  readonly #paused = new Set<WorkerHandle>()
  /** The listeners that are wanted. */
  readonly #wanted = new Map<string, RelayListener>()
  /** What the last `apply` was given. */
  #applied: readonly RelayListener[] = []
  /** The last change did not come to its end: any listener may be half-way. */
  #isHalfway = false
  /** Of the workers that there are now. */
  readonly #accessLines = new ReceivedLines()
  #nodeClients = noNodeClients
  #sweptAt = -Infinity
  #draining = false
  /** Once draining: no TCP connection is left. */
  #idle: Promise<void> | undefined
  #ended: Promise<DrainResult> | undefined
  /** To another process. */
  #handingOver: Promise<HandedOver> | undefined
  #hasGivenAway = false
  /** Until that process has come. */
  #door: Door | undefined
  /** From another one, until it is finished. */
  #takeOver: TakeOver | undefined

  /** Throws where system calls can't be made, or there are no descriptors. */
  constructor(deps: RelayEngineDeps) {
    const { clock, limits, observer, openFileLimit } = deps
    const { endProcess = killThisProcess, layer } = deps
    const { calls, startWorker, listening, hasThreads } = layer
    this.#hasThreads = hasThreads
    this.#clock = clock
    this.#calls = calls
    this.#observer = observer
    const { reservedFds } = limits
    const memory = newDescriptorsMemory(openFileLimit, reservedFds, deps.workers + 1)
    const wantedCauses = causes.filter(cause => observer.wants(cause))
    this.#descriptors = new Descriptors(memory, 0)
    const shared = limitsOfOne(limits, deps.workers, this.#descriptors.spendable)
    const common = { limits: shared, wantedCauses, descriptors: memory }
    const endpointState = new SharedEndpointState()
    const pool = { calls, clock, startWorker, common, endpointState, endProcess }
    this.#pool = new WorkerPool(pool, deps.workers, this.#poolOwner())
    const { workers } = this.#pool
    const budget = new ListeningBudget(this.#descriptors)
    this.#sockets = new OpenSockets(calls, workers, memory, budget, listening)
    this.#ports = new Ports({
      workers,
      sockets: this.#sockets,
      budget,
      figures: new Figures(workers, endpointState, monotonicClock()),
      listenerSlots: new Slots(),
      endpointSlots: new Slots(),
      accessLines: this.#accessLines,
      observer,
      generation: () => this.#pool.generation,
    })
    this.#ownBinds = new OwnListenAddresses(order => this.#pool.post(order))
    this.#pool.start()
    if (this.#hasThreads) this.#growTable(openFileLimit)
  }

  /**
   * The kernel's table of descriptors doubles when it is full, and where there are several a thread that opens
   * one stands still until all CPUs have seen that: 8 to 20 ms (expand_fdtable and synchronize_rcu, fs/file.c).
   * Up to `tableSize` it happens here, while the workers start.
   */
  #growTable(limit: number): void {
    const [worker] = this.#pool.workers
    const highest = Math.min(limit, tableSize) - 1
    const fd = this.#calls.fcntl(worker?.wakeFd ?? -1, F_DUPFD_CLOEXEC, highest)
    // Where there is no room the table grows as it needs to.
    if (fd >= 0) this.#calls.close(fd)
  }

  async apply(listeners: readonly RelayListener[]): Promise<void> {
    const { gone, changed } = listenerChanges(this.#applied, listeners)
    this.#applied = listeners
    const ids = gone.map(({ id }) => id)
    await this.change(ids, changed)
  }

  /** The same as `apply`, by what differs from the call before; `gone`: their ids. */
  async change(
    gone: readonly string[],
    changed: readonly RelayListener[],
  ): Promise<void> {
    if (this.#draining) return
    for (const id of gone) this.#wanted.delete(id)
    for (const spec of changed) this.#wanted.set(spec.id, spec)
    const left = this.#isHalfway ? this.#ports.without(this.#wanted) : gone
    const todo = this.#isHalfway ? [...this.#wanted.values()] : changed
    this.#isHalfway = true
    if (left.length + todo.length > 0) await this.#change(left, todo)
    this.#sweep()
    this.#isHalfway = false
  }

  setNodeClients(clients: NodeClients): void {
    this.#nodeClients = clients
    this.#pool.post({ kind: 'node-clients', clients })
  }

  stats(): RelayStats {
    const { used, limit } = this.#descriptors
    const common = {
      listeners: this.#ports.stats(),
      fds: { used, limit },
      acceptPaused: this.#paused.size > 0,
    }
    if (!this.#hasThreads) return common
    const workers = this.#pool.workers.map(({ thread, deaths, hangs, signs }) => {
      return { thread, restarts: deaths, hangs, heldBytes: signs.heldBytes }
    })
    return { ...common, workers }
  }

  query<Q extends QueryName>(name: Q, params: QueryParams<Q>): Promise<QueryResult<Q>> {
    return workerQueries[name](this.#pool.workers, params, this.#ports)
  }

  /** `at`: a place that is agreed upon, and for how many milliseconds it is there. */
  async handOver(at?: GivenPlace): Promise<HandOverPlace> {
    if (!this.#hasThreads)
      return { ...nowhere, refused: 'the portable relay cannot hand over what it has' }
    if (this.#draining || this.#handingOver !== undefined)
      throw new Error('it is handing over to another Usher already, or ending')
    const door = openDoor(this.#calls, at)
    this.#door = door
    this.#handingOver = this.#handOver(door, at?.ms ?? knockMs)
    this.#handingOver.catch(() => (this.#handingOver = undefined))
    return { name: door.name, token: door.token, refused: '' }
  }

  handedOver(): Promise<HandedOver> {
    return this.#handingOver ?? Promise.reject(new Error('nothing is handed over'))
  }

  async takeOver({ name, token }: HandOverPlace): Promise<Inheritance> {
    if (!this.#hasThreads)
      return {
        refused: 'the portable relay cannot take over what another has',
        sockets: [],
      }
    const channel = await knock(this.#calls, name, token, knockMs)
    const begun = await TakeOver.begin(channel, this.#taker(), this.#clock).catch(
      (error: unknown) => {
        channel.close()
        throw error
      },
    )
    if (typeof begun === 'string') {
      channel.close()
      return { refused: begun, sockets: [] }
    }
    this.#takeOver = begun
    return { refused: '', sockets: begun.sockets }
  }

  async finishTakeOver(): Promise<TakenOver | undefined> {
    const takeOver = this.#takeOver
    this.#takeOver = undefined
    return takeOver?.finish([...this.#wanted.keys()])
  }

  async #handOver(door: Door, ms: number): Promise<HandedOver> {
    const channel = await door.accept(ms).finally(() => (this.#door = undefined))
    try {
      return await handOver(channel, this.#giver(), this.#clock)
    } finally {
      channel.close()
    }
  }

  #giver(): Giver {
    const pool = this.#pool
    const udpPorts = (): readonly Port[] => this.#ports.ofUdp()
    return {
      workers: pool.workers.length,
      sockets: () => this.#sockets.all(),
      counted: () =>
        Array.from(this.#ports.stats(), ({ id, counters, endpoints }) => ({
          listener: id,
          counters,
          endpoints,
        })),
      stopServing: async listeners => {
        this.#draining = true
        this.#hasGivenAway = true
        this.#sockets.giveAway()
        await pool.handOver(listeners)
        await forEachYielding(this.#ports.values(), port => {
          if (port.protocol === 'TCP') port.stopListening('handed over')
        })
      },
      affinity: ms => affinityAt([...this.#ports.values()], pool.workers, ms),
      give: batch => pool.give(batch),
      staying: () => pool.staying(),
      giveFlows: (binds, affinityMs) => this.#giveFlows(binds, affinityMs),
      get flows() {
        return udpPorts().reduce((sum, { active }) => sum + active, 0)
      },
    }
  }

  async *#giveFlows(
    binds: ReadonlySet<string>,
    affinityMs: () => number,
  ): AsyncGenerator<Given> {
    const { workers } = this.#pool
    const ports = this.#ports.ofUdp()
    const given = ports.flatMap(port => {
      const groups = port.groups.filter(({ bind }) => binds.has(bindKey(bind)))
      return groups.length === 0 ? [] : [{ port, groups }]
    })
    for (const some of inBatches(given)) {
      yield {
        size: some.reduce((sum, { port }) => sum + port.active, 0),
        parts: flowsAt(some, port => affinityAt([port], workers, affinityMs())),
        settle: isTaken => this.#settleFlows(some, isTaken),
      }
    }
  }

  async #settleFlows(some: readonly GivenPort[], isTaken: boolean): Promise<void> {
    await settleFlows(some, isTaken)
    if (!isTaken) return
    for (const { port, groups } of some) {
      for (const group of groups) this.#sockets.gave(group)
      if (!port.groups.some(one => this.#sockets.has(one)))
        port.stopListening('handed over')
    }
  }

  #taker(): Taker {
    const { workers } = this.#pool
    let turns = 0
    return {
      workers: workers.length,
      room: () => this.#descriptors.spendable - this.#descriptors.used,
      adoptSockets: sockets => this.#sockets.takeOver(sockets),
      counted: counted => {
        for (const one of counted) this.#ports.get(one.listener)?.takeOver(one)
      },
      adoptAffinity: affinity => this.#adoptAffinity(affinity),
      serve: () => this.#sockets.serve(),
      awaitingFlows: () => [...this.#sockets.awaitingFlows().keys()],
      takeRoom: count => this.#descriptors.take(count),
      freeRoom: count => this.#descriptors.release(count),
      close: fds => {
        for (const fd of fds) this.#calls.close(fd)
      },
      adopt: given => {
        turns += 1
        const worker = workers[turns % workers.length]
        return worker === undefined ? Promise.resolve(0) : this.#adopt(worker, given)
      },
      adoptFlows: (binds, flows) => this.#adoptFlows(binds, flows),
      abandonFlows: hasEnded => this.#sockets.abandonFlows(hasEnded),
    }
  }

  #adoptAffinity(affinity: readonly MovedAffinity[]): void {
    for (const { listener, clients, ...place } of affinity) {
      const port = this.#ports.get(listener)
      if (port === undefined) continue
      for (const worker of port.workersAt(place))
        worker.post({ kind: 'affinity', slot: port.slot, clients })
    }
  }

  async #adoptFlows(
    binds: readonly string[],
    flows: readonly GivenPart[],
  ): Promise<number> {
    const groups = this.#sockets.awaitingFlows()
    const give = (worker: WorkerHandle, fds: readonly number[]): void =>
      this.#sockets.give(worker, fds)
    const adopted = binds.map(async bind => {
      const group = groups.get(bind)
      const slot = group && this.#sockets.takeFlows(group)
      const own = flows.filter(one => bindKey(one.bind) === bind)
      if (group !== undefined && slot !== undefined)
        return adoptFlows(slot, group, own, give)
      // It was let go of meanwhile.
      const fds = own.flatMap(one => one.fds)
      for (const fd of fds) this.#calls.close(fd)
      this.#descriptors.release(fds.length)
      return 0
    })
    return (await Promise.all(adopted)).reduce((sum, count) => sum + count, 0)
  }

  /** If the worker dies its descriptors are closed with those that it has opened itself. */
  async #adopt(worker: WorkerHandle, given: GivenConnections): Promise<number> {
    if (!worker.isThere) {
      for (const fd of given.fds) this.#calls.close(fd)
      this.#descriptors.release(given.fds.length)
      return 0
    }
    this.#sockets.give(worker, given.fds)
    return ((await worker.call({ kind: 'adopt', given })) ?? 0) as number
  }

  /** The threads have ended when it resolves. */
  async drain(ms: number): Promise<DrainResult> {
    const until = this.#clock.now() + ms
    if (this.#handingOver !== undefined) await this.#endHandOver(ms, this.#handingOver)
    this.#draining = true
    this.#idle ??= this.#stopAccepting()
    await within(this.#clock, Math.max(0, until - this.#clock.now()), this.#idle)
    this.#ended ??= this.#end()
    return this.#ended
  }

  /** One that has come gets what it was promised; no other is waited for. */
  async #endHandOver(ms: number, over: Promise<HandedOver>): Promise<void> {
    this.#door?.close()
    // What has gone wrong is told by `handedOver`.
    const ended = over.then(
      () => true,
      () => true,
    )
    const hasEnded = await within(this.#clock, ms, ended)
    // It may be about to serve them: to shut them down would end that, too.
    if (hasEnded === undefined) this.#sockets.giveAway()
  }

  async #stopAccepting(): Promise<void> {
    // Those who are queued are a successor's.
    if (!this.#hasGivenAway) await this.#pool.acceptQueued()
    if (this.#ended !== undefined) return
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
    gone: readonly string[],
    changed: readonly RelayListener[],
  ): Promise<void> {
    const sockets = this.#sockets
    await this.#settleOwnBinds(gone, changed)
    sockets.begin(await this.#wantedSockets(changed))
    await this.#forEach(gone, id => this.#ports.retire(id))
    await this.#forEach(changed, spec => this.#ports.update(spec))
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
    gone: readonly string[],
    changed: readonly RelayListener[],
  ): Promise<void> {
    await this.#forEach(changed, spec => this.#ownBinds.add(spec))
    await this.#forEach(changed, ({ id }) => this.#ownBinds.settle(id, false))
    await this.#forEach(gone, id => this.#ownBinds.settle(id, true))
  }

  async #wantedSockets(changed: readonly RelayListener[]): Promise<ReadonlySet<string>> {
    const wanted = new Set<string>()
    await this.#forEach(changed, spec => {
      for (const bind of openFronts(spec).open) wanted.add(socketKey(spec.protocol, bind))
    })
    return wanted
  }

  /** What affinity has expired is forgotten now and then, not at each of 100 changes a second. */
  #sweep(): void {
    const now = this.#clock.now()
    if (now - this.#sweptAt < sweepMs) return
    this.#sweptAt = now
    this.#pool.post({ kind: 'sweep' })
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
      observerOf: worker => this.#observerOf(worker),
      retired: (worker, slot) => this.#ports.retired(worker, slot),
      died: ({ thread }, error) => {
        const text = `worker ${thread} of the relay has died: ${error.message}; all connections end with it`
        this.#observer.fault('', new Error(text, { cause: error }))
      },
      over: () => this.#over(),
      started: () => void this.#sendState(),
    }
  }

  #observerOf(worker: WorkerHandle): NewsObserver {
    const observer = this.#observer
    return {
      connectionClosed: record => observer.connectionClosed(record),
      accessLines: batch => {
        this.#accessLines.received(batch)
        observer.accessLines?.(batch)
      },
      bindChanged: (listener, state) => observer.bindChanged(listener, state),
      acceptPaused: paused => this.#pause(worker, paused),
      workerHung: (thread, hung) => observer.workerHung(thread, hung),
      allFailed: listener => observer.allFailed?.(listener),
      fault: (listener, error) => observer.fault(listener, error),
      lastError: (slot, text) => {
        const port = this.#ports.at(slot)
        if (port !== undefined) port.lastError = text
      },
    }
  }

  /** The relay as a whole has stopped accepting while any worker has. */
  #pause(worker: WorkerHandle, paused: boolean): void {
    const before = this.#paused.size > 0
    if (paused) this.#paused.add(worker)
    else this.#paused.delete(worker)
    const now = this.#paused.size > 0
    const { used, limit } = this.#descriptors
    if (now !== before) this.#observer.acceptPaused(now, used, limit)
  }

  /** Everything that workers have to know who know nothing. */
  async #sendState(): Promise<void> {
    this.#pool.post({ kind: 'node-clients', clients: this.#nodeClients })
    const added = this.#ownBinds.all()
    if (added.length > 0) this.#pool.post({ kind: 'own-binds', added, removed: [] })
    await this.#forEach(this.#ports.values(), port => port.sendAgain())
  }

  /** No thread is left: connections are reset, and what listens stays open. */
  #over(): void {
    this.#sockets.inherit()
    this.#ports.over()
    for (const worker of this.#pool.workers) this.#pause(worker, false)
  }
}

/** What each worker may have, so that all of them together have what was asked for. */
const limitsOfOne = (
  limits: RelayLimits,
  workers: number,
  spendable: number,
): RelayLimits => {
  // Of descriptors, flows get half at most: a flood of datagrams must leave TCP its own.
  const most = Math.min(limits.udpMaxFlows, Math.floor(spendable / 2))
  return { ...limits, udpMaxFlows: Math.max(1, Math.floor(most / workers)) }
}

/** process.exit would wait for threads that can't be ended. */
const killThisProcess = (): void => void process.kill(process.pid, 'SIGKILL')

interface Sent {
  readonly now: readonly Bind[]
  /** What it had before, which is to be taken back. */
  readonly before: readonly Bind[]
}

/** The addresses of UDP listeners that workers know; see `OwnBinds`. */
class OwnListenAddresses {
  readonly #post: (order: Order) => void
  readonly #sent = new Map<string, Sent>()

  constructor(post: (order: Order) => void) {
    this.#post = post
  }

  /** A listener is new or changed; `settle` is to follow when all are added. */
  add(spec: RelayListener): void {
    const added = ownBindsOf(spec)
    const { now, before } = this.#sent.get(spec.id) ?? none
    if (added.length + now.length + before.length === 0) return
    this.#sent.set(spec.id, { now: added, before: [...before, ...now] })
    if (added.length > 0) this.#post({ kind: 'own-binds', added, removed: [] })
  }

  /** Takes back what it had before; everything, if it is gone. */
  settle(id: string, isGone: boolean): void {
    const { now, before } = this.#sent.get(id) ?? none
    const removed = isGone ? [...before, ...now] : before
    if (isGone) this.#sent.delete(id)
    else if (before.length > 0) this.#sent.set(id, { now, before: [] })
    if (removed.length > 0) this.#post({ kind: 'own-binds', added: [], removed })
  }

  /** For a worker that knows nothing. */
  all(): readonly Bind[] {
    return [...this.#sent.values()].flatMap(({ now, before }) => now.concat(before))
  }
}

const none: Sent = { now: [], before: [] }

type Workers = readonly Pick<WorkerHandle, 'thread' | 'call'>[]

/** One that dies before it answers has no connections. */
const queryWorker = async <Q extends QueryName>(
  worker: Workers[number],
  name: Q,
  params: QueryParams<Q>,
): Promise<QueryResult<Q>> => {
  const result = await worker.call({ kind: 'query', name, params })
  return (result as QueryResult<Q> | undefined) ?? emptyResults[name]
}

/** The results of all workers together. */
const workerQueries: {
  readonly [Q in QueryName]: (
    workers: Workers,
    params: QueryParams<Q>,
    ports: Ports,
  ) => Promise<QueryResult<Q>>
} = {
  /** A page of one worker's connections; `after` begins with the number of the worker. */
  connections: async (workers, query) => {
    const { after = '' } = query
    const [thread = '', last = ''] = after.split(' ')
    const at = after === '' ? 0 : workers.findIndex(one => String(one.thread) === thread)
    const worker = workers[at]
    if (worker === undefined) return emptyResults.connections
    const page = await queryWorker(worker, 'connections', { ...query, after: last })
    if (page.next !== undefined) return { ...page, next: `${worker.thread} ${page.next}` }
    const following = workers[at + 1]
    return { ...page, next: following && `${following.thread} ` }
  },

  /** Asks each worker that has named one of them. */
  'close-connections': async (workers, ids) => {
    const closed = workers.map(async worker => {
      const own = ids.filter(id => threadOf(id) === worker.thread)
      return own.length === 0 ? [] : queryWorker(worker, 'close-connections', own)
    })
    return (await Promise.all(closed)).flat()
  },

  /** Of all workers together; `next` has a part of each. */
  ended: async (workers, query) => {
    const before = query.after?.split('_')
    const polls = workers.map(async worker => {
      // Of one that could not be polled then there is none: what it had kept is lost.
      const own = before?.find(one => threadOf(one) === worker.thread)
      const after = before && (own ?? '')
      const page = await queryWorker(worker, 'ended', { ...query, after })
      return page.next === '' ? { ...page, next: own ?? '' } : page
    })
    const pages = await Promise.all(polls)
    const all = pages
      .flatMap(({ ended }) => ended)
      .toSorted((one, other) => one.endedAt - other.endedAt)
    const ended = all.slice(-(query.limit ?? all.length))
    const leftOut = pages.reduce((sum, one) => sum + one.leftOut, 0)
    return {
      ended,
      leftOut: leftOut + all.length - ended.length,
      gap: pages.some(({ gap }) => gap),
      next: pages.flatMap(({ next }) => (next === '' ? [] : [next])).join('_'),
      isFull: pages.some(({ isFull }) => isFull),
    }
  },

  /** Each has turns of its own; to which a client comes is known here. */
  explain: async (workers, query, ports) => {
    const views = workers.map(
      async worker => (await queryWorker(worker, 'explain', query)).workers,
    )
    const all = (await Promise.all(views)).flat()
    return ports.get(query.listener)?.explained(query, all) ?? notListening
  },
}
