import { createSocket, type Socket, type SocketOptions } from 'node:dgram'
import { errorCode } from '../../util/usher-error.ts'
import type { Counters, DropReason } from '../counters.ts'
import type { Choice, Backend } from '../front.ts'
import { isShortage, isUnreachable } from '../flow-errors.ts'
import type { LimitedFlow } from '../flow-limits.ts'
import { Place } from '../flow-ages.ts'

/**
 * The lookup of sockets that are only ever given addresses, never names. node:dgram looks
 * up the address of each datagram it sends; its default takes a turn of the event loop
 * even for a literal.
 */
export const literalLookup: NonNullable<SocketOptions['lookup']> = (
  address,
  options,
  callback,
) => {
  const family = typeof options === 'object' && options.family === 6 ? 6 : 4
  callback(null, address, family)
}

/** What a flow needs of its listener. */
export interface FlowOwner {
  readonly counters: Counters
  pick(flow: UdpFlow, tried: ReadonlySet<string>): Backend | undefined
  /** The flow now goes to `backend`. */
  chose(client: string, backend: Backend): void
  /** It refused, or could not be connected to. */
  failed(backend: Backend): void
  /** Each that its client may get has refused. */
  allFailed(): void
  touched(flow: UdpFlow): void
  answered(flow: UdpFlow): void
  closed(flow: UdpFlow): void
  /** `backend` has sent its first reply to a flow. */
  replied(backend: Backend, client: string): void
  /** It has sent none to what the client wrote last, at `sentAt`, and the flow has ended of that. */
  notReplied(backend: Backend, client: string, sentAt: number): void
  /** There was no descriptor or port for a flow. */
  starved(): void
}

/** Datagrams that may wait for a socket to be connected, which takes a turn of the loop. */
const mostWaiting = 16

/**
 * The datagrams between one client address:port and one endpoint. Each flow has a
 * connected socket of its own: its port tells replies apart, and only a connected socket
 * gets a refusal (ICMP port unreachable, udp(7)).
 */
export class UdpFlow implements LimitedFlow<UdpFlow> {
  readonly ownPlace: Place<UdpFlow> = new Place<UdpFlow>(this)
  readonly commonPlace: Place<UdpFlow> = new Place<UdpFlow>(this)
  answered = false
  touchedAt = 0
  readonly key: string
  readonly client: string
  /** What its client may choose from. */
  choice: Choice
  readonly #owner: FlowOwner
  readonly #clientPort: number
  /** The listening socket: replies leave from the address that the client wrote to. */
  readonly #front: Socket
  #socket: Socket | undefined
  #connected = false
  #backend: Backend | undefined
  /** Of its endpoint: whether anything has been sent there, and has come from there. */
  #hasRequest = false
  #hasReply = false
  #waiting: Buffer[] = []
  /** Kept to go out once more if the endpoint refuses it. */
  #last: Buffer | undefined
  #refusedBy = new Set<string>()

  constructor(
    owner: FlowOwner,
    key: string,
    front: Socket,
    client: string,
    clientPort: number,
    choice: Choice,
  ) {
    this.#owner = owner
    this.key = key
    this.#front = front
    this.client = client
    this.choice = choice
    this.#clientPort = clientPort
  }

  get backend(): Backend | undefined {
    return this.#backend
  }

  get front(): Socket {
    return this.#front
  }

