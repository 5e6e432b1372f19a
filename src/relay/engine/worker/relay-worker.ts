import { EndedConnections } from '../../ended-connections.ts'
import { explainPick } from '../../explain-pick.ts'
import { NodeClientSet } from '../../node-clients.ts'
import { counterCell } from '../../counters.ts'
import { OwnBinds } from '../../own-binds.ts'
import type { Bind } from '../../relay.ts'
import { type QueryHandlers, handleQuery, notListening } from '../../queries.ts'
import { Outbox } from '../../remote/outbox.ts'
import { EPOLLIN } from '../../../ffi/constants.ts'
import { systemError } from '../../../ffi/errno.ts'
import { EventLoop, type EventSource } from '../event-loop.ts'
import type {
  ListenerOrder,
  Order,
  PagesOf,
  Report,
  WorkerCall,
  WorkerSetup,
} from '../orders.ts'
import { Descriptors } from '../shared/descriptors.ts'
import { monotonicClock } from '../../../util/clock.ts'
import { SharedEndpointState } from '../shared/shared-endpoint-state.ts'
import { endpointCell, StatsPages } from '../shared/stats-pages.ts'
import { WorkerSigns } from '../shared/worker-signs.ts'
import type { StructLayout } from '../../../ffi/struct-layout.ts'
import type { Syscalls, NativeMemory } from '../../../ffi/syscalls.ts'
import { Accepting } from '../tcp/accepting.ts'
import { TcpConnections } from '../tcp/tcp-connections.ts'
import { TcpListener } from '../tcp/tcp-listener.ts'
import type { Remembered } from '../../../balance/affinity.ts'
import type { GivenConnections, GivenFlows } from '../../hand-over/moved.ts'
import { fdsOfConnections } from '../../hand-over/well-formed.ts'
import { TcpService } from '../tcp/tcp-service.ts'
import { UdpListener } from '../udp/udp-listener.ts'
import { newUdpShared, type UdpShared } from '../udp/udp-shared.ts'
import { FdAccount, recheckMs } from './fd-account.ts'
import type { ListenerOwner, PortListener } from './port-listener.ts'
import type { WorkerEnv } from './worker-backend.ts'
import { WorkerQueues } from './worker-queues.ts'
import { errorOf } from '../../../util/usher-error.ts'

export interface RelayWorkerDeps extends Pick<WorkerEnv, 'knowsTtl' | 'buffersWrites'> {
  readonly setup: WorkerSetup
  readonly calls: Syscalls
  readonly layout: StructLayout
  /** The orders that have come since the last call. */
  readonly takeOrders: () => readonly Order[]
  readonly post: (report: Report) => void
}

