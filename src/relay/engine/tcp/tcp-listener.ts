import { isDeepStrictEqual } from 'node:util'
import { bindKey, type Bind, type RelayListener } from '../../relay.ts'
import type { ListenerOrder } from '../orders.ts'
import type { ListenerOwner, PortListener } from '../worker/port-listener.ts'
import type { WorkerEnv } from '../worker/worker-backend.ts'
import type { Accepting, ListeningSocket } from './accepting.ts'
import type { TcpConnections } from './tcp-connections.ts'
import { TcpService } from './tcp-service.ts'

/** One ServicePort's TCP in a worker: its listening sockets, and its connections to their end. */
export class TcpListener implements PortListener {
  readonly service: TcpService
  readonly #env: WorkerEnv
  readonly #accepting: Accepting
  readonly #all: TcpConnections
  readonly #owner: ListenerOwner
  #spec: RelayListener
  /** By `bindKey`. */
  readonly #sockets = new Map<string, ListeningSocket>()

  constructor(
    env: WorkerEnv,
    order: ListenerOrder,
    owner: ListenerOwner,
    accepting: Accepting,
    all: TcpConnections,
  ) {
    this.#env = env
    this.#owner = owner
    this.#accepting = accepting
    this.#all = all
    this.service = new TcpService(env, order, () => this.#connectionEnded())
    this.service.take(order)
    this.#spec = order.spec
  }

  update(order: ListenerOrder): void {
    const { ages, limiter } = this.service
    this.service.take(order)
    if (!isDeepStrictEqual(ages, this.service.ages)) this.#all.agesChanged(this.service)
    if (limiter === undefined) this.#all.limited(this.service)
    this.#all.changed(this.service, order.spec, this.#spec)
    this.#spec = order.spec
  }

  open(bind: Bind, fd: number): void {
    const key = bindKey(bind)
    this.#sockets.set(key, this.#accepting.open(this.service, key, fd))
  }

  release(bind: Bind): number {
    const key = bindKey(bind)
    const socket = this.#sockets.get(key)
    if (socket === undefined) return -1
    this.#sockets.delete(key)
    this.#accepting.release(socket)
    return socket.fd
  }

  stopAccepting(): void {
    this.service.ends = true
    for (const socket of this.#sockets.values()) {
      this.#accepting.release(socket)
      this.#env.fds.close(socket.fd)
    }
    this.#sockets.clear()
  }

  retire(): void {
    this.service.wanted = false
    this.service.ends = true
    this.#checkRetired()
  }

  kill(): number {
    return this.#accepting.killAll(this.service) + this.#all.killAll(this.service)
  }

  #connectionEnded(): void {
    this.#owner.connectionEnded()
    if (!this.service.wanted) this.#checkRetired()
  }

  #checkRetired(): void {
    if (this.service.connections > 0 || this.#sockets.size > 0) return
    this.service.end()
    this.#owner.retired(this.service.slot)
  }
}