  /** client->backend */
  send(datagram: Buffer): void {
    this.#last = datagram
    this.#owner.touched(this)
    if (this.#connected) this.#write(datagram)
    else if (this.#waiting.length < mostWaiting) this.#waiting.push(datagram)
    else this.#owner.counters.countDrop('send-failed')
  }

  /** Goes to `first`, or an endpoint that did not refuse yet; when it can't, it is closed, and why. */
  move(first?: Backend): 'moved' | DropReason {
    this.#disconnect()
    const backend = first ?? this.#owner.pick(this, this.#refusedBy)
    if (backend === undefined) {
      this.close()
      if (this.#refusedBy.size === 0) return 'no-endpoint'
      this.#owner.allFailed()
      return 'refused'
    }
    this.#owner.chose(this.client, backend)
    this.#connect(backend)
    return 'moved'
  }

  close(): void {
    this.#disconnect()
    this.#owner.closed(this)
  }

  unanswered(): void {
    const backend = this.#backend
    if (backend && this.#hasRequest)
      this.#owner.notReplied(backend, this.client, this.touchedAt)
    this.close()
  }

  #connect(backend: Backend): void {
    const type = backend.address.includes(':') ? 'udp6' : 'udp4'
    const socket = createSocket({ type, lookup: literalLookup })
    this.#socket = socket
    this.#backend = backend
    this.#hasRequest = false
    this.#hasReply = false
    backend.active += 1
    this.#owner.counters.add('dialAttempts', 1)
    socket.on('message', message => this.#reply(socket, message))
    // Later, because a bind fails before it returns: then nothing would be waiting yet.
    socket.on('error', error => process.nextTick(() => this.#failed(socket, error)))
    socket.on('connect', () => this.#ready(socket))
    // Bound by hand: where the bind inside of `connect` fails, `close` has no effect.
    socket.once('listening', () => socket.connect(backend.port, backend.address))
    socket.bind({ port: 0, exclusive: true })
  }

  #ready(socket: Socket): void {
    if (socket !== this.#socket) return
    this.#connected = true
    const waiting = this.#waiting
    this.#waiting = []
    for (const datagram of waiting) this.#write(datagram)
  }

  #write(datagram: Buffer): void {
    const socket = this.#socket
    const { counters } = this.#owner
    socket?.send(datagram, error => {
      if (error !== null) return this.#unsent(socket, datagram, error)
      if (socket === this.#socket) this.#hasRequest = true
      counters.add('datagramsToBackend', 1)
      counters.add('bytesToBackend', datagram.length)
    })
  }

  /** backend->client */
  #reply(socket: Socket, message: Buffer): void {
    if (socket !== this.#socket) return
    const { counters } = this.#owner
    if (!this.answered) this.#owner.answered(this)
    else this.#owner.touched(this)
    if (!this.#hasReply) this.#firstReply()
    if (this.#refusedBy.size > 0) this.#refusedBy.clear()
    this.#front.send(message, this.#clientPort, this.client, error => {
      if (error !== null) return counters.countDrop('send-failed')
      counters.add('datagramsToClient', 1)
      counters.add('bytesToClient', message.length)
    })
  }

  #firstReply(): void {
    this.#hasReply = true
    if (this.#backend !== undefined) this.#owner.replied(this.#backend, this.client)
  }

  #unsent(socket: Socket, datagram: Buffer, error: NodeJS.ErrnoException): void {
    const moves = socket === this.#socket && isUnreachable(errorCode(error))
    // What goes out once more is the last one, which need not be this one.
    if (!moves || datagram !== this.#last) this.#owner.counters.countDrop('send-failed')
    if (moves) this.#failed(socket, error)
  }

  /**
   * A refusal, or no way to connect, moves the flow and sends the last datagram again.
   * Any other error of a connected socket cost a datagram.
   */
  #failed(socket: Socket, error: NodeJS.ErrnoException): void {
    const backend = this.#backend
    if (socket !== this.#socket || backend === undefined) return
    const { counters } = this.#owner
    const code = errorCode(error)
    if (this.#connected && !isUnreachable(code)) return counters.countDrop('send-failed')
    if (isShortage(code)) {
      this.close()
      this.#dropWaiting('no-fd')
      return this.#owner.starved()
    }
    this.#owner.failed(backend)
    this.#refusedBy.add(backend.key)
    if (this.#connected && this.#last !== undefined) this.#waiting.push(this.#last)
    const result = this.move()
    if (result !== 'moved') return this.#dropWaiting(result)
    counters.add('dialRetries', 1)
  }

  #dropWaiting(reason: DropReason): void {
    for (; this.#waiting.length > 0; this.#waiting.pop()) {
      this.#owner.counters.countDrop(reason)
    }
  }

  #disconnect(): void {
    if (this.#backend !== undefined) this.#backend.active -= 1
    this.#backend = undefined
    this.#connected = false
    this.#socket?.close()
    this.#socket = undefined
  }
}