/** One thread of the relay: its loop, its listeners, and the orders of the main thread. */
export class RelayWorker implements EventSource<undefined>, ListenerOwner {
  readonly #deps: RelayWorkerDeps
  readonly #env: WorkerEnv
  readonly #outbox: Outbox
  readonly #descriptors: Descriptors
  readonly #ownBinds: OwnBinds
  readonly #connections: TcpConnections
  readonly #accepting: Accepting
  readonly #udp: UdpShared
  readonly #listeners = new Map<number, PortListener>()
  readonly #pages = {
    listeners: new StatsPages(counterCell.count),
    endpoints: new StatsPages(endpointCell.count),
    'endpoint-state': new SharedEndpointState(),
  } satisfies Readonly<Record<PagesOf, StatsPages | SharedEndpointState>>
  readonly #queryHandlers: QueryHandlers = {
    connections: query => this.#connections.page(query),
    'close-connections': ids => this.#connections.close(ids),
    ended: query => this.#env.endedConnections.poll(query),
    explain: query => {
      const all = [...this.#listeners.values()]
      const found = all.find(({ service }) => service.id === query.listener)
      return found ? explainPick(found.service, this.#env.thread, query) : notListening
    },
  }
  readonly #woken: NativeMemory
  /** The call to be answered when no TCP connection is left. */
  #stopCall: number | undefined
  #isOver = false
  /** Ids of the listeners that another process is about to serve in its place. */
  #successorHas: ReadonlySet<string> = new Set()

  /** Throws when the kernel refuses what a worker can't do without. */
  constructor(deps: RelayWorkerDeps) {
    const { setup, calls, layout, post } = deps
    this.#deps = deps
    const signs = new WorkerSigns(setup.signs)
    const loop = new EventLoop(calls, layout, monotonicClock(), {
      beat: () => signs.beat(),
      idle: () => signs.markIdle(),
    })
    for (const of of ['listeners', 'endpoints', 'endpoint-state'] as const)
      for (const page of setup.pages[of]) this.#pages[of].take(page)
    const nodeClients = new NodeClientSet()
    this.#ownBinds = new OwnBinds(nodeClients)
    this.#descriptors = new Descriptors(setup.descriptors, setup.thread)
    this.#outbox = new Outbox(loop.clock, setup.wantedCauses, news => {
      post({ kind: 'news', news })
    })
    this.#env = {
      thread: setup.thread,
      calls,
      loop,
      knowsTtl: deps.knowsTtl,
      buffersWrites: deps.buffersWrites,
      random: Math.random,
      limits: setup.limits,
      fds: new FdAccount(calls, loop, this.#descriptors, exhausted => {
        this.#pause(exhausted)
      }),
      queues: new WorkerQueues(calls, setup.thread, setup.wakeFds),
      listenerPages: this.#pages.listeners,
      endpointPages: this.#pages.endpoints,
      endpointState: this.#pages['endpoint-state'],
      signs,
      nodeClients,
      observer: this.#outbox,
      endedConnections: new EndedConnections(loop.clock, setup.thread),
      isOwn: (address, port) => this.#ownBinds.has(address, port),
    }
    this.#env.fds.opened(loop.fd)
    this.#connections = new TcpConnections(this.#env)
    this.#accepting = new Accepting(this.#env, this.#connections)
    this.#udp = newUdpShared(this.#env)
    this.#woken = calls.allocate(8)
    // Deaf to orders it would look alive and serve no client.
    const watched = loop.add(setup.wakeFd, this, undefined, EPOLLIN)
    if (watched < 0) throw systemError('epoll_ctl of an eventfd', watched)
    // From now on silence is a hang, and the first turn may be long in coming.
    signs.beat()
    post({ kind: 'ready', self: null })
  }

  /** False when the main thread has ordered it to exit. */
  get isRunning(): boolean {
    return !this.#isOver
  }

  /** Monotonic milliseconds at the start of the last turn. */
  get now(): number {
    return this.#env.loop.now
  }

  /** Waits at most `ms` for something to do, and does it. */
  turn(ms: number): void {
    try {
      this.#env.loop.turn(ms)
    } catch (error) {
      // The thread ends of it.
      this.#outbox.flush()
      throw error
    }
  }

  /** The main thread has orders. */
  ready(): void {
    this.#env.calls.read(this.#deps.setup.wakeFd, this.#woken.address, 8)
    for (const order of this.#deps.takeOrders()) {
      try {
        this.#carryOut(order)
      } catch (error) {
        this.failed(undefined, error)
      }
    }
    // Or another worker has given back what a client here waits for.
    this.#env.queues.woken()
  }

  failed(_item: undefined, error: unknown): void {
    this.#outbox.fault('', error)
  }

  retired(slot: number): void {
    this.#listeners.delete(slot)
    // After it the slot may be another listener's.
    this.#outbox.flush()
    this.#deps.post({ kind: 'retired', slot })
  }

  connectionEnded(): void {
    this.#checkIdle()
  }

  #carryOut(order: Order): void {
    this.#env.signs.beat()
    switch (order.kind) {
      case 'page':
        return this.#pages[order.of].take(order.page)
      case 'listener':
        return this.#update(order)
      case 'open':
        return this.#open(order)
      case 'close':
        return this.#close(this.#release(order.slot, order.bind))
      case 'release': {
        const fd = this.#release(order.slot, order.bind)
        if (fd >= 0) this.#env.fds.gaveAway(fd)
        return
      }
      case 'retire':
        return this.#listeners.get(order.slot)?.retire()
      case 'own-binds':
        this.#ownBinds.add(order.added)
        return this.#ownBinds.remove(order.removed)
      case 'node-clients':
        return this.#env.nodeClients.set(order.clients)
      case 'sweep':
        for (const { service } of this.#listeners.values()) service.balancer.sweep()
        return
      case 'affinity':
        return this.#listeners
          .get(order.slot)
          ?.service.balancer.adoptRemembered(order.clients)
      case 'call':
        return this.#take(order.id, order.call)
      case 'news-taken':
        return this.#outbox.taken()
      case 'exit':
        this.#outbox.flush()
        this.#isOver = true
    }
  }

  #take(id: number, call: WorkerCall): void {
    try {
      switch (call.kind) {
        case 'mark':
          return this.#udp.moves.whenSettled(() => this.#reply(id, null))
        case 'accept-queued':
          return this.#reply(id, this.#accepting.acceptQueued())
        case 'kill':
          return this.#reply(id, this.#kill())
        case 'hand-over':
          return this.#reply(id, this.#handOver(call.listeners))
        case 'give':
          return this.#reply(
            id,
            this.#connections.moving.give(this.#successorHas, call.batch),
          )
        case 'settle':
          return this.#reply(id, this.#connections.moving.settle(call.isTaken))
        case 'staying':
          return this.#reply(id, this.#connections.moving.staying(this.#successorHas))
        case 'adopt':
          return this.#reply(id, this.#adopt(call.given))
        case 'give-flows':
          return this.#reply(id, this.#udpAt(call.slot)?.give(call.bind, call.most))
        case 'settle-flows': {
          const { slot, bind, isTaken, most } = call
          return this.#reply(id, this.#udpAt(slot)?.settle(bind, isTaken, most))
        }
        case 'adopt-flows':
          return this.#reply(id, this.#adoptFlows(call.slot, call.bind, call.given))
        case 'affinity':
          return this.#reply(id, this.#affinity(call.slots, call.ms))
        case 'query':
          return this.#reply(id, handleQuery(this.#queryHandlers, call.name, call.params))
        case 'stop-accepting':
          this.#stopAccepting(id)
      }
    } catch (error) {
      this.#deps.post({ kind: 'failed', id, error: errorOf(error) })
    }
  }

  /** What happened before the answer is known before it. */
  #reply(id: number, result: unknown): void {
    this.#outbox.flush()
    this.#deps.post({ kind: 'done', id, result })
  }

  #update(order: ListenerOrder): void {
    const known = this.#listeners.get(order.slot)
    if (known !== undefined) return known.update(order)
    this.#listeners.set(
      order.slot,
      order.spec.protocol === 'TCP'
        ? new TcpListener(this.#env, order, this, this.#accepting, this.#connections)
        : new UdpListener(this.#env, order, this, this.#udp),
    )
  }

  #open({ slot, bind, fd, awaitsFlows }: Extract<Order, { kind: 'open' }>): void {
    this.#env.fds.opened(fd)
    this.#listeners.get(slot)?.open(bind, fd, awaitsFlows)
  }

  #release(slot: number, bind: Bind): number {
    return this.#listeners.get(slot)?.release(bind) ?? -1
  }

  /** The main thread has paid for it, and takes that back. */
  #close(fd: number): void {
    if (fd >= 0) this.#env.fds.close(fd)
  }

  #pause(paused: boolean): void {
    this.#accepting.pause(paused)
    if (paused) this.#connections.exhausted()
    const { used, limit } = this.#descriptors
    this.#outbox.acceptPaused(paused, used, limit)
    if (paused) this.#recheck()
  }

  /** Others may have given descriptors back, of which there is no event. */
  #recheck(): void {
    const { loop, fds } = this.#env
    loop.clock.setTimeout(() => {
      fds.recheck()
      if (fds.exhausted) this.#recheck()
    }, recheckMs)
  }

  #stopAccepting(call: number): void {
    this.#stopCall = call
    for (const listener of this.#listeners.values()) listener.stopAccepting()
    this.#checkIdle()
  }

  /** Who comes from now on is for the successor, and so are connections of these listeners. */
  #handOver(listeners: readonly string[]): null {
    this.#successorHas = new Set(listeners)
    for (const listener of this.#listeners.values())
      if (listener instanceof TcpListener) listener.stopAccepting()
    return null
  }

  #adopt({ connections, fds }: GivenConnections): number {
    const services = new Map<string, TcpService>()
    for (const { service } of this.#listeners.values())
      if (service instanceof TcpService) services.set(service.id, service)
    const left = fds.values()
    let adopted = 0
    for (const one of connections) {
      const service = services.get(one.listener)
      if (service === undefined) {
        // Who gave it was told otherwise: the thread that knew it has died, and this one is in its place.
        const count = fdsOfConnections([one])
        for (let i = 0; i < count; i += 1) this.#env.fds.close(left.next().value ?? -1)
        this.#env.fds.release(count)
        continue
      }
      this.#connections.moving.adopt(service, one, left as Iterator<number, number>)
      adopted += 1
    }
    return adopted
  }

  #udpAt(slot: number): UdpListener | undefined {
    const listener = this.#listeners.get(slot)
    return listener instanceof UdpListener ? listener : undefined
  }

  #adoptFlows(slot: number, bind: Bind, given: GivenFlows): number {
    const { fds } = given
    if (this.#udpAt(slot)?.adopt(bind, given)) return fds.length
    // It was let go of meanwhile.
    for (const fd of fds) this.#env.fds.close(fd)
    this.#env.fds.release(fds.length)
    return 0
  }

  #affinity(slots: readonly number[], ms: number): readonly (readonly Remembered[])[] {
    return slots.map(slot => {
      this.#env.signs.beat()
      return this.#listeners.get(slot)?.service.balancer.remembered(ms) ?? []
    })
  }

  #kill(): number {
    let reset = 0
    for (const listener of this.#listeners.values()) reset += listener.kill()
    return reset
  }

  #checkIdle(): void {
    const call = this.#stopCall
    if (call === undefined || this.#connections.count > 0) return
    this.#stopCall = undefined
    this.#reply(call, null)
  }
}
