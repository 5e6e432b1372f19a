import type { GrowingBytes } from '../../../util/growing-bytes.ts'
import type { AddressPort } from '../../../util/ip.ts'
import type { Linked } from '../../../util/linked-set.ts'
import type { Cause } from '../../cause.ts'
import type { Dial } from '../../dial.ts'
import type { DialAttempt } from '../../attempts.ts'
import type { Counted } from '../../connection-limiter.ts'
import type { Choice } from '../../front.ts'
import type { Life } from '../../lifetimes.ts'
import type { EndpointPlaces } from '../../shared-places.ts'
import {
  AF_INET6,
  EPOLLERR,
  EPOLLET,
  EPOLLHUP,
  EPOLLIN,
  EPOLLOUT,
  EPOLLPRI,
  EPOLLRDHUP,
} from '../../../ffi/constants.ts'
import type { NativeMemory } from '../../../ffi/syscalls.ts'
import { readSockaddr } from '../sockaddr.ts'
import { sockaddrSize } from '../../../ffi/struct-layout.ts'
import { Timed } from '../timer-wheel.ts'
import type { WorkerBackend } from '../worker/worker-backend.ts'
import type { Pipe } from './pipe-pool.ts'
import type { TcpService } from './tcp-service.ts'

/** `moving`: to another process; nothing is done here until that has it, or does not want it. */
export type ConnectionState =
  'dialling' | 'open' | 'moving' | 'unserved' | 'delivering' | 'ended'

/** Events of a side, edge-triggered: nothing has to be switched on and off. */
export const quietEvents = EPOLLIN | EPOLLRDHUP | EPOLLPRI | EPOLLET
export const allEvents = quietEvents | EPOLLOUT

/** What is known of a side. */
export const flag = {
  /** There may be something to read: the kernel said so and no read has found the end. */
  readable: 1,
  /** The peer has sent a FIN, or worse: a short read does not mean that there is no more. */
  hungUp: 2,
  /** Its end was read. */
  ended: 4,
  /** Our FIN was sent to it. */
  finished: 8,
  /** A write failed: after the last bytes comes a reset. */
  broken: 16,
  /** EPOLLOUT is asked for. */
  watchesRoom: 32,
  /** It was written to once; before the second time Nagle's algorithm is switched off. */
  wroteOnce: 64,
  noDelay: 128,
  /** It is in the loop's list of those to be called again. */
  queued: 256,
  /** Reads stop at urgent data (tcp(7)): a short one says nothing. */
  urgent: 512,
  /** The peer has sent a FIN and nothing worse so far: when all is read, its end is too. */
  finSeen: 1024,
  /** There was no room to write; an event comes when there is. */
  full: 2048,
  /** An event has said that it was reset; before that there may have been a FIN. */
  reset: 4096,
  /** Of a client: it has ended its side before its endpoint has answered. */
  leftUnanswered: 8192,
} as const

/** The client's or the backend's socket of a connection, and the bytes that come by it. */
export class Side {
  readonly connection: Connection
  readonly isBackend: boolean
  /** -1: there is none (yet, or any more). */
  fd: number
  flags = 0
  /** Bytes read from it. */
  bytes = 0
  /** Read from it, and not yet taken by the opposite side. */
  held: Buffer | undefined = undefined
  /** All that was read from it, while that may have to be replayed to another endpoint. */
  replayBuffer: GrowingBytes | undefined = undefined
  /** What is in there was read from it. */
  pipe: Pipe | undefined = undefined
  piped = 0
  /** How many full, or in a pipe meagre, reads there were in a row. */
  streak = 0
  /** Of an endpoint: where it has taken a place, to be given back when its socket is closed. */
  places: EndpointPlaces | undefined = undefined

  constructor(connection: Connection, isBackend: boolean, fd: number) {
    this.connection = connection
    this.isBackend = isBackend
    this.fd = fd
  }

  get opposite(): Side {
    return this.isBackend ? this.connection.client : this.connection.backend
  }

  has(mask: number): boolean {
    return (this.flags & mask) !== 0
  }

  set(mask: number): void {
    this.flags |= mask
  }

  /** It is open already, and counts all the same. */
  takePlace(places: EndpointPlaces | undefined): void {
    if (places === undefined || places.id === this.places?.id) return
    this.freePlace()
    places.take(Infinity)
    this.places = places
  }

  /** Its socket is closed. */
  freePlace(): void {
    const { places } = this
    this.places = undefined
    places?.free()
  }

  unset(mask: number): void {
    this.flags &= ~mask
  }

  /** Whether something that was read from it waits to be written. */
  get holds(): boolean {
    return this.held !== undefined || this.piped > 0
  }

  /** Remembers what an event has said of it, until it is used. */
  note(events: number): void {
    if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) !== 0) {
      this.flags |= flag.readable
    }
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) !== 0) {
      this.flags |= flag.hungUp
      // With both FINs there is a hang-up; a reset is an error too.
      if ((events & EPOLLERR) === 0) this.flags |= flag.finSeen
      else this.flags = (this.flags | flag.reset) & ~flag.finSeen
    }
    if ((events & EPOLLPRI) !== 0) this.flags |= flag.urgent
  }
}

