import { isOutOfResources } from '../../../util/usher-error.ts'
import type { DropReason } from '../../counters.ts'
import type { Choice } from '../../front.ts'
import { Place } from '../../flow-ages.ts'
import { cooldownMs } from '../../listener-endpoints.ts'
import type { Bind } from '../../relay.ts'
import { errno, errnoName } from '../../../ffi/errno.ts'
import type { MovedFlow } from '../../hand-over/moved.ts'
import { WorkerBackend } from '../worker/worker-backend.ts'
import { isUncut } from './datagram-batch.ts'
import type { MovableFlow } from './flow-moves.ts'
import type { FlowTable, TableFlow } from './flow-table.ts'
import type { Keeper } from './kept-datagrams.ts'
import type { ReplySocket, ReplyTo } from './reply-queue.ts'
import type { UdpService } from './udp-service.ts'
import type { UdpShared, WorkerFlow } from './udp-shared.ts'
import type { SocketUser } from './udp-sockets.ts'

/** The listening socket that its client writes to, and is answered from. */
export interface FlowSocket extends ReplySocket {
  readonly bind: Bind
  readonly flows: FlowTable<UdpFlow>
}

const mostInterrupts = 3

/**
 * The datagrams between one client address:port and one endpoint. Each flow has a
 * connected socket of its own: its port tells replies apart, and only a connected socket
 * gets a refusal (ICMP port unreachable, udp(7)).
 */
