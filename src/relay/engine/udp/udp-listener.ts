import { bindKey, type Bind } from '../../relay.ts'
import { systemError, errno } from '../../../ffi/errno.ts'
import type { ListenerOrder } from '../orders.ts'
import type { ListenerOwner, PortListener } from '../worker/port-listener.ts'
import { UdpService } from './udp-service.ts'
import type { UdpShared } from './udp-shared.ts'
import { AF_INET } from '../../../ffi/constants.ts'
import type { Counters, DropReason } from '../../counters.ts'
import { isWildcard } from '../../../util/ip.ts'
import { comesRound, fewFlows } from '../rings.ts'
import { FlowTable, type Identity } from './flow-table.ts'
import type { WorkerBackend, WorkerEnv } from '../worker/worker-backend.ts'
import { type FlowSocket, UdpFlow } from './udp-flow.ts'
import type { SocketUser } from './udp-sockets.ts'

/** A socket that could not be watched, for want of memory, is tried again. */
const openAgainMs = 100

/** One UDP ServicePort in a worker. */
export class UdpListener implements PortListener {
  readonly service: UdpService
  readonly #env: WorkerEnv
  readonly #owner: ListenerOwner
  readonly #sockets = new Map<string, ListeningSocket>()
  #retired = false

  constructor(
    env: WorkerEnv,
    order: ListenerOrder,
    owner: ListenerOwner,
    shared: UdpShared,
  ) {
    this.#env = env
    this.#owner = owner
    this.service = new UdpService(env, order, shared)
  }

