import { explainPick } from '../../explain-pick.ts'
import type { Explanation, ExplainQuery } from '../../explanation.ts'
import { bindKey, type Bind } from '../../relay.ts'
import { systemError } from '../../../ffi/errno.ts'
import type { ListenerOrder } from '../orders.ts'
import type { ListenerOwner, PortListener } from '../worker/port-listener.ts'
import type { WorkerEnv } from '../worker/worker-env.ts'
import { ListeningSocket } from './listening-socket.ts'
import { UdpService } from './udp-service.ts'
import type { UdpShared } from './udp-shared.ts'

/** A socket that could not be watched, for want of memory, is tried again. */
const openAgainMs = 100

/** One UDP ServicePort in a worker. */
export class UdpListener implements PortListener {
  readonly id: string
  readonly #env: WorkerEnv
  readonly #owner: ListenerOwner
  readonly #service: UdpService
  readonly #sockets = new Map<string, ListeningSocket>()
  #retired = false

  constructor(
    env: WorkerEnv,
    order: ListenerOrder,
    owner: ListenerOwner,
    shared: UdpShared,
  ) {
    this.id = order.spec.id
    this.#env = env
    this.#owner = owner
    this.#service = new UdpService(env, order, shared)
  }

  update(order: ListenerOrder): void {
    this.#service.take(order)
    const sockets = [...this.#sockets.values()]
    const flows = sockets.flatMap(socket => socket.flows.all())
    this.#service.shared.moves.begin(this, flows)
  }

  open(bind: Bind, fd: number): void {
    const socket = new ListeningSocket(this.#service, bind, fd)
    this.#sockets.set(bindKey(bind), socket)
    const result = socket.open()
    if (result >= 0) return
    this.#service.fault(systemError('epoll_ctl of a UDP socket', result))
    this.#openLater(socket)
  }

  release(bind: Bind): number {
    const key = bindKey(bind)
    const socket = this.#sockets.get(key)
    if (socket === undefined) return -1
    this.#sockets.delete(key)
    socket.close()
    return socket.fd
  }

  /** Their flows end: replies leave by the listening socket. */
  releaseAll(): number[] {
    return Array.from(this.#sockets.values(), ({ bind }) => this.release(bind))
  }

  stopAccepting(): void {
    this.#service.accepting = false
  }

  retire(): void {
    if (this.#retired) return
    this.#retired = true
    this.#service.wanted = false
    this.#service.shared.moves.end(this)
    // Paid for by the main thread, which takes that back.
    for (const fd of this.releaseAll()) this.#env.fds.close(fd)
    this.#service.end()
    this.#owner.retired(this.#service.slot)
  }

  explain(query: ExplainQuery): Explanation {
    return explainPick(this.#service, this.#env.thread, query)
  }

  sweep(): void {
    this.#service.balancer.sweep()
  }

  /** Flows make room by themselves. */
  pause(): void {}

  kill(): number {
    this.retire()
    return 0
  }

  /** No other worker serves it; what has come meanwhile is in its queue. */
  #openLater(socket: ListeningSocket): void {
    this.#env.loop.clock.setTimeout(() => {
      const isOpen = this.#sockets.get(bindKey(socket.bind)) === socket
      if (isOpen && socket.open() < 0) this.#openLater(socket)
    }, openAgainMs)
  }
}