export class UdpFlow
  implements WorkerFlow, MovableFlow, TableFlow, ReplyTo, Keeper, SocketUser
{
  readonly ownPlace: Place<WorkerFlow> = new Place<WorkerFlow>(this)
  readonly commonPlace: Place<WorkerFlow> = new Place<WorkerFlow>(this)
  answered = false
  touchedAt = 0
  /** Datagrams of its client that are still for its endpoint; see `UdpService.spread`. */
  left: number
  kept: Int32Array | undefined = undefined
  keptLength = -1
  cutsReplies = true
  /** Whether the way to the endpoint takes packets that are cut up on the way. */
  #cuts = true
  alike: this | undefined = undefined
  readonly name: Int32Array
  readonly nameLength: number
  readonly destination: Int32Array | undefined
  readonly hash: number
  readonly client: string
  readonly ttl: number
  readonly socket: FlowSocket
  /** What its client may choose from, as of `version`. */
  choice: Choice<WorkerBackend>
  version: number
  readonly #service: UdpService
  #fd = -1
  #backend: WorkerBackend | undefined
  /** Of its endpoint: whether anything has been sent there, and has come from there. */
  #hasRequest = false
  #hasReply = false
  #refusedBy: Set<string> | undefined
  /** To another process: it is out of the loop, and nothing is done with it. */
  #isMoving = false

  constructor(
    service: UdpService,
    socket: FlowSocket,
    hash: number,
    { name, destination }: Pick<ReplyTo, 'name' | 'destination'>,
    client: string,
    choice: Choice<WorkerBackend>,
    ttl: number,
  ) {
    this.#service = service
    this.socket = socket
    this.hash = hash
    this.name = name
    this.nameLength = name.byteLength
    this.destination = destination
    this.client = client
    this.ttl = ttl
    this.choice = choice
    this.version = service.version
    this.left = service.spread
  }

  get backend(): WorkerBackend | undefined {
    return this.#backend
  }

  /** client->backend: slots `first` to `end` - 1 of what has been received. */
  send(first: number, end: number): void {
    const { shared, counters, flows } = this.#service
    const { incoming, kept } = shared
    flows.touched(this)
    let at = first
    let limit = end
    let interrupts = 0
    let last = -1
    let stumbled = -1
    while (at < end) {
      const sent = this.#transmit(at, limit)
      if (sent > 0) {
        counters.add('datagramsToBackend', sent)
        counters.add('bytesToBackend', bytesOf(shared, at, at + sent))
        // Why the others were left is returned only when the first of them is tried alone.
        limit = at + sent < limit ? at + sent + 1 : end
        at += sent
        last = at - 1
      } else if (sent === -errno.EINTR && interrupts < mostInterrupts) {
        interrupts += 1
      } else if (isUnreachable(errnoName(sent))) {
        // A refusal is the one's before, which goes out again, unless a firewall of this host
        // has just refused this one. Without a way there nothing has left: the one before
        // may have come, and must not come twice.
        const isOfEarlier = sent === -errno.ECONNREFUSED && stumbled !== at
        const from = isOfEarlier && last >= 0 ? last : at
        if (!this.#refused(isOfEarlier && last < 0, end - from)) return
        at = from
        limit = end
        last = -1
      } else if (stumbled !== at && (isReportedLater(sent) || sent === -errno.EPERM)) {
        // An earlier one's fault stands in the way once; its own does so again.
        if (sent !== -errno.EPERM) counters.countDrop('send-failed')
        stumbled = at
        limit = end
      } else {
        const isCounted = stumbled === at && sent !== -errno.EPERM
        if (!isCounted) counters.countDrop('send-failed')
        at += 1
        limit = end
      }
    }
    if (last < 0) return
    this.#hasRequest = true
    kept.keep(this, incoming, last)
  }

  /** backend->client */
  ready(): void {
    const { shared, flows, version } = this.#service
    if (this.version !== version) {
      const before = this.#fd
      this.reconsider()
      // What comes from an endpoint that is not the flow's any more is not passed on.
      if (this.#fd !== before) return
    }
    const count = shared.replies.receive(this.#fd, this.socket, this)
    if (count < 0) return this.#unreadable(count)
    if (this.answered) flows.touched(this)
    else flows.answered(this)
    if (!this.#hasReply) this.#firstReply()
    if (this.#refusedBy !== undefined) this.#refusedBy = undefined
  }

  failed(error: unknown): void {
    this.#service.fault(error)
    this.close()
  }

  /** It goes by the newest state: its client's rights and its endpoint may be gone. */
  reconsider(): void {
    const service = this.#service
    if (this.#backend === undefined || this.version === service.version) return
    if (this.#isMoving) return
    this.version = service.version
    const choice = service.admit(this.socket.bind, this.client, this)
    if (choice === undefined) return this.close()
    this.choice = choice
    // Also where a new flow would not come: neither a policy nor an endpoint's end that
    // has been asked for moves one that is served, as kube-proxy has it.
    if (service.mayKeep(this.#backend)) return
    // Where it can't, nothing is lost but the flow.
    this.move()
  }

  /** Goes to `first`, or an endpoint that did not refuse yet; when it can't, it is closed, and why. */
  move(first?: WorkerBackend): 'moved' | DropReason {
    for (let retries = 0; ; retries += 1) {
      this.#disconnect()
      const tried = this.#refusedBy
      const { balancer } = this.#service
      const backend =
        (retries === 0 ? first : undefined) ??
        balancer.pick(this.client, tried, this.choice.among)
      if (backend === undefined) {
        this.close()
        if (tried === undefined) return 'no-endpoint'
        this.#service.allFailed()
        return 'refused'
      }
      if (retries > 0) this.#service.counters.add('dialRetries', 1)
      this.#service.connected(this.client, backend)
      const result = this.#connect(backend)
      if (result >= 0) return 'moved'
      if (isShortage(errnoName(result))) {
        this.close()
        // Frees a descriptor for the next flow: the client will send again.
        this.#service.shared.limits.mostDispensable?.close()
        return 'no-fd'
      }
      this.#blame(backend)
    }
  }

  /** Out of the loop, until `stay` or `close`; its descriptor, or -1 where it has ended. */
  leave(): number {
    if (this.#backend === undefined) return -1
    this.#isMoving = true
    this.#service.shared.sockets.unwatch(this.#fd)
    this.#service.flows.remove(this)
    return this.#fd
  }

  /** It goes on here as if nothing had been: what has come meanwhile is told again. */
  stay(): void {
    if (this.#backend === undefined) return
    const { flows } = this.#service
    this.#isMoving = false
    flows.add(this, flows.idleMsOf(this))
    this.#goOn()
  }

  describe(): MovedFlow {
    const { key = '', address = '', port = 0 } = this.#backend ?? {}
    return {
      endpoint: { key, address, port },
      name: [...this.name],
      destination: this.destination && [...this.destination],
      ttl: this.ttl,
      idleMs: this.#service.flows.idleMsOf(this),
      answered: this.answered,
      hasRequest: this.#hasRequest,
      hasReply: this.#hasReply,
      refusedBy: this.#refusedBy && [...this.#refusedBy],
      left: Number.isFinite(this.left) ? this.left : undefined,
    }
  }

  /** One of another process, which is in the table; its socket is this worker's and paid for. */
  adopt(moved: MovedFlow, fd: number): void {
    const service = this.#service
    const backend = service.backendOfAdopted(
      moved.endpoint,
      endpoint => new WorkerBackend(endpoint),
    )
    backend.active += 1
    this.#backend = backend
    this.#fd = fd
    this.answered = moved.answered
    this.#hasRequest = moved.hasRequest
    this.#hasReply = moved.hasReply
    if (moved.refusedBy !== undefined) this.#refusedBy = new Set(moved.refusedBy)
    this.left = Math.min(this.left, moved.left ?? Infinity)
    // What its client may get here was not looked at yet.
    this.version = -1
    service.adopted(this, moved.idleMs)
    this.#goOn()
  }

  #goOn(): void {
    if (this.#service.shared.sockets.watch(this.#fd, this) < 0) return this.close()
    this.reconsider()
  }

  close(): void {
    this.#end(false)
  }

  giveWay(): void {
    this.#end(true)
  }

  unanswered(): void {
    if (this.#backend !== undefined && this.#hasRequest) {
      this.#service.unanswered(this.#backend, this.client, this.touchedAt)
    }
    this.#end(false)
  }

  #firstReply(): void {
    this.#hasReply = true
    if (this.#backend !== undefined) this.#service.answered(this.#backend, this.client)
  }

  #end(givesWay: boolean): void {
    this.#disconnect()
    this.#service.shared.kept.forget(this)
    if (this.socket.flows.delete(this)) this.#service.ended(this, givesWay)
  }

  /** Sends some of the slots, the first at least: how many, or -errno. */
  #transmit(first: number, end: number): number {
    const { incoming } = this.#service.shared
    if (end - first > 1 && this.#cuts) {
      const together = incoming.alike(first, end)
      if (together > 1) {
        const sent = incoming.sendSegmented(this.#fd, first, together)
        if (sent > 0 || !isUncut(sent)) return sent
        this.#cuts = false
      }
    }
    return incoming.sendPlain(this.#fd, first, end)
  }

  #connect(backend: WorkerBackend): number {
    const { sockets } = this.#service.shared
    backend.active += 1
    this.#backend = backend
    this.#hasRequest = false
    this.#hasReply = false
    this.#service.counters.add('dialAttempts', 1)
    const fd = sockets.open(backend, this.ttl)
    if (fd < 0) return fd
    this.#fd = fd
    this.#cuts = true
    return sockets.watch(fd, this)
  }

  #disconnect(): void {
    if (this.#backend !== undefined) this.#backend.active -= 1
    this.#backend = undefined
    if (this.#fd < 0) return
    this.#service.shared.sockets.close(this.#fd)
    this.#fd = -1
  }

  #blame(backend: WorkerBackend): void {
    this.#service.failed(backend, cooldownMs.refused, 'refused, or out of reach')
    this.#refusedBy ??= new Set()
    this.#refusedBy.add(backend.key)
  }

  /**
   * Moves on, and sends the last datagram again where `again` says so. False when there is
   * nowhere to go: then `unsent` datagrams are lost by it.
   */
  #refused(again: boolean, unsent: number): boolean {
    const { counters, shared } = this.#service
    const resends = again && this.keptLength >= 0
    // It may close the flow, which forgets what was kept.
    const lost = unsent + (resends ? 1 : 0)
    if (again && !resends) counters.countDrop('refused')
    if (this.#backend !== undefined) this.#blame(this.#backend)
    const result = this.move()
    if (result !== 'moved') {
      for (let i = 0; i < lost; i += 1) counters.countDrop(result)
      return false
    }
    counters.add('dialRetries', 1)
    if (!resends) return true
    const sent = shared.kept.send(this.#fd, this)
    if (sent < 0) counters.countDrop('send-failed')
    else {
      this.#hasRequest = true
      counters.add('datagramsToBackend', 1)
      counters.add('bytesToBackend', sent)
    }
    return true
  }

  #unreadable(result: number): void {
    if (result === -errno.EAGAIN || result === -errno.EINTR) return
    const code = errnoName(result)
    if (isUnreachable(code)) {
      this.#refused(true, 0)
    } else if (isShortage(code)) {
      this.#service.shared.sockets.pause(this.#fd)
    } else {
      // Any other error of a connected socket cost a datagram.
      this.#service.counters.countDrop('send-failed')
    }
  }
}

const bytesOf = ({ incoming }: UdpShared, first: number, end: number): number => {
  let bytes = 0
  for (let slot = first; slot < end; slot += 1) bytes += incoming.length(slot)
  return bytes
}

/**
 * What the network may report of a datagram after it has left (icmp(7)): the next call on its
 * socket returns it.
 */
const isReportedLater = (result: number): boolean =>
  result === -errno.EMSGSIZE || result === -errno.ENOPROTOOPT || result === -errno.EPROTO

/** EACCES: where it is forbidden (a `prohibit` route; a firewall's answer over IPv6). */
const unreachable = new Set([
  'ECONNREFUSED',
  'EACCES',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EHOSTDOWN',
])

/** Whether an errno name, of a flow's socket, says that the flow has to move to another endpoint. */
const isUnreachable = (code: string): boolean => unreachable.has(code)

/**
 * EADDRINUSE, and EAGAIN of connect(2): every ephemeral port is taken, of which a flow needs
 * one. ENOSPC: epoll watches as much as it may (epoll_ctl(2)).
 */
const shortages = new Set(['EADDRINUSE', 'EAGAIN', 'ENOSPC'])

/** Whether it says that no socket can be had now, wherever the flow would go. */
const isShortage = (code: string): boolean =>
  shortages.has(code) || isOutOfResources(code)
