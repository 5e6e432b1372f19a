import { mostHeaderBytes } from '../../../util/proxy-header.ts'
import { isUnix } from '../../../util/unix-address.ts'
import { Dial } from '../../dial.ts'
import type { Dialler } from '../../attempts.ts'
import { noTls, sslRequest, takesTls } from '../../postgres.ts'
import type { RelayLimits } from '../../relay.ts'
import type { GiveUpCause } from '../../retry-plan.ts'
import {
  EPOLLERR,
  EPOLLHUP,
  EPOLLOUT,
  MSG_NOSIGNAL,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_STREAM,
} from '../../../ffi/constants.ts'
import { errno, errnoName } from '../../../ffi/errno.ts'
import type { EventSource } from '../event-loop.ts'
import { isCounted, ttlOnward } from '../rings.ts'
import { Linger } from '../linger.ts'
import type { NativeMemory } from '../../../ffi/syscalls.ts'
import { mostSockaddrBytes } from '../../../ffi/struct-layout.ts'
import type { TimerWheel } from '../timer-wheel.ts'
import type { FdAccount } from '../worker/fd-account.ts'
import type { WorkerBackend, WorkerEnv } from '../worker/worker-backend.ts'
import {
  allEvents,
  flag,
  type SocketAttempt,
  type Connection,
  type Side,
} from './connection.ts'
import type { Copying } from './copying.ts'
import type { EarlyCloses } from './early-closes.ts'
import type { Ending } from './ending.ts'
import type { SocketCalls } from './socket-calls.ts'

/** A unix socket whose queue is full is tried again so often. */
const fullQueueMs = 20