/** One dial attempt of a connection. */
export type SocketAttempt = DialAttempt<WorkerBackend, Connection>

/** One for all: their dials begin lists of their own. */
const noAttempts: SocketAttempt[] = []

/** What `IdleLimits` knows of a connection. */
export class Watched {
  /** At the last check. */
  bytes: number
  /** The last check at which it had moved some. */
  movedAt = -Infinity
  /** Bytes that the kernel had not delivered then. */
  unsent = 0
  /** From when the idle limit of its ServicePort counts. */
  since = 0
  /** Since when one of its ends is gone. */
  halfClosedAt: number | undefined = undefined
  /** It is to end as soon as nothing moves, as long as it is connected to this endpoint. */
  drainedFrom: WorkerBackend | undefined = undefined
  drainedAt = 0

  constructor(bytes: number) {
    this.bytes = bytes
  }
}

/** How a connection ended that did not end in order. */
export interface AbnormalEnd {
  readonly cause: Cause
  /** The errno or reason behind the cause. */
  readonly detail: string
}

/** One client's connection, from its accept to its record. */
export class Connection extends Timed implements Linked<Connection> {
  setNext: Connection | undefined = undefined
  setPrevious: Connection | undefined = undefined
  readonly service: TcpService
  readonly choice: Choice<WorkerBackend>
  readonly client: Side
  /** Another one for each endpoint. */
  backend: Side
  readonly acceptedAt: number
  /** Of this thread: 1, 2, ... */
  readonly serial: number
  state: ConnectionState = 'dialling'
  connectedAt = 0
  /** Its timer is for the endpoint's answer to what the client has sent. */
  awaitsAnswer = false
  /** Where it is connected to. */
  endpoint: WorkerBackend | undefined = undefined
  /** While `dialling`. */
  dial: Dial<WorkerBackend, Connection> | undefined = undefined
  /** Its endpoint is to be asked for TLS before anything else. */
  asksTls = false
  /** Where the client has dialled, if a proxy has said so. */
  dialled: AddressPort | undefined = undefined
  /** What each endpoint is sent first, where there is something. */
  header: Buffer | undefined = undefined
  /** With which its client came, 0 where that is not known; undefined: not looked for. */
  ttl: number | undefined = undefined
  /** Milliseconds that it has waited for an endpoint, and for a place at one. */
  heldMs = 0
  queuedMs = 0
  /** Those of its dials that are over, for the record. */
  attempts: SocketAttempt[] = noAttempts
  /** The open socket of an endpoint that has not served, held while others are dialled. */
  heldUpstream: Side | undefined = undefined
  heldEndpoint: WorkerBackend | undefined = undefined
  /** Where it counts, if its ServicePort has limits. */
  counted: Counted | undefined = undefined
  /** The first one counts, not what follows from it. */
  end: AbnormalEnd | undefined = undefined
  /** How long it may last. */
  life: Life<Connection> | undefined = undefined
  /** For `IdleLimits`, where it is watched. */
  watched: Watched | undefined = undefined
  /** While `delivering`: until when the other side may take to get what is left. */
  deliverUntil = 0
  /** How long it was waited for that last. */
  deliverCheckMs = 0
  /** Struct sockaddr of the client: the first two words are all of an IPv4 one. */
  readonly #peerStart: number
  readonly #peerAddress: number
  readonly #peerRest: Int32Array | undefined

  /** `peer`: memory with the client's address at its start. */
  constructor(
    service: TcpService,
    choice: Choice<WorkerBackend>,
    client: number,
    { words }: Pick<NativeMemory, 'words'>,
    now: number,
    serial: number,
  ) {
    super()
    this.serial = serial
    this.service = service
    this.choice = choice
    this.client = new Side(this, false, client)
    this.backend = new Side(this, true, -1)
    this.acceptedAt = now
    this.#peerStart = words[0] ?? 0
    this.#peerAddress = words[1] ?? 0
    const isIpv6 = (this.#peerStart & 0xffff) === AF_INET6
    this.#peerRest = isIpv6 ? words.slice(2, sockaddrSize / 4) : undefined
  }

  get isEnded(): boolean {
    return this.state === 'ended'
  }

  /** Who the client is. */
  get peer(): { readonly address: string; readonly port: number } {
    return readSockaddr({ view: new DataView(this.peerWords().buffer) }, 0)
  }

  /** The same as a struct sockaddr. */
  peerWords(): Int32Array<ArrayBuffer> {
    const words = new Int32Array(sockaddrSize / 4)
    words[0] = this.#peerStart
    words[1] = this.#peerAddress
    if (this.#peerRest !== undefined) words.set(this.#peerRest, 2)
    return words
  }

  /** What it has dialled is over, however it came out. */
  endDial(): void {
    this.attempts = this.dial?.attempts ?? this.attempts
    this.dial = undefined
  }

  blame(cause: Cause, detail: string): void {
    this.end ??= { cause, detail }
  }
}
