import { isOutOfResources } from '../../../util/usher-error.ts'
import { isAmongAny } from '../../../util/address-ranges.ts'
import { joinHostPort } from '../../../util/ip.ts'
import { type Linked, LinkedSet } from '../../../util/linked-set.ts'
import type { Cause, ConnectionRecord } from '../../cause.ts'
import type { Bind } from '../../relay.ts'
import { clientKey } from '../../client-table.ts'
import type { BrokenLimit, Counted } from '../../connection-limiter.ts'
import type { Choice, Front } from '../../front.ts'
import { type Preface, mostPrefaceBytes, noRules, prefaceMs } from '../../preface.ts'
import {
  EPOLLIN,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  EPOLLERR,
  EPOLLHUP,
  EPOLLRDHUP,
  MSG_NOSIGNAL,
  MSG_PEEK,
} from '../../../ffi/constants.ts'
import { errno, errnoName } from '../../../ffi/errno.ts'
import { notWaited } from '../../access-log/access-entry.ts'
import type { EventSource } from '../event-loop.ts'
import { Linger } from '../linger.ts'
import type { NativeMemory } from '../../../ffi/syscalls.ts'
import { readAddressWords, readSockaddr, writeSockaddr } from '../sockaddr.ts'
import { sockaddrSize } from '../../../ffi/struct-layout.ts'
import { fdsPerConnection } from '../worker/fd-account.ts'
import type { WorkerBackend, WorkerEnv } from '../worker/worker-backend.ts'
import { SocketCalls } from './socket-calls.ts'
import type { TcpConnections } from './tcp-connections.ts'
import type { TcpService } from './tcp-service.ts'
import { quietEvents } from './connection.ts'

/** Of one listening socket, before others have their turn. */
const mostAtOnce = 64
/** The kernel has a limit of its own, which is lower but where it was raised (net.core.somaxconn). */
const mostQueued = 4096
/** A socket that could not be watched, for want of memory, is tried again. */
const watchAgainMs = 100

/** A listening socket of a ServicePort; `key` is the `bindKey` of its address. */
export class ListeningSocket {
  readonly service: TcpService
  readonly key: string
  readonly fd: number

  constructor(service: TcpService, key: string, fd: number) {
    this.service = service
    this.key = key
    this.fd = fd
  }
}

/** Accepts clients at all listening sockets of a worker, and says who may connect. */
export class Accepting implements EventSource<ListeningSocket> {
  readonly #env: WorkerEnv
  readonly #connections: TcpConnections
  readonly #sockets = new Set<ListeningSocket>()
  /** The address of the client that was accepted last. */
  readonly #peer: NativeMemory
  readonly #socketCalls: SocketCalls
  readonly #prefaces: Prefaces
  readonly #linger: Linger
  #isPaused = false