/** Dials for accepted connections: what `Dial` asks for, by system calls and events. */
export class Dialling
  implements EventSource<SocketAttempt>, Dialler<WorkerBackend, Connection>
{
  readonly limits: RelayLimits
  readonly random: () => number
  readonly fds: FdAccount
  readonly #env: WorkerEnv
  readonly #timers: TimerWheel<Connection>
  readonly #sides: EventSource<Side>
  readonly #sockets: SocketCalls
  readonly #copying: Copying
  readonly #ending: Ending
  readonly #earlyCloses: EarlyCloses
  readonly #address: NativeMemory
  readonly #linger: Linger
  /** What is said to an endpoint that is asked for TLS. */
  readonly #request: NativeMemory

  /** `sides` handles the events of connections that stand. */
  constructor(
    env: WorkerEnv,
    timers: TimerWheel<Connection>,
    sides: EventSource<Side>,
    sockets: SocketCalls,
    copying: Copying,
    ending: Ending,
    earlyCloses: EarlyCloses,
  ) {
    this.#env = env
    this.limits = env.limits
    this.random = env.random
    this.fds = env.fds
    this.#timers = timers
    this.#sides = sides
    this.#sockets = sockets
    this.#copying = copying
    this.#ending = ending
    this.#earlyCloses = earlyCloses
    this.#address = env.calls.allocate(mostSockaddrBytes)
    this.#linger = new Linger(env.calls)
    this.#request = env.calls.allocate(mostHeaderBytes + sslRequest.length)
  }

  start(connection: Connection): void {
    const { service, choice, attempts } = connection
    connection.state = 'dialling'
    const dial = new Dial(this, connection, service, choice, attempts)
    connection.dial = dial
    const pauseMs = service.brake?.pauseMs ?? 0
    if (pauseMs === 0) dial.start()
    else this.#startLater(connection, pauseMs, () => this.#startBraked(connection))
  }

  /** After a pause; one more where the client has ended its side. */
  #startBraked(connection: Connection): void {
    const { service, client, dial } = connection
    const { halfCloseTimeout } = this.#env.limits
    const halfCloseMs = service.ages?.idleMs ?? halfCloseTimeout
    const pauseMs = service.brake?.pauseOfEndedMs(halfCloseMs) ?? 0
    const start = (): void =>
      this.hasLeft(connection) ? dial?.clientLeft() : dial?.start()
    if (pauseMs === 0 || !client.has(flag.hungUp)) return start()
    this.#startLater(connection, pauseMs, start)
  }

  #startLater(connection: Connection, ms: number, start: () => void): void {
    const { dial } = connection
    this.#env.loop.clock.setTimeout(() => {
      // Else it is over.
      if (connection.dial !== dial) return
      try {
        start()
      } catch (error) {
        this.#ending.failed(connection, error)
      }
    }, ms)
  }

  now(): number {
    return this.#env.loop.now
  }

  clientOf(connection: Connection): string {
    return connection.service.balancer.usesClient ? connection.peer.address : ''
  }

  acceptedAt({ acceptedAt }: Connection): number {
    return acceptedAt
  }

  waited(connection: Connection, what: 'heldMs' | 'queuedMs', since: number): void {
    connection[what] += this.now() - since
  }

  setTimer(connection: Connection, ms: number): void {
    this.#timers.set(connection, ms, this.now())
  }

  clearTimer(connection: Connection): void {
    this.#timers.clear(connection)
  }

  connect(attempt: SocketAttempt): void {
    const result = this.#connect(attempt)
    if (result >= 0) return
    // Of thousands of endpoints without a route each fails at once: others have turns between.
    attempt.socket = result
    this.#env.loop.again(this, attempt)
  }

  close(fd: number): void {
    if (fd >= 0) this.fds.close(fd)
  }

  ready(attempt: SocketAttempt, events: number): void {
    const { dial, socket } = attempt
    if (dial === undefined || socket === undefined) return
    if (socket < 0) return dial.lost(attempt, errnoName(socket))
    if (!attempt.hasAskedTls && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) === 0) return
    const error = this.#outcome(attempt, socket, events)
    if (error !== 0) {
      this.fds.close(socket)
      if (isQueueFull(attempt, error)) return this.#connectLater(attempt)
      return dial.lost(attempt, errnoName(error))
    }
    if (attempt.connection.asksTls && !this.#takesTls(attempt, dial, socket)) return
    dial.won(attempt)
    this.#connected(attempt, socket, events)
  }

  failed({ connection }: SocketAttempt, error: unknown): void {
    this.#ending.failed(connection, error)
  }

  hasLeft({ client }: Connection): boolean {
    // What it holds was said to another endpoint before.
    if (!client.has(flag.hungUp) || client.holds) return false
    return !this.#sockets.hasUnread(client.fd)
  }

  gaveUp(connection: Connection, cause: GiveUpCause, detail: string): void {
    this.#ending.gaveUp(connection, cause, detail)
  }

  /**
   * The client has been told that there is TLS: that is asked of the endpoint before it is told anything.
   * False while there is no answer, and when it is no.
   */
  #takesTls(
    attempt: SocketAttempt,
    dial: NonNullable<SocketAttempt['dial']>,
    fd: number,
  ): boolean {
    const { calls } = this.#env
    const { address, bytes } = this.#request
    if (!attempt.hasAskedTls) {
      attempt.hasAskedTls = true
      const header = this.#sockets.headerOf(attempt.connection)
      const length = header?.copy(bytes) ?? 0
      // Where it fails there is no answer either.
      calls.send(fd, address, length + sslRequest.copy(bytes, length), MSG_NOSIGNAL)
    }
    const count = calls.recv(fd, address, 1, 0)
    if (count === -errno.EAGAIN) return false
    const answer = count > 0 ? bytes.toString('latin1', 0, 1) : ''
    if (answer === takesTls) return true
    this.fds.close(fd)
    dial.lost(attempt, noTls(answer))
    return false
  }

  #connected(attempt: SocketAttempt, fd: number, events: number): void {
    const { connection, backend, places } = attempt
    const { loop } = this.#env
    connection.endDial()
    this.#earlyCloses.dropHeld(connection)
    connection.backend.fd = fd
    connection.backend.places = places
    // Its dial began before they were counted.
    if (places === undefined) connection.backend.takePlace(backend.places)
    loop.pass(fd, this.#sides, connection.backend)
    connection.connectedAt = loop.now
    connection.endpoint = backend
    backend.active += 1
    this.#copying.begin(connection, events)
  }

  /** Starts the attempt; 0, or a negative errno. */
  #connect(attempt: SocketAttempt): number {
    const { calls, loop, fds } = this.#env
    const { backend } = attempt
    const sockaddr = backend.sockaddr(this.#address)
    const family = sockaddr[0] ?? 0
    const fd = calls.socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
    if (fd < 0) return fd
    fds.opened(fd)
    const { ttl, serial } = attempt.connection
    if (ttl !== undefined && isCounted(ttl, serial))
      this.#sockets.setTtl(fd, ttlOnward(ttl))
    this.#address.bytes.set(sockaddr)
    let result = this.#linger.reset(fd)
    if (result === 0) result = calls.connect(fd, this.#address.address, sockaddr.length)
    if (isQueueFull(attempt, result)) {
      fds.close(fd)
      this.#connectLater(attempt)
      return 0
    }
    if (result === 0 || result === -errno.EINPROGRESS || result === -errno.EINTR) {
      result = loop.add(fd, this, attempt, allEvents)
    }
    if (result === 0) attempt.socket = fd
    else fds.close(fd)
    return result
  }

  #connectLater(attempt: SocketAttempt): void {
    attempt.socket = undefined
    this.#env.loop.clock.setTimeout(() => {
      if (attempt.dial !== undefined) this.connect(attempt)
    }, fullQueueMs)
  }

  /** 0, or the negative errno of a connect that has come to its end. */
  #outcome({ backend }: SocketAttempt, fd: number, events: number): number {
    // A unix socket hangs up where one of TCP sends a FIN.
    const failure = isUnix(backend.address) ? EPOLLERR : EPOLLERR | EPOLLHUP
    if ((events & failure) !== 0) {
      // It has answered and hung up before this thread had its turn: another endpoint's
      // answer would not be the one that was given.
      if (this.#sockets.hasUnread(fd)) return 0
      return -this.#sockets.error(fd) || -errno.ECONNRESET
    }
    // It takes thousands of refusals to happen once, and two system calls to find.
    const isSelf = backend.failures > 0 && this.#sockets.isSelfConnected(fd)
    return isSelf ? -errno.ECONNREFUSED : 0
  }
}

/** There is no room in a unix socket's queue, where TCP would send its SYN again: no refusal. */
const isQueueFull = ({ backend }: SocketAttempt, result: number): boolean =>
  result === -errno.EAGAIN && isUnix(backend.address)
