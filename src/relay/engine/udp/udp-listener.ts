import { bindKey, type Bind } from '../../relay.ts'
import { systemError, errno } from '../../../ffi/errno.ts'
import type { ListenerOrder } from '../orders.ts'
import type { ListenerOwner, PortListener } from '../worker/port-listener.ts'
import { UdpService } from './udp-service.ts'
import type { UdpShared } from './udp-shared.ts'
import { AF_INET } from '../../../ffi/constants.ts'
import type { Counters, DropReason } from '../../counters.ts'
import type { GivenFlows, MovedFlow } from '../../hand-over/moved.ts'
import { isWildcard } from '../../../util/ip.ts'
import { readSockaddr } from '../sockaddr.ts'
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

  /** `awaitsFlows`: it is left alone until the last of them are adopted. */
  open(bind: Bind, fd: number, awaitsFlows = false): void {
    const socket = new ListeningSocket(this.service, bind, fd)
    this.#sockets.set(bindKey(bind), socket)
    if (!awaitsFlows) this.#serve(socket)
  }

  /** Some flows of an address for another process, `most` at most: nothing is done with it until `settle`. */
  give(bind: Bind, most: number): GivenFlows {
    const socket = this.#sockets.get(bindKey(bind))
    return socket?.give(most) ?? { flows: [], fds: [], isLast: true }
  }

  /**
   * What was given is the other process's, with the socket; or it goes on here. `most` flows at a time: how
   * many are left to be settled.
   */
  settle(bind: Bind, isTaken: boolean, most: number): number {
    const socket = this.#sockets.get(bindKey(bind))
    if (socket === undefined) return 0
    const left = socket.settle(isTaken, most)
    if (left > 0) return left
    if (isTaken) this.#env.fds.close(this.release(bind))
    else this.#serve(socket)
    return 0
  }

  /** Flows that another process has given; false where their socket is not here any more. */
  adopt(bind: Bind, given: GivenFlows): boolean {
    const socket = this.#sockets.get(bindKey(bind))
    if (socket === undefined) return false
    try {
      socket.adopt(given)
    } finally {
      if (given.isLast) this.#serve(socket)
    }
    return true
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

  #serve(socket: ListeningSocket): void {
    const result = socket.open()
    if (result >= 0) return
    this.service.fault(systemError('epoll_ctl of a UDP socket', result))
    this.#openLater(socket)
  }

  /** No other worker serves it; what has come meanwhile is in its queue. */
  #openLater(socket: ListeningSocket): void {
    this.#env.loop.clock.setTimeout(() => {
      const isOpen = this.#sockets.get(bindKey(socket.bind)) === socket
      if (!isOpen || socket.isMoving) return
      if (socket.open() < 0) this.#openLater(socket)
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
  #isOpen = false
  /** While it is to be another process's: flows that are yet to leave, and those that have. */
  #staying: UdpFlow[] | undefined
  #gone: UdpFlow[] = []

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
    if (this.#isOpen) return 0
    const result = this.#service.shared.sockets.watch(this.fd, this)
    this.#isOpen = result >= 0
    return result
  }

  get isMoving(): boolean {
    return this.#staying !== undefined
  }

  /** From the first call on it is out of the loop, and no flow begins; those yet to leave are served. */
  give(most: number): GivenFlows {
    const { sockets, replies } = this.#service.shared
    if (this.#isOpen) sockets.unwatch(this.fd)
    this.#isOpen = false
    this.#staying ??= this.flows.all()
    const flows: MovedFlow[] = []
    const fds: number[] = []
    // From the end: of one client with several the current one is the first.
    for (let flow = this.#staying.pop(); flow !== undefined; flow = this.#staying.pop()) {
      const fd = flow.leave()
      if (fd < 0) continue
      this.#gone.push(flow)
      flows.push(flow.describe())
      fds.push(fd)
      if (fds.length >= most) break
    }
    replies.flush()
    return { flows, fds, isLast: this.#staying.length === 0 }
  }

  /** How many of those that have left are yet to be closed, or back. */
  settle(isTaken: boolean, most: number): number {
    for (const flow of this.#gone.splice(-most)) {
      if (isTaken) flow.close()
      else flow.stay()
    }
    if (this.#gone.length > 0) return this.#gone.length
    this.#staying = undefined
    if (!isTaken) this.#service.flows.sort()
    return 0
  }

  adopt({ flows, fds, isLast }: GivenFlows): void {
    for (const [i, moved] of flows.entries()) this.#adopt(moved, fds[i] ?? -1)
    if (isLast) this.#service.flows.sort()
  }

  #adopt(moved: MovedFlow, fd: number): void {
    const service = this.#service
    const identity = {
      name: Int32Array.from(moved.name),
      destination: moved.destination && Int32Array.from(moved.destination),
    }
    const words = Int32Array.of(...moved.name, ...(moved.destination ?? []))
    const destination = moved.destination === undefined ? -1 : moved.name.length
    const hash = this.flows.hash({ words }, 0, destination)
    const { address } = readSockaddr({ view: new DataView(words.buffer) }, 0)
    // `adopt` looks at what its client may get.
    const choice = service.fronts.choiceOfAdopted(bindKey(this.bind), address, '')
    const flow = new UdpFlow(service, this, hash, identity, address, choice, moved.ttl)
    this.flows.add(flow)
    flow.adopt(moved, fd)
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