  update(order: ListenerOrder): void {
    this.service.take(order)
    const sockets = [...this.#sockets.values()]
    const flows = sockets.flatMap(socket => socket.flows.all())
    this.service.shared.moves.begin(this, flows)
  }

  open(bind: Bind, fd: number): void {
    const socket = new ListeningSocket(this.service, bind, fd)
    this.#sockets.set(bindKey(bind), socket)
    const result = socket.open()
    if (result >= 0) return
    this.service.fault(systemError('epoll_ctl of a UDP socket', result))
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

  stopAccepting(): void {
    this.service.accepting = false
  }

  retire(): void {
    if (this.#retired) return
    this.#retired = true
    this.service.wanted = false
    this.service.shared.moves.end(this)
    // Their flows end, as replies leave by them. Paid for by the main thread, which takes that back.
    for (const { bind } of this.#sockets.values()) this.#env.fds.close(this.release(bind))
    this.service.end()
    this.#owner.retired(this.service.slot)
  }

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

/** One is tried again every 10 ms: a second. */
const mostFailures = 100

/** One listening socket. */
class ListeningSocket implements FlowSocket, SocketUser {
  readonly bind: Bind
  readonly fd: number
  readonly counters: Counters
  readonly flows: FlowTable<UdpFlow>
  readonly #service: UdpService
  readonly #isWildcard: boolean
  /** Datagrams come with their TTL: once there are many flows. */
  #reportsTtl = false
  /** In a row; and at how many the next is reported. */
  #failures = 0
  #reportedAt = mostFailures

  constructor(service: UdpService, bind: Bind, fd: number) {
    this.#service = service
    this.bind = bind
    this.fd = fd
    this.counters = service.counters
    this.flows = new FlowTable(service.random)
    this.#isWildcard = isWildcard(bind.address)
  }

  /** Zero, or -errno where the kernel does not let it be watched now. */
  open(): number {
    return this.#service.shared.sockets.watch(this.fd, this)
  }

  /** Its flows end; the descriptor is left to the caller, and out of the loop. */
  close(): void {
    const { sockets, replies } = this.#service.shared
    replies.flush()
    for (const flow of this.flows.all()) flow.close()
    sockets.unwatch(this.fd)
  }

  /** At most one batch a turn, so that others have theirs. */
  ready(): void {
    const { incoming, incomingShare } = this.#service.shared
    const { most } = incomingShare
    const count = incoming.receiveNamed(
      this.fd,
      this.#isWildcard || this.#reportsTtl,
      most,
    )
    if (count < 0) return this.#unreadable(count)
    this.#failures = 0
    incomingShare.spend(count)
    this.#deliver(count)
  }

  failed(error: unknown): void {
    this.#service.fault(error)
  }

  #deliver(count: number): void {
    const { version } = this.#service
    for (let first = 0; first < count;) {
      const flow = this.#flowAt(first)
      if (flow === undefined) {
        first += 1
        continue
      }
      if (flow.version !== version) {
        flow.reconsider()
        // It may be gone, and the client may begin another.
        if (flow.backend === undefined) continue
      }
      const end = this.#endOfRun(flow, first, Math.min(count, first + flow.left))
      flow.left -= end - first
      flow.send(first, end)
      first = end
    }
  }

  #flowAt(slot: number): UdpFlow | undefined {
    const { incoming } = this.#service.shared
    const at = incoming.nameAt(slot)
    const destination = this.#destinationAt(slot)
    const hash = this.flows.hash(incoming, at, destination)
    const flow = this.flows.find(incoming, hash, at, destination)
    if (flow === undefined)
      return this.#begin(slot, hash, this.#identity(at, destination))
    return flow.left > 0 ? flow : this.#spread(flow, slot)
  }

  /**
   * It is the next endpoint's turn, by the client's flow to that or by another one: a client has one for each
   * endpoint, each with a socket that gets refusals and replies, and the current one is found first.
   */
  #spread(spent: UdpFlow, slot: number): UdpFlow | undefined {
    const { balancer, shared, spread } = this.#service
    const { client, choice, hash, name, destination } = spent
    const next = balancer.pick(client, undefined, choice.among) ?? spent.backend
    const [at, to] = [shared.incoming.nameAt(slot), this.#destinationAt(slot)]
    const isNext = (flow: UdpFlow): boolean =>
      flow.backend === next && this.flows.isOf(flow, shared.incoming, at, to)
    let flow: UdpFlow | undefined = spent
    while (flow !== undefined && !isNext(flow)) flow = flow.alike
    if (flow === undefined) return this.#begin(slot, hash, { name, destination }, next)
    flow.left = spread
    this.flows.delete(flow)
    this.flows.add(flow)
    return flow
  }

  /** Makes a flow for the client of a slot, to `first` if that is given, or counts why not. */
  #begin(
    slot: number,
    hash: number,
    identity: Identity,
    first?: WorkerBackend,
  ): UdpFlow | undefined {
    const service = this.#service
    if (!service.accepting) return this.#drop('draining')
    const { address, port } = service.shared.incoming.client(slot)
    if (service.isLoop(address, port)) return this.#drop('loop')
    const choice = service.admit(this.bind, address, identity)
    if (choice === undefined) return this.#drop('not-allowed')
    const ttl = this.#ttlAt(slot)
    if (comesRound(ttl, service.far)) return this.#drop('loop')
    if (!service.takeDescriptor()) return this.#drop('no-fd')
    const flow = new UdpFlow(service, this, hash, identity, address, choice, ttl)
    this.flows.add(flow)
    service.begun(flow)
    const result = flow.move(first)
    return result === 'moved' ? flow : this.#drop(result)
  }

  #ttlAt(slot: number): number {
    const { flows, shared } = this.#service
    if (this.#reportsTtl) return shared.incoming.ttlAt(slot)
    this.#reportsTtl = flows.size >= fewFlows && shared.sockets.options.reportTtl(this.fd)
    return 0
  }

  #drop(reason: DropReason): undefined {
    this.counters.countDrop(reason)
  }

  /** After the last slot in a row whose client is the flow's. */
  #endOfRun(flow: UdpFlow, first: number, count: number): number {
    const { incoming } = this.#service.shared
    let end = first + 1
    while (
      end < count &&
      this.flows.isOf(flow, incoming, incoming.nameAt(end), this.#destinationAt(end))
    )
      end += 1
    return end
  }

  #destinationAt(slot: number): number {
    return this.#isWildcard ? this.#service.shared.incoming.destinationAt(slot) : -1
  }

  #identity(at: number, destination: number): Identity {
    const { words } = this.#service.shared.incoming
    const isIpv4 = ((words[at] ?? 0) & 0xffff) === AF_INET
    return {
      name: words.slice(at, at + (isIpv4 ? 4 : 7)),
      destination:
        destination < 0
          ? undefined
          : words.slice(destination, destination + (isIpv4 ? 1 : 4)),
    }
  }

  #unreadable(result: number): void {
    if (result === -errno.EAGAIN || result === -errno.EINTR) return
    this.#service.shared.sockets.pause(this.fd)
    this.#failures += 1
    // A shortage passes. What doesn't is reported, ever less often.
    if (this.#failures < this.#reportedAt) return
    this.#reportedAt *= 10
    this.#service.fault(systemError('recvmmsg of a UDP socket', result))
  }
}
