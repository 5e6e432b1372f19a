import type { Choice } from '../../front.ts'
import { Place } from '../../lru-list.ts'
import type { Bind, DropReason } from '../../relay.ts'
import { errno } from '../errno.ts'
import type { CounterWriter } from '../shared/listener-counters.ts'
import type { WorkerBackend } from '../worker/worker-backend.ts'
import { isUncut } from './datagram-batch.ts'
import type { LimitedFlow } from './flow-limits.ts'
import type { FlowTable, TableFlow } from './flow-table.ts'
import type { Keeper } from './kept-datagrams.ts'
import type { ReplySocket, ReplyTo } from './reply-queue.ts'
import type { UdpShared } from './udp-shared.ts'
import type { SocketUser } from './watched-sockets.ts'

/** The listening socket that its client writes to, and is answered from. */
export interface FlowSocket extends ReplySocket {
  readonly bind: Bind
  readonly flows: FlowTable<UdpFlow>
}

/** What a flow needs of its listener. */
export interface FlowOwner {
  readonly shared: UdpShared
  readonly counters: CounterWriter
  /** Goes up when endpoints or clients' rights change. */
  readonly version: number
  pick(flow: UdpFlow, tried: ReadonlySet<string>): WorkerBackend | undefined
  /** The flow now goes to `backend`. */
  chose(client: string, backend: WorkerBackend): void
  /** It refused, or could not be connected to. */
  failed(backend: WorkerBackend): void
  /** Moves or closes a flow that is older than `version`. */
  reconsider(flow: UdpFlow): void
  touched(flow: UdpFlow): void
  answered(flow: UdpFlow): void
  /** `givesWay`: its descriptor stays taken, for another flow. */
  closed(flow: UdpFlow, givesWay: boolean): void
  /** There was no descriptor or port for a flow. */
  starved(): void
  fault(error: unknown): void
}

const none: ReadonlySet<string> = new Set()
const mostInterrupts = 3

/**
 * The datagrams between one client address:port and one endpoint. Each flow has a
 * connected socket of its own: its port tells replies apart, and only a connected socket
 * hears of a refusal (ICMP port unreachable, udp(7)).
 */
export class UdpFlow implements LimitedFlow, TableFlow, ReplyTo, Keeper, SocketUser {
  /** Where it stands in the listener's and in the worker's order of ages. */
  readonly ownPlace: Place<UdpFlow> = new Place<UdpFlow>(this)
  readonly commonPlace: Place<LimitedFlow> = new Place<LimitedFlow>(this)
  answered = false
  touchedAt = 0
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
  readonly socket: FlowSocket
  /** What its client may choose from, as of `version`. */
  choice: Choice<WorkerBackend>
  version: number
  readonly #owner: FlowOwner
  #fd = -1
  #backend: WorkerBackend | undefined
  #refusedBy: Set<string> | undefined

  constructor(
    owner: FlowOwner,
    socket: FlowSocket,
    hash: number,
    { name, destination }: Pick<ReplyTo, 'name' | 'destination'>,
    client: string,
    choice: Choice<WorkerBackend>,
  ) {
    this.#owner = owner
    this.socket = socket
    this.hash = hash
    this.name = name
    this.nameLength = name.byteLength
    this.destination = destination
    this.client = client
    this.choice = choice
    this.version = owner.version
  }

  get backend(): WorkerBackend | undefined {
    return this.#backend
  }

