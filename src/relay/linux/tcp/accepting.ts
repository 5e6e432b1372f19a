import { isOutOfResources } from '../../../util/error-code.ts'
import { joinHostPort } from '../../../util/ip.ts'
import { type Choice, turnedAway } from '../../front.ts'
import { EPOLLIN, SOCK_CLOEXEC, SOCK_NONBLOCK } from '../constants.ts'
import { errno, errnoName } from '../errno.ts'
import type { EventSource } from '../event-loop.ts'
import type { NativeMemory } from '../native-memory.ts'
import { readSockaddr } from '../sockaddr.ts'
import { sockaddrSize } from '../struct-layout.ts'
import { fdsPerConnection } from '../worker/fd-account.ts'
import type { WorkerBackend } from '../worker/worker-backend.ts'
import type { WorkerEnv } from '../worker/worker-env.ts'
import { SocketCalls } from './socket-calls.ts'
import type { TcpConnections } from './tcp-connections.ts'
import type { TcpService } from './tcp-service.ts'

/** Of one listening socket, before others have their turn. */
const mostAtOnce = 64
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
  #isPaused = false

  constructor(env: WorkerEnv, connections: TcpConnections) {
    this.#env = env
    this.#connections = connections
    this.#peer = env.calls.allocate(sockaddrSize + 8)
    this.#socketCalls = new SocketCalls(env.calls)
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
    service.counters.add('accepted', 1)
    const front = service.fronts.at(key)
    if (front === undefined) return this.#turnAway(service, fd, '')
    if (!front.asksForClient) return this.#begin(service, fd, front.admit(''), '')
    const { address, port } = readSockaddr(this.#peer, 0)
    const choice = front.admit(address, this.#socketCalls.localAddress(fd))
    this.#begin(service, fd, choice, joinHostPort(address, port))
  }

  #begin(
    service: TcpService,
    fd: number,
    choice: Choice<WorkerBackend> | undefined,
    client: string,
  ): void {
    if (choice === undefined) this.#turnAway(service, fd, client)
    else this.#connections.begin(service, choice, fd, this.#peer)
  }

  /** At once: a client that may not connect costs neither a dial nor a place in the budget. */
  #turnAway({ name, counters }: TcpService, fd: number, client: string): void {
    const { observer } = this.#env
    counters.countFailure('PR')
    this.#connections.turnAway(fd)
    if (!observer.wants('PR')) return
    observer.connectionClosed(turnedAway(name, client, 'PR'))
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
