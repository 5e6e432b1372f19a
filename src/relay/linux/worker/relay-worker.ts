import { NodeClientSet } from '../../node-clients.ts'
import { OwnBinds } from '../../own-binds.ts'
import type { Bind } from '../../relay.ts'
import { EPOLLIN } from '../constants.ts'
import { EventLoop, type EventSource } from '../event-loop.ts'
import type { NativeMemory } from '../native-memory.ts'
import type { ListenerOrder, Order, Report, WorkerSetup } from '../orders.ts'
import { Descriptors } from '../shared/descriptors.ts'
import { monotonicClock } from '../shared/monotonic.ts'
import { endpointCell, listenerCell } from '../shared/stats-layout.ts'
import { StatsPages } from '../shared/stats-pages.ts'
import { WorkerSigns } from '../shared/worker-signs.ts'
import type { StructLayout } from '../struct-layout.ts'
import type { Syscalls } from '../syscalls.ts'
import { Accepting } from '../tcp/accepting.ts'
import { TcpConnections } from '../tcp/tcp-connections.ts'
import { TcpListener } from '../tcp/tcp-listener.ts'
import { FlowMoves } from '../udp/flow-moves.ts'
import type { UdpFlow } from '../udp/udp-flow.ts'
import { UdpListener } from '../udp/udp-listener.ts'
import { newUdpShared, type UdpShared } from '../udp/udp-shared.ts'
import { FdAccount, lookAgainMs } from './fd-account.ts'
import type { ListenerOwner, PortListener } from './port-listener.ts'
import { Reporter } from './reporter.ts'
import type { WorkerEnv } from './worker-env.ts'

export interface RelayWorkerDeps {
  readonly setup: WorkerSetup
  readonly calls: Syscalls
  readonly layout: StructLayout
  /** The orders that have come since the last call. */
  readonly takeOrders: () => readonly Order[]
  readonly post: (report: Report) => void
}

const pages = (cells: number, given: readonly SharedArrayBuffer[]): StatsPages => {
  const made = new StatsPages(cells)
  for (const page of given) made.take(page)
  return made
}

/** One thread of the relay: its loop, its listeners, and the orders of the main thread. */
export class RelayWorker implements EventSource<undefined>, ListenerOwner {
  readonly #deps: RelayWorkerDeps
  readonly #env: WorkerEnv
  readonly #reporter: Reporter
  readonly #ownBinds: OwnBinds
  readonly #connections: TcpConnections
  readonly #accepting: Accepting
  readonly #udp: UdpShared
  readonly #moves: FlowMoves<UdpFlow>
  readonly #listeners = new Map<number, PortListener>()
  readonly #woken: NativeMemory
  #isStopping = false
  #isOver = false

  /** Throws when the kernel refuses what a worker can't do without. */
  constructor(deps: RelayWorkerDeps) {
    const { setup, calls, layout, post } = deps
    this.#deps = deps
    const signs = new WorkerSigns(setup.signs)
    const loop = new EventLoop(calls, layout, monotonicClock(), () => signs.beat())
    const nodeClients = new NodeClientSet()
    this.#ownBinds = new OwnBinds(nodeClients)
    this.#reporter = new Reporter(post, () => loop.now, setup.wantedCauses)
    this.#env = {
      calls,
      loop,
      random: Math.random,
      limits: setup.limits,
      fds: new FdAccount(
        calls,
        loop,
        new Descriptors(setup.descriptors, setup.thread),
        exhausted => this.#pause(exhausted),
      ),
      listenerPages: pages(listenerCell.count, setup.listenerPages),
      endpointPages: pages(endpointCell.count, setup.endpointPages),
      signs,
      nodeClients,
      reporter: this.#reporter,
      isOwn: (address, port) => this.#ownBinds.has(address, port),
    }
    this.#env.fds.opened(loop.fd)
    this.#connections = new TcpConnections(this.#env)
    this.#accepting = new Accepting(this.#env, this.#connections)
    this.#udp = newUdpShared(this.#env)
    this.#moves = new FlowMoves(loop)
    this.#woken = calls.allocate(8)
    loop.afterTurn(() => this.#reporter.flush())
    loop.add(setup.wakeFd, this, undefined, EPOLLIN)
    // From now on silence is a hang, and the first turn may be long in coming.
    signs.beat()
    post({ kind: 'ready' })
  }

  /** False when the main thread has said that it is over. */
  get isRunning(): boolean {
    return !this.#isOver
  }

  /** Waits at most `ms` for something to do, and does it. */
  turn(ms: number): void {
    this.#env.loop.turn(ms)
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
  }

  failed(_item: undefined, error: unknown): void {
    this.#reporter.fault('', error)
  }

  retired(slot: number): void {
    this.#listeners.delete(slot)
    this.#deps.post({ kind: 'retired', slot })
  }

  connectionEnded(): void {
    this.#checkIdle()
  }

  #carryOut(order: Order): void {
    this.#env.signs.beat()
    switch (order.kind) {
      case 'listener-page':
        return this.#env.listenerPages.take(order.page)
      case 'endpoint-page':
        return this.#env.endpointPages.take(order.page)
      case 'listener':
        return this.#update(order)
      case 'open':
        return this.#open(order.slot, order.bind, order.fd)
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
        for (const listener of this.#listeners.values()) listener.sweep()
        return
      case 'stop-accepting':
        return this.#stopAccepting()
      case 'kill':
        return this.#kill()
      case 'mark':
        return this.#deps.post({ kind: 'done', id: order.id })
      case 'exit':
        this.#isOver = true
    }
  }

  #update(order: ListenerOrder): void {
    const known = this.#listeners.get(order.slot)
    if (known !== undefined) return known.update(order)
    this.#listeners.set(
      order.slot,
      order.spec.protocol === 'TCP'
        ? new TcpListener(this.#env, order, this, this.#accepting, this.#connections)
        : new UdpListener(this.#env, order, this, this.#udp, this.#moves),
    )
  }

  #open(slot: number, bind: Bind, fd: number): void {
    this.#env.fds.opened(fd)
    this.#listeners.get(slot)?.open(bind, fd)
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
    for (const listener of this.#listeners.values()) listener.pause(paused)
    this.#deps.post({ kind: 'accept-paused', paused })
    if (paused) this.#lookAgain()
  }

  /** Others may have given descriptors back, of which there is no event. */
  #lookAgain(): void {
    const { loop, fds } = this.#env
    loop.clock.setTimeout(() => {
      fds.lookAgain()
      if (fds.exhausted) this.#lookAgain()
    }, lookAgainMs)
  }

  #stopAccepting(): void {
    this.#isStopping = true
    for (const listener of this.#listeners.values()) {
      listener.stopAccepting()
    }
    this.#checkIdle()
  }

  #kill(): void {
    let reset = 0
    for (const listener of this.#listeners.values()) reset += listener.kill()
    this.#reporter.flush()
    this.#deps.post({ kind: 'killed', reset })
  }

  #checkIdle(): void {
    if (!this.#isStopping) return
    for (const { connections } of this.#listeners.values()) if (connections > 0) return
    this.#isStopping = false
    this.#reporter.flush()
    this.#deps.post({ kind: 'idle' })
  }
}
