import { canonicalIp } from '../../../util/ip.ts'
import { bindKey } from '../../counters.ts'
import { restMs } from '../../dial-errors.ts'
import { FlowAges } from '../../flow-ages.ts'
import type { Choice } from '../../front.ts'
import type { Bind, DropReason } from '../../relay.ts'
import { systemError } from '../errno.ts'
import type { ListenerOrder } from '../orders.ts'
import type { CounterWriter } from '../shared/listener-counters.ts'
import { ListenerState } from '../worker/listener-state.ts'
import type { ListenerOwner, PortListener } from '../worker/port-listener.ts'
import type { WorkerBackend } from '../worker/worker-backend.ts'
import type { WorkerEnv } from '../worker/worker-env.ts'
import type { FlowMoves } from './flow-moves.ts'
import type { Identity } from './flow-table.ts'
import { type ListeningOwner, ListeningSocket } from './listening-socket.ts'
import { type FlowSocket, type FlowOwner, UdpFlow } from './udp-flow.ts'
import type { UdpShared } from './udp-shared.ts'

/** A socket that could not be watched, for want of memory, is tried again. */
const openAgainMs = 100

/** One UDP ServicePort in a worker. */
export class UdpListener implements PortListener, FlowOwner, ListeningOwner {
  /** UDP has no connections to wait for: its flows end with their listener. */
  readonly connections = 0
  readonly shared: UdpShared
  readonly counters: CounterWriter
  readonly random: () => number
  version = 0
  #accepting = true
  #retired = false
  readonly #env: WorkerEnv
  readonly #owner: ListenerOwner
  readonly #state: ListenerState
  readonly #moves: FlowMoves<UdpFlow>
  readonly #ages = new FlowAges<UdpFlow>(flow => flow.ownPlace)
  readonly #sockets = new Map<string, ListeningSocket>()

  constructor(
    env: WorkerEnv,
    order: ListenerOrder,
    owner: ListenerOwner,
    shared: UdpShared,
    moves: FlowMoves<UdpFlow>,
  ) {
    this.#moves = moves
    this.#env = env
    this.#owner = owner
    this.shared = shared
    this.random = env.random
    this.#state = new ListenerState(env, order)
    this.#state.take(order)
    this.counters = this.#state.counters
  }

  update(order: ListenerOrder): void {
    this.#state.take(order)
    this.version += 1
    this.#moves.begin(this, this.#flows())
  }

  open(bind: Bind, fd: number): void {
    const socket = new ListeningSocket(this, bind, fd)
    this.#sockets.set(bindKey(bind), socket)
    const result = socket.open()
    if (result >= 0) return
    this.fault(systemError('epoll_ctl of a UDP socket', result))
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
    this.#accepting = false
  }