  /** client->backend: slots `first` to `end` - 1 of what has been received. */
  send(first: number, end: number): void {
    const owner = this.#owner
    const { incoming, limits, kept } = owner.shared
    if (this.touchedAt !== limits.now) owner.touched(this)
    let at = first
    let limit = end
    let interrupts = 0
    let last = -1
    let stumbled = -1
    while (at < end) {
      const sent = this.#transmit(at, limit)
      if (sent > 0) {
        owner.counters.add('datagramsToBackend', sent)
        owner.counters.add('bytesToBackend', bytesOf(owner.shared, at, at + sent))
        // Why the others were left is told only to who tries with the first of them alone.
        limit = at + sent < limit ? at + sent + 1 : end
        at += sent
        last = at - 1
      } else if (sent === -errno.EINTR && interrupts < mostInterrupts) {
        interrupts += 1
      } else if (movesOn(sent)) {
        // A refusal is the one's before, which goes out again, unless a firewall of this host
        // has just refused this one. Without a way there nothing has left: the one before
        // may have come, and must not come twice.
        const isOfEarlier = sent === -errno.ECONNREFUSED && stumbled !== at
        const from = isOfEarlier && last >= 0 ? last : at
        if (!this.#refused(isOfEarlier && last < 0, end - from)) return
        at = from
        limit = end
        last = -1
      } else if (stumbled !== at && (isHeardOf(sent) || sent === -errno.EPERM)) {
        // An earlier one's fault stands in the way once; its own does so again.
        if (sent !== -errno.EPERM) owner.counters.countDrop('send-failed')
        stumbled = at
        limit = end
      } else {
        const isCounted = stumbled === at && sent !== -errno.EPERM
        if (!isCounted) owner.counters.countDrop('send-failed')
        at += 1
        limit = end
      }
    }
    if (last >= 0) kept.keep(this, incoming, last)
  }

  /** backend->client */
  ready(): void {
    const owner = this.#owner
    const { replies, limits } = owner.shared
    if (this.version !== owner.version) {
      const before = this.#fd
      owner.reconsider(this)
      // What an endpoint says that is not the flow's any more is not passed on.
      if (this.#fd !== before) return
    }
    const count = replies.receive(this.#fd, this.socket, this)
    if (count < 0) return this.#unreadable(count)
    if (!this.answered) owner.answered(this)
    else if (this.touchedAt !== limits.now) owner.touched(this)
    if (this.#refusedBy !== undefined) this.#refusedBy = undefined
  }

  failed(error: unknown): void {
    this.#owner.fault(error)
    this.close()
  }

  /**
   * Goes to an endpoint that did not refuse yet. Undefined when it does; else it is closed,
   * and why.
   */
  move(): DropReason | undefined {
    for (let retries = 0; ; retries += 1) {
      this.#disconnect()
      const tried = this.#refusedBy ?? none
      const backend = this.#owner.pick(this, tried)
      if (backend === undefined) {
        this.close()
        return tried.size > 0 ? 'refused' : 'no-endpoint'
      }
      if (retries > 0) this.#owner.counters.add('dialRetries', 1)
      this.#owner.chose(this.client, backend)
      const result = this.#connect(backend)
      if (result >= 0) return undefined
      if (isShortage(result)) {
        this.close()
        this.#owner.starved()
        return 'no-fd'
      }
      this.#blame(backend)
    }
  }

  close(): void {
    this.#end(false)
  }

  giveWay(): void {
    this.#end(true)
  }

  #end(givesWay: boolean): void {
    this.#disconnect()
    this.#owner.shared.kept.forget(this)
    this.#owner.closed(this, givesWay)
  }

  /** Sends some of the slots, the first at least: how many, or -errno. */
  #transmit(first: number, end: number): number {
    const { incoming } = this.#owner.shared
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
    const { sockets, watched } = this.#owner.shared
    backend.active += 1
    this.#backend = backend
    this.#owner.counters.add('dialAttempts', 1)
    const fd = sockets.open(backend)
    if (fd < 0) return fd
    this.#fd = fd
    this.#cuts = true
    return watched.add(fd, this)
  }

  #disconnect(): void {
    const { sockets, watched } = this.#owner.shared
    if (this.#backend !== undefined) this.#backend.active -= 1
    this.#backend = undefined
    if (this.#fd < 0) return
    watched.remove(this.#fd)
    sockets.close(this.#fd)
    this.#fd = -1
  }

  #blame(backend: WorkerBackend): void {
    this.#owner.failed(backend)
    this.#refusedBy ??= new Set()
    this.#refusedBy.add(backend.key)
  }

  /**
   * Moves on, and sends the last datagram again where `again` says so. False when there is
   * nowhere to go: then `unsent` datagrams are lost by it.
   */
  #refused(again: boolean, unsent: number): boolean {
    const { counters, shared } = this.#owner
    const resends = again && this.keptLength >= 0
    // It may close the flow, which forgets what was kept.
    const lost = unsent + (resends ? 1 : 0)
    if (again && !resends) counters.countDrop('refused')
    if (this.#backend !== undefined) this.#blame(this.#backend)
    const reason = this.move()
    if (reason !== undefined) {
      const told = reason === 'no-endpoint' ? 'refused' : reason
      for (let i = 0; i < lost; i += 1) counters.countDrop(told)
      return false
    }
    counters.add('dialRetries', 1)
    if (!resends) return true
    const sent = shared.kept.send(this.#fd, this)
    if (sent < 0) counters.countDrop('send-failed')
    else {
      counters.add('datagramsToBackend', 1)
      counters.add('bytesToBackend', sent)
    }
    return true
  }

  #unreadable(result: number): void {
    if (movesOn(result)) {
      this.#refused(true, 0)
    } else if (isShortage(result)) {
      if (result !== -errno.EAGAIN) this.#owner.shared.watched.rest(this.#fd)
    } else if (result !== -errno.EINTR) {
      // Any other error of a connected socket cost a datagram.
      this.#owner.counters.countDrop('send-failed')
    }
  }
}

const bytesOf = ({ incoming }: UdpShared, first: number, end: number): number => {
  let bytes = 0
  for (let slot = first; slot < end; slot += 1) bytes += incoming.length(slot)
  return bytes
}

/** EACCES: where it is forbidden (a `prohibit` route; a firewall's answer over IPv6). */
const movesOn = (result: number): boolean =>
  result === -errno.ECONNREFUSED ||
  result === -errno.EACCES ||
  result === -errno.EHOSTUNREACH ||
  result === -errno.ENETUNREACH ||
  result === -ehostdown

/** It is not among node's constants. */
const ehostdown = 112

/**
 * What the network may say of a datagram after it has left (icmp(7)): the next call on its
 * socket is told.
 */
const isHeardOf = (result: number): boolean =>
  result === -errno.EMSGSIZE || result === -errno.ENOPROTOOPT || result === -errno.EPROTO

/** EAGAIN: every ephemeral port is taken, of which a flow needs one (connect(2)). */
const isShortage = (result: number): boolean =>
  result === -errno.EAGAIN ||
  result === -errno.EADDRINUSE ||
  result === -errno.EMFILE ||
  result === -errno.ENFILE ||
  result === -errno.ENOSPC ||
  result === -errno.ENOBUFS ||
  result === -errno.ENOMEM