  constructor(env: WorkerEnv, connections: TcpConnections) {
    this.#env = env
    this.#connections = connections
    this.#peer = env.calls.allocate(sockaddrSize + 8)
    this.#socketCalls = new SocketCalls(env.calls)
    this.#linger = new Linger(env.calls)
    this.#prefaces = new Prefaces(env, {
      read: (client, preface) => this.#prefaced(client, preface),
      refused: (client, cause, detail) => {
        this.#peer.words.set(client.peer)
        this.#refuse(client, cause, detail)
      },
    })
    env.loop.addTimers(this.#prefaces)
  }

  open(service: TcpService, key: string, fd: number): ListeningSocket {
    const socket = new ListeningSocket(service, key, fd)
    this.#sockets.add(socket)
    this.#watch(socket)
    return socket
  }

  /** Stops watching it; its descriptor stays open. */
  release(socket: ListeningSocket): void {
    this.#sockets.delete(socket)
    this.#env.loop.remove(socket.fd)
  }

  /** Ends clients of a ServicePort that are not connections yet; how many they were. */
  killAll(service: TcpService): number {
    return this.#prefaces.killAll(service)
  }

  /** Clients wait in the kernel's queue, as at HAProxy's maxconn. */
  pause(paused: boolean): void {
    if (this.#isPaused === paused) return
    this.#isPaused = paused
    for (const { fd } of this.#sockets) this.#env.loop.modify(fd, this.#events)
  }

  ready(socket: ListeningSocket): void {
    for (let count = 0; count < mostAtOnce && !this.#isPaused; count += 1) {
      if (!this.#sockets.has(socket) || !this.#acceptOne(socket)) return
    }
  }

  /** All who have come so far, though others come meanwhile. */
  acceptQueued(): void {
    for (const socket of this.#sockets)
      for (let left = mostQueued; left > 0; left -= 1) {
        if (this.#isPaused || !this.#acceptOne(socket)) break
        this.#env.signs.beat()
      }
  }

  failed({ service }: ListeningSocket, error: unknown): void {
    this.#env.observer.fault(service.name, error)
  }

  #watch(socket: ListeningSocket): void {
    const { loop } = this.#env
    if (loop.add(socket.fd, this, socket, this.#events) >= 0) return
    loop.clock.setTimeout(() => {
      if (this.#sockets.has(socket)) this.#watch(socket)
    }, watchAgainMs)
  }

  /** Whether there may be more. */
  #acceptOne(socket: ListeningSocket): boolean {
    const { fds } = this.#env
    // Paid for first: a client that can't be served waits in the queue, instead of being reset.
    if (!fds.take(fdsPerConnection)) return false
    let fd = -1
    try {
      fd = this.#accept(socket)
      if (fd >= 0) this.#accepted(socket, fd)
    } catch (error) {
      if (fd >= 0) fds.close(fd)
      fds.release(fdsPerConnection)
      this.failed(socket, error)
      return true
    }
    if (fd >= 0) return true
    fds.release(fdsPerConnection)
    if (passing.has(fd)) return true
    this.#refused(socket, fd)
    return false
  }

  #accept({ fd: listening }: ListeningSocket): number {
    const { calls, fds } = this.#env
    const { address, words } = this.#peer
    words[sockaddrWords] = sockaddrSize
    const fd = calls.accept(
      listening,
      address,
      address + sockaddrSize,
      SOCK_NONBLOCK | SOCK_CLOEXEC,
    )
    if (fd >= 0) fds.opened(fd)
    return fd
  }

  #accepted({ service, key }: ListeningSocket, fd: number): void {
    const { preface, probers } = service
    if (probers !== undefined && isAmongAny(probers, readAddressWords(this.#peer, 0))) {
      this.#linger.finish(fd)
      return this.#connections.turnAway(fd)
    }
    service.counters.add('accepted', 1)
    // Who it is has yet to be said.
    if (preface?.expectsHeader(readAddressWords(this.#peer, 0)) === true)
      return this.#listen(service, key, fd, true)
    const front = service.fronts.at(key)
    if (front === undefined || !this.#letsIn(front)) return this.#turnAway(service, fd)
    if (preface?.readsHello === true) return this.#awaitPreface(service, key, fd)
    const choice = this.#choiceOf(front, fd)
    if (choice === undefined) this.#turnAway(service, fd)
    else this.#begin(service, choice, fd)
  }

  #letsIn(front: Front<WorkerBackend>): boolean {
    return !front.isSelective || front.letsIn(readAddressWords(this.#peer, 0))
  }

  /** Unless a limit is reached. */
  #begin(service: TcpService, choice: Choice<WorkerBackend>, fd: number): void {
    const counted = this.#count(service)
    if (typeof counted === 'string') this.#turnAway(service, fd, 'PL', counted)
    else this.#connections.begin(service, choice, fd, this.#peer, counted)
  }

  /** Counts a client in limits, if there are any; a text is the one that is reached. */
  #count({ limiter }: TcpService): Counted | BrokenLimit | undefined {
    if (limiter === undefined) return undefined
    const client = clientKey(readAddressWords(this.#peer, 0))
    return limiter.take(client, this.#env.loop.now) ?? { limiter, client }
  }

  /** A client that has to say which server it is for. It counts: it may take its time. */
  #awaitPreface(service: TcpService, key: string, fd: number): void {
    const counted = this.#count(service)
    if (typeof counted === 'string') this.#turnAway(service, fd, 'PL', counted)
    else this.#listen(service, key, fd, false, counted)
  }

  /** Something is to be read of a client before an endpoint is chosen for it. */
  #listen(
    service: TcpService,
    key: string,
    fd: number,
    hasHeader: boolean,
    counted?: Counted,
  ): void {
    const { now } = this.#env.loop
    const client = new PrefaceClient(service, key, fd, hasHeader, this.#peer, now)
    client.counted = counted
    this.#prefaces.begin(client)
  }

  /** `Prefaces` has read what it says: by that it may come in now, or not. */
  #prefaced(client: PrefaceClient, preface: Preface): string {
    const { service, key, fd, acceptedAt, events } = client
    const { addresses } = preface
    if (addresses === undefined) this.#peer.words.set(client.peer)
    else writeSockaddr(this.#peer, 0, addresses.source.address, addresses.source.port)
    if (preface.refusal !== '') return this.#refuse(client, 'PN', preface.refusal)
    const front = service.fronts.at(key)
    const isLetIn = front !== undefined && this.#letsIn(front)
    const choice = isLetIn ? this.#choiceAfter(front, fd, preface) : undefined
    if (choice === undefined) return this.#refuse(client, 'PR')
    const counted = client.counted ?? this.#count(service)
    if (typeof counted === 'string') return this.#refuse(client, 'PL', counted)
    const { asksTls } = preface
    const before = { acceptedAt, events, dialled: addresses?.destination, asksTls }
    this.#connections.begin(service, choice, fd, this.#peer, counted, before)
    return ''
  }

  /** Of a client of `Prefaces`; its address is at `#peer`. Returns why. */
  #refuse(client: PrefaceClient, cause: Cause, detail = ''): string {
    const { service, fd, acceptedAt, counted } = client
    counted?.limiter.ended(counted.client, this.#env.loop.now)
    this.#turnAway(service, fd, cause, detail || undefined, acceptedAt)
    return detail
  }

  #choiceAfter(
    front: Front<WorkerBackend>,
    fd: number,
    { addresses, pool }: Preface,
  ): Choice<WorkerBackend> | undefined {
    if (pool !== undefined) return front.choiceOfPool(pool)
    return addresses === undefined
      ? this.#choiceOf(front, fd)
      : front.choiceOf(addresses.source.address)
  }

  #choiceOf(front: Front<WorkerBackend>, fd: number): Choice<WorkerBackend> | undefined {
    // Two texts and a system call, which most connections are spared.
    if (!front.asksForNode) return front.choiceOf('')
    const { address } = readSockaddr(this.#peer, 0)
    return front.choiceOf(address, this.#socketCalls.localAddress(fd))
  }

  /** At once: a client that may not connect costs neither a dial nor a place in the budget. */
  #turnAway(
    service: TcpService,
    fd: number,
    cause: Cause = 'PR',
    detail = notLetIn,
    acceptedAt = this.#env.loop.now,
  ): void {
    service.counters.countFailure(cause)
    this.#connections.turnAway(fd)
    const totalMs = this.#env.loop.now - acceptedAt
    const client = (): Bind => readSockaddr(this.#peer, 0)
    service.report(
      cause,
      () => client().address,
      () => turnedAway(service.name, client(), cause, detail, totalMs),
      notWaited,
      () => ({ all: this.#connections.count, route: service.connections, endpoint: 0 }),
    )
  }

  #refused(socket: ListeningSocket, result: number): void {
    if (result === -errno.EAGAIN) return
    // The main thread has shut it, and is about to say so.
    if (result === -errno.EINVAL) return void this.#env.loop.remove(socket.fd)
    const code = errnoName(result)
    // Waiting helps: see FdAccount.
    if (isOutOfResources(code)) this.#env.fds.exhaust()
    else this.failed(socket, new Error(`accept4: ${code}`))
  }

  get #events(): number {
    return this.#isPaused ? 0 : EPOLLIN
  }
}

const notLetIn = 'list of clients, source range or traffic policy'

/** The record of a client that was accepted and not dialled for. */
const turnedAway = (
  listener: string,
  { address, port }: Bind,
  cause: Cause,
  detail: string,
  totalMs: number,
): ConnectionRecord => ({
  listener,
  client: joinHostPort(address, port),
  endpoint: '',
  attempts: [],
  bytesToBackend: 0,
  bytesToClient: 0,
  dialMs: 0,
  totalMs,
  cause,
  detail,
})

const sockaddrWords = sockaddrSize / 4

/**
 * The client was gone before it was accepted, or a signal came. Linux also passes on here
 * what the network said of the new connection (accept(2), "Error handling").
 */
const passing = new Set([
  -errno.ECONNABORTED,
  -errno.EINTR,
  -errno.ENETDOWN,
  -errno.EPROTO,
  -errno.ENOPROTOOPT,
  -errno.EHOSTUNREACH,
  -errno.EOPNOTSUPP,
  -errno.ENETUNREACH,
])

/** A client that has to say something before an endpoint is chosen for it. */
class PrefaceClient implements Linked<PrefaceClient> {
  setNext: PrefaceClient | undefined = undefined
  setPrevious: PrefaceClient | undefined = undefined
  readonly service: TcpService
  /** `bindKey` of the address that it has come to. */
  readonly key: string
  readonly fd: number
  /** It begins with a header of the PROXY protocol. */
  readonly hasHeader: boolean
  readonly acceptedAt: number
  /** Struct sockaddr of its socket's other end. */
  readonly peer: Int32Array
  /** All that was told of it. */
  events = 0
  hasSent = false
  /** How many of its requests were answered. */
  answered = 0
  /** Where it counts already, as it is known who it is. */
  counted: Counted | undefined = undefined

  constructor(
    service: TcpService,
    key: string,
    fd: number,
    hasHeader: boolean,
    { words }: Pick<NativeMemory, 'words'>,
    now: number,
  ) {
    this.service = service
    this.key = key
    this.fd = fd
    this.hasHeader = hasHeader
    this.peer = words.slice(0, sockaddrSize / 4)
    this.acceptedAt = now
  }
}

/** What becomes of them. */
interface PrefaceEnds {
  /**
   * All of it is there; the header, if any, is read, and the rest is not. Returns why the client
   * is not served, '' when it is or may not be.
   */
  read(client: PrefaceClient, preface: Preface): string
  refused(client: PrefaceClient, cause: Cause, detail: string): void
}

/**
 * Reads what clients say first, where listeners ask for it. The kernel keeps it: it is looked at
 * (MSG_PEEK) until it is whole, and what is for the endpoint goes the usual way.
 */
class Prefaces implements EventSource<PrefaceClient> {
  readonly #env: WorkerEnv
  readonly #ends: PrefaceEnds
  /** The oldest first. */
  readonly #all = new LinkedSet<PrefaceClient>()
  #buffer: NativeMemory | undefined

  constructor(env: WorkerEnv, ends: PrefaceEnds) {
    this.#env = env
    this.#ends = ends
  }

  begin(client: PrefaceClient): void {
    const { loop } = this.#env
    this.#all.add(client)
    client.service.begun()
    if (loop.add(client.fd, this, client, quietEvents) < 0)
      this.#refuse(client, 'RC', 'epoll_ctl')
  }

  ready(client: PrefaceClient, events: number): void {
    if (!this.#all.has(client)) return
    client.events |= events
    const bytes = this.#peek(client)
    if (bytes === undefined) return
    client.hasSent ||= bytes.length > 0
    // By what holds now, as the choice that follows is.
    const rules = client.service.preface ?? noRules
    const found = rules.read(bytes, client.hasHeader, answers => {
      while (client.answered < answers.length) this.#answer(client, answers)
    })
    if (typeof found === 'string') this.#refuse(client, 'PH', found)
    else if (found !== undefined) this.#take(client, found)
    else if ((client.events & hangUp) !== 0) this.#left(client, 'closed')
  }

  failed(client: PrefaceClient, error: unknown): void {
    this.#env.observer.fault(client.service.name, error)
    if (this.#all.has(client)) this.#refuse(client, 'KD', 'internal fault')
  }

  /** Ends those of a ServicePort; how many they were. */
  killAll(service: TcpService): number {
    const mine = [...this.#all].filter(client => client.service === service)
    for (const client of mine) this.#refuse(client, 'KD', 'drain time over')
    return mine.length
  }

  /** As a timer of the loop: until the oldest has had its time. */
  wait(now: number): number {
    const { first } = this.#all
    return first === undefined
      ? Infinity
      : Math.max(0, first.acceptedAt + prefaceMs - now)
  }

  run(now: number): void {
    for (const client of this.#all) {
      if (client.acceptedAt + prefaceMs > now) return
      this.#refuse(client, 'PH', `incomplete after ${prefaceMs / 1000} s`)
    }
  }

  /** One byte; when it can't be sent the client is gone, and an event follows. */
  #answer(client: PrefaceClient, answers: string): void {
    const { bytes, address } = this.#memory
    bytes.write(answers.charAt(client.answered), mostPrefaceBytes, 'latin1')
    client.answered += 1
    this.#env.calls.send(client.fd, address + mostPrefaceBytes, 1, MSG_NOSIGNAL)
  }

  /** For what has come, and an answer of one byte. */
  get #memory(): NativeMemory {
    return (this.#buffer ??= this.#env.calls.allocate(mostPrefaceBytes + 1))
  }

  /** What has come so far; undefined: it is not known now, or the client is gone. */
  #peek(client: PrefaceClient): Buffer | undefined {
    const { address, bytes } = this.#memory
    const count = this.#env.calls.recv(client.fd, address, mostPrefaceBytes, MSG_PEEK)
    if (count >= 0) return bytes.subarray(0, count)
    if (count === -errno.EINTR) this.#env.loop.again(this, client)
    else if (count !== -errno.EAGAIN) this.#left(client, errnoName(count))
    else if ((client.events & (EPOLLERR | EPOLLHUP)) !== 0)
      this.#left(client, 'ECONNRESET')
    return undefined
  }

  #take(client: PrefaceClient, preface: Preface): void {
    const { headerBytes } = preface
    if (headerBytes > 0) {
      const gone = this.#env.calls.recv(client.fd, this.#memory.address, headerBytes, 0)
      if (gone !== headerBytes) return this.#left(client, 'closed')
    }
    // Should it throw the client is still here, and `failed` ends it.
    const failure = this.#ends.read(client, preface)
    this.#all.delete(client)
    client.service.ended(failure)
  }

  /** Who has said nothing has only looked whether somebody listens. */
  #left(client: PrefaceClient, detail: string): void {
    this.#refuse(client, client.hasSent ? 'PH' : 'CC', detail)
  }

  #refuse(client: PrefaceClient, cause: Cause, detail: string): void {
    this.#all.delete(client)
    try {
      this.#ends.refused(client, cause, detail)
    } finally {
      client.service.ended(cause === 'CC' ? '' : detail)
    }
  }
}

const hangUp = EPOLLERR | EPOLLHUP | EPOLLRDHUP
