import { joinHostPort } from '../../../util/ip.ts'
import type { Balancer } from '../../../balance/balancer.ts'
import { bindKey } from '../../counters.ts'
import type { Choice } from '../../front.ts'
import type { Bind } from '../../relay.ts'
import type { ListenerOrder } from '../orders.ts'
import { readSockaddr } from '../sockaddr.ts'
import type { CounterWriter } from '../shared/listener-counters.ts'
import { ListenerState } from '../worker/listener-state.ts'
import type { ListenerOwner, PortListener } from '../worker/port-listener.ts'
import type { WorkerBackend } from '../worker/worker-backend.ts'
import type { Acceptor } from './doors.ts'
import type { TcpShared } from './tcp-shared.ts'

/** One ServicePort's TCP in a worker: who may come in, where to, and the figures. */
export class TcpListener implements PortListener, Acceptor {
  readonly #shared: TcpShared
  readonly #owner: ListenerOwner
  readonly #state: ListenerState
  /** Numbers of its listening sockets among those of all, by `bindKey`. */
  readonly #doors = new Map<string, number>()
  #connections = 0
  #lastError = ''

  constructor(shared: TcpShared, order: ListenerOrder, owner: ListenerOwner) {
    this.#shared = shared
    this.#owner = owner
    this.#state = new ListenerState(shared.env, order)
    this.#state.take(order)
  }

  get name(): string {
    return this.#state.name
  }

  get counters(): CounterWriter {
    return this.#state.counters
  }

  get balancer(): Balancer<WorkerBackend> {
    return this.#state.balancer
  }

  get connections(): number {
    return this.#connections
  }

  update(order: ListenerOrder): void {
    this.#state.take(order)
  }

  open(bind: Bind, fd: number): void {
    const key = bindKey(bind)
    this.#doors.set(key, this.#shared.doors.open(this, key, fd))
  }

  release(bind: Bind): number {
    const key = bindKey(bind)
    const door = this.#doors.get(key)
    if (door === undefined) return -1
    this.#doors.delete(key)
    return this.#shared.doors.release(door)
  }

  releaseAll(): number[] {
    const fds = Array.from(this.#doors.values(), door => this.#shared.doors.release(door))
    this.#doors.clear()
    return fds
  }

  stopAccepting(): void {
    for (const fd of this.releaseAll()) this.#shared.env.fds.close(fd)
  }

  pause(): void {
    // All doors are paused together.
  }

  sweep(): void {
    this.#state.balancer.sweep()
  }

  retire(): void {
    this.#state.wanted = false
    this.#checkRetired()
  }

  kill(): number {
    return this.#shared.connections.killAll(this)
  }

  accepted(fd: number, key: string): void {
    const { counters, fronts } = this.#state
    counters.add('accepted', 1)
    const front = fronts.at(key)
    if (front === undefined) return this.#turnAway(fd, '')
    if (!front.asksForClient) return this.#begin(fd, front.admit(''), '')
    const { address, port } = readSockaddr(this.#shared.peer, 0)
    const local = this.#shared.localAddress(fd)
    this.#begin(fd, front.admit(address, local), joinHostPort(address, port))
  }

  /** An endpoint refused or was silent. */
  backendFailed(backend: WorkerBackend, restMs: number): void {
    this.#state.failed(backend, restMs)
  }

  /** The connection stands. */
  succeeded(client: string, backend: WorkerBackend): void {
    this.#state.succeeded(client, backend)
  }

  /** A connection is over. `failure`: what kept it from being served, '' when nothing did. */
  ended(failure: string): void {
    this.#connections -= 1
    this.counters.add('active', -1)
    if (failure !== '' && failure !== this.#lastError) {
      this.#lastError = failure
      this.#shared.env.teller.lastError(this.#state.slot, failure)
    }
    this.#owner.connectionEnded()
    if (!this.#state.wanted) this.#checkRetired()
  }

  #begin(fd: number, choice: Choice<WorkerBackend> | undefined, client: string): void {
    const { connections, peer } = this.#shared
    if (choice === undefined) return this.#turnAway(fd, client)
    this.#connections += 1
    this.counters.add('active', 1)
    connections.begin(this, fd, peer, choice)
  }

  /** At once: whoever may not connect costs neither a dial nor a place in the budget. */
  #turnAway(fd: number, client: string): void {
    const { env, connections } = this.#shared
    this.counters.countFailure('PR')
    connections.turnAway(fd)
    if (!env.teller.wants('PR')) return
    env.teller.connectionClosed({
      listener: this.name,
      client,
      endpoint: '',
      attempts: [],
      bytesToBackend: 0,
      bytesToClient: 0,
      dialMs: 0,
      totalMs: 0,
      cause: 'PR',
      detail: 'source range or traffic policy',
    })
  }

  #checkRetired(): void {
    if (this.#connections > 0 || this.#doors.size > 0) return
    this.#state.end()
    this.#owner.retired(this.#state.slot)
  }
}