  retire(): void {
    if (this.#retired) return
    this.#retired = true
    this.#state.wanted = false
    this.#moves.end(this)
    // Paid for by the main thread, which takes that back.
    for (const fd of this.releaseAll()) this.#env.fds.close(fd)
    this.#state.end()
    this.#owner.retired(this.#state.slot)
  }

  sweep(): void {
    this.#state.balancer.sweep()
  }

  /** Flows make room by themselves. */
  pause(): void {}

  kill(): number {
    this.retire()
    return 0
  }

  pick(
    { client, choice }: UdpFlow,
    tried: ReadonlySet<string>,
  ): WorkerBackend | undefined {
    return this.#state.balancer.pick(client, tried, choice.among)
  }

  chose(client: string, backend: WorkerBackend): void {
    this.#state.succeeded(client, backend)
  }

  failed(backend: WorkerBackend): void {
    this.#state.failed(backend, restMs.refused)
  }

  touched(flow: UdpFlow): void {
    flow.touchedAt = this.shared.limits.now
    this.#ages.push(flow)
    this.shared.limits.push(flow)
  }

  answered(flow: UdpFlow): void {
    this.#forgetAge(flow)
    flow.answered = true
    this.touched(flow)
  }

  closed(flow: UdpFlow, givesWay: boolean): void {
    if (!flow.socket.flows.delete(flow)) return
    this.#forgetAge(flow)
    this.counters.add('active', -1)
    if (!givesWay) this.#env.fds.release(1)
  }

  /** The next one shall fare better: the client will send again. */
  starved(): void {
    this.shared.limits.mostDispensable?.close()
  }

  fault(error: unknown): void {
    this.#env.reporter.fault(this.#state.name, error)
  }

  begin(
    socket: ListeningSocket,
    slot: number,
    hash: number,
    identity: Identity,
  ): UdpFlow | undefined {
    if (!this.#accepting) return this.#drop('draining')
    const { address, port } = this.shared.incoming.client(slot)
    // Port 0 can't be answered (RFC 768), and a datagram "from" a listener of
    // ours is made up: answering it would go round for ever (CVE-2024-2169).
    if (port === 0 || this.#env.isOwn(address, port)) return this.#drop('loop')
    const choice = this.#admit(socket, address, identity)
    if (choice === undefined) return this.#drop('not-allowed')
    if (!this.#takeDescriptor()) return this.#drop('no-fd')
    const flow = new UdpFlow(this, socket, hash, identity, address, choice)
    socket.flows.add(flow)
    this.counters.add('accepted', 1)
    this.counters.add('active', 1)
    this.shared.limits.add(flow)
    this.#ages.push(flow)
    const failure = flow.move()
    return failure === undefined ? flow : this.#drop(failure)
  }

  /** A flow goes by the newest state: its client's rights and its endpoint may be gone. */
  reconsider(flow: UdpFlow): void {
    if (flow.backend === undefined || flow.version === this.version) return
    const { socket, client } = flow
    flow.version = this.version
    const choice = this.#admit(socket, client, flow)
    if (choice === undefined) return flow.close()
    flow.choice = choice
    // Also where a new flow would not come: neither a policy nor an endpoint's end that
    // has been asked for moves one that is served, as kube-proxy has it.
    if (this.#state.mayKeep(flow.backend)) return
    // Where it can't, nothing is lost but the flow.
    flow.move()
  }

  /** No other worker serves it; what has come meanwhile is in its queue. */
  #openLater(socket: ListeningSocket): void {
    this.#env.loop.clock.setTimeout(() => {
      const isOpen = this.#sockets.get(bindKey(socket.bind)) === socket
      if (isOpen && socket.open() < 0) this.#openLater(socket)
    }, openAgainMs)
  }

  #drop(reason: DropReason): undefined {
    this.counters.countDrop(reason)
  }

  #forgetAge(flow: UdpFlow): void {
    this.#ages.remove(flow)
    this.shared.limits.remove(flow)
  }

  #flows(): UdpFlow[] {
    return Array.from(this.#sockets.values(), socket => socket.flows.all()).flat()
  }

  /**
   * A descriptor for one more flow, of the budget or of a flow that gives way. Given back it
   * might become another worker's, and this flow would not get it.
   */
  #takeDescriptor(): boolean {
    const { limits } = this.shared
    const most = this.#env.limits.udpFlowsPerListener
    const own = this.#ages.size >= most ? this.#ages.mostDispensable : undefined
    if (own === undefined && !limits.isFull && this.#env.fds.take(1)) return true
    const flow = own ?? limits.mostDispensable
    flow?.giveWay()
    return flow !== undefined
  }

  #admit(
    socket: FlowSocket,
    client: string,
    identity: Identity,
  ): Choice<WorkerBackend> | undefined {
    const front = this.#state.fronts.at(bindKey(socket.bind))
    if (front?.asksForClient !== true) return front?.admit('')
    return front.admit(client, dialled(socket, identity))
  }
}

/** The address that a client wrote to. */
const dialled = ({ bind }: FlowSocket, { destination }: Identity): string =>
  destination === undefined ? bind.address : addressText(destination)

/** The words of an IPv4 or IPv6 address, as packets have them, as text. */
const addressText = (words: Int32Array): string => {
  const bytes = new Uint8Array(words.buffer, words.byteOffset, words.byteLength)
  if (bytes.length === 4) return bytes.join('.')
  const groups = Array.from({ length: 8 }, (_, i) =>
    (((bytes[2 * i] ?? 0) << 8) | (bytes[2 * i + 1] ?? 0)).toString(16),
  )
  const text = groups.join(':')
  return canonicalIp(text) ?? text
}
