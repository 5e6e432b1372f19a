import { joinHostPort } from '../../../util/ip.ts'
import type { LinkedSet } from '../../../util/linked-set.ts'
import { brokenBy, type Cause, type ConnectionRecord } from '../../cause.ts'
import { attemptRecords } from '../../attempts.ts'
import { EPOLLERR, EPOLLOUT, SHUT_WR } from '../../../ffi/constants.ts'
import { errno, errnoName } from '../../../ffi/errno.ts'
import { Linger } from '../linger.ts'
import type { TimerWheel } from '../timer-wheel.ts'
import type { WorkerEnv } from '../worker/worker-backend.ts'
import { type Connection, flag, type Side } from './connection.ts'
import type { EarlyCloses } from './early-closes.ts'
import type { IdleLimits } from './idle-limits.ts'
import { type Sending, sent } from './sending.ts'
import { fdsPerConnection } from '../worker/fd-account.ts'
import type { SocketCalls } from './socket-calls.ts'

/** An endpoint's connections are asked for their round-trip time so often at most. */
const sampleMs = 1000
const firstCheckMs = 8
const longestCheckMs = 500

/** How connections come to an end: half-closes, resets, idle limits, and the record of it. */
export class Ending {
  readonly #env: WorkerEnv
  readonly #timers: TimerWheel<Connection>
  readonly #sending: Sending
  readonly #idleLimits: IdleLimits
  readonly #sockets: SocketCalls
  readonly #earlyCloses: EarlyCloses
  readonly #all: LinkedSet<Connection>
  readonly #linger: Linger

  /** `all`: the connections that have not ended. */
  constructor(
    env: WorkerEnv,
    timers: TimerWheel<Connection>,
    sending: Sending,
    idleLimits: IdleLimits,
    sockets: SocketCalls,
    earlyCloses: EarlyCloses,
    all: LinkedSet<Connection>,
  ) {
    this.#env = env
    this.#timers = timers
    this.#sending = sending
    this.#idleLimits = idleLimits
    this.#sockets = sockets
    this.#earlyCloses = earlyCloses
    this.#all = all
    this.#linger = new Linger(env.calls)
  }

  /** A side's end was read; what it sent may still be held. */
  ended(side: Side): void {
    if (side.has(flag.broken)) return this.broken(side, -errno.ECONNRESET)
    if (this.#earlyCloses.take(side, side.has(flag.reset))) return
    side.set(flag.ended)
    this.#noteLeft(side)
    if (!side.holds) this.passEnd(side)
    const isOpen = side.connection.state === 'open'
    if (isOpen && side.has(flag.reset)) this.broken(side, -errno.ECONNRESET)
  }

  /** In a ring no hop ends its side before its client has left. */
  #noteLeft(side: Side): void {
    const { service, backend } = side.connection
    const { brake } = service
    if (brake === undefined) return
    if (side.isBackend) brake.sinceAnswer = 0
    if (side.isBackend || backend.bytes > 0) return
    side.set(flag.leftUnanswered)
    brake.leftUnanswered += 1
  }

  /** The direction from `side` is over, and all of it written: so it is for the opposite side. */
  passEnd(side: Side): void {
    const to = side.opposite
    // The close that follows sends the FIN.
    if (to.has(flag.ended) && !to.holds && !this.#hasUnwritten(side.connection))
      return this.#finish(side.connection)
    to.set(flag.finished)
    const result = this.#env.calls.shutdown(to.fd, SHUT_WR)
    // ENOTCONN: it was reset a moment ago, and an event follows.
    if (result < 0 && result !== -errno.ENOTCONN) return this.broken(to, result)
    this.#idleLimits.halfClosed(side.connection)
  }

  /** What a socket had taken is with the kernel: the connection may be over. */
  written(connection: Connection): void {
    const { client, backend } = connection
    if (isOver(client) && isOver(backend) && !this.#hasUnwritten(connection))
      this.#finish(connection)
  }

  /** An answer that is cut after that would look whole. */
  #hasUnwritten({ client, backend }: Connection): boolean {
    if (!this.#env.buffersWrites) return false
    return this.#sockets.unwritten(client.fd) + this.#sockets.unwritten(backend.fd) > 0
  }

  /** A side was reset, or worse; `result` is the negative errno. */
  broken(side: Side, result: number): void {
    if (this.#earlyCloses.take(side, true)) return
    const { connection } = side
    const to = side.opposite
    const code = errnoName(result)
    connection.blame(brokenBy(side.isBackend, code), code)
    this.#reset(side)
    if (to.fd === -1) return this.#finish(connection)
    // There is no peer to write it to.
    this.#sending.drop(to)
    connection.state = 'delivering'
    const { now } = this.#env.loop
    connection.deliverUntil = now + this.#env.limits.halfCloseTimeout
    if (!side.holds) return this.#deliver(connection)
    const ms = Math.min(longestCheckMs, this.#env.limits.halfCloseTimeout)
    this.#timers.set(connection, ms, now)
  }

  /** Of a connection that is delivering: an event of the side that is left. */
  readyWhileDelivering(side: Side, events: number): void {
    // An event of the side that is closed, which was waiting.
    if (events !== 0 && side.fd === -1) return
    // A hang-up without an error is a FIN after ours: it may go on reading.
    if ((events & EPOLLERR) !== 0) return this.#resetBoth(side.connection)
    if ((events & EPOLLOUT) !== 0 || events === 0) this.goOnDelivering(side.connection)
  }

  /** There may be room for what is held. */
  goOnDelivering(connection: Connection): void {
    const closed = closedSideOf(connection)
    if (!closed.holds) return
    const result = this.#sending.flush(closed)
    if (result === sent.all) this.#deliver(connection)
    else if (result < 0) this.broken(closed.opposite, result)
  }

  /** The time of a connection that is delivering may be over. */
  recheck(connection: Connection): void {
    const { now } = this.#env.loop
    if (now >= connection.deliverUntil) this.#resetBoth(connection)
    else if (closedSideOf(connection).holds) {
      this.#timers.set(connection, longestCheckMs, now)
    } else this.#deliver(connection)
  }

  /** No endpoint could be connected to. */
  gaveUp(connection: Connection, cause: Cause, detail: string): void {
    if (!this.#earlyCloses.restore(connection)) {
      const { service } = connection
      // One that is paused fails by order.
      if (cause !== 'CC' && !service.paused)
        service.counters.clientServed(false, this.#env.loop.now)
      return this.kill(connection, cause, detail)
    }
    if (connection.backend.has(flag.ended)) this.passEnd(connection.backend)
    if (!connection.isEnded) this.#sending.again(connection.client)
  }

  /** Nothing has moved for too long; `side` is the one that could have sent. */
  idle(side: Side): void {
    this.kill(side.connection, side.isBackend ? 'sD' : 'cD', 'ETIMEDOUT')
  }

  /** Ends a connection at once, whatever it is doing; both sides that are open are reset. */
  kill(connection: Connection, cause: Cause, detail: string): void {
    connection.blame(cause, detail)
    // Its sockets may be another process's by now: if they are not it ends when that is known.
    if (connection.state === 'moving') return
    connection.dial?.cancel()
    connection.endDial()
    this.#resetBoth(connection)
  }

  /** Notes the round-trip time of a connection's endpoint, unless that was just done. */
  sampleRoundTrip({ endpoint, backend }: Connection, isLast: boolean): void {
    const { now } = this.#env.loop
    if (endpoint === undefined || now - endpoint.sampledAt < sampleMs) return
    const sample = this.#sockets.roundTrip(backend.fd)
    if (sample === undefined) return
    // Of one that goes on they would be counted again.
    endpoint.sampled(now, sample.rttUs, isLast ? sample.retransmits : 0)
  }

  /** A fault in handling it: nothing is known of its state any more. */
  failed(connection: Connection, error: unknown): void {
    this.#env.observer.fault(connection.service.name, error)
    if (!connection.isEnded) this.kill(connection, 'KD', 'internal fault')
  }

  /** Another process has its sockets, and makes the record: here they are closed, and their peers don't notice. */
  handedOver(connection: Connection): void {
    const { client, backend, endpoint, service, ttl } = connection
    if (endpoint !== undefined) endpoint.active -= 1
    this.#reset(client)
    this.#reset(backend)
    this.#letGo(connection)
    service.ended('', ttl)
  }

  /** Resets a client that was accepted and never became a connection. */
  turnAway(fd: number): void {
    this.#env.fds.close(fd)
    this.#env.fds.release(fdsPerConnection)
  }

  /** Resets the remaining side once its peer has acknowledged everything. */
  #deliver(connection: Connection): void {
    const closed = closedSideOf(connection)
    const to = closed.opposite
    if (closed.has(flag.ended) && !to.has(flag.finished)) {
      to.set(flag.finished)
      this.#env.calls.shutdown(to.fd, SHUT_WR)
    }
    if (closed.bytes === 0 || this.#sockets.unacknowledged(to.fd) === 0) {
      return this.#resetBoth(connection)
    }
    const ms = Math.max(firstCheckMs, connection.deliverCheckMs * 2)
    connection.deliverCheckMs = Math.min(ms, longestCheckMs)
    this.#timers.set(connection, connection.deliverCheckMs, this.#env.loop.now)
  }

  #resetBoth(connection: Connection): void {
    this.#reset(connection.client)
    this.#reset(connection.backend)
    this.#finish(connection)
  }

  #reset(side: Side): void {
    const { fd } = side
    if (fd < 0) return
    side.fd = -1
    this.#env.fds.close(fd)
    side.freePlace()
  }

  /** An end in order: what is unsent is sent still, and then a FIN. */
  #close(side: Side): void {
    if (side.fd < 0) return
    this.#linger.finish(side.fd)
    this.#reset(side)
  }

  #finish(connection: Connection): void {
    const { service, end } = connection
    const wasServed = connection.connectedAt !== 0
    const failure = wasServed || end?.cause === 'CC' ? '' : (end?.detail ?? '')
    try {
      this.#record(connection, wasServed)
    } finally {
      // Whatever was thrown, nothing of it is left.
      this.#letGo(connection)
      service.ended(failure, connection.ttl)
    }
  }

  #record(connection: Connection, wasServed: boolean): void {
    const { endpoint, service, end, backend } = connection
    const cause = end?.cause ?? '--'
    if (wasServed && endpoint !== undefined) {
      endpoint.active -= 1
      if (backend.fd >= 0) this.sampleRoundTrip(connection, true)
    }
    if (cause !== '--') service.counters.countFailure(cause)
    service.report(
      cause,
      () => connection.peer.address,
      () => recordOf(connection, this.#env.loop.now),
      connection,
      () => ({
        all: this.#all.size - 1,
        route: service.connections - 1,
        endpoint: endpoint?.active ?? 0,
      }),
    )
  }

  #letGo(connection: Connection): void {
    const { client, backend, counted } = connection
    connection.state = 'ended'
    const { brake } = connection.service
    if (brake !== undefined && client.has(flag.leftUnanswered)) brake.leftUnanswered -= 1
    counted?.limiter.ended(counted.client, this.#env.loop.now)
    this.#all.delete(connection)
    this.#timers.clear(connection)
    this.#idleLimits.ended(connection)
    this.#sending.drop(client)
    this.#sending.drop(backend)
    this.#sending.dropReplayBuffer(client)
    this.#earlyCloses.dropHeld(connection)
    this.#close(client)
    this.#close(backend)
    this.#env.fds.release(fdsPerConnection)
  }
}

/** All that it sends has been read, and written to the opposite one. */
const isOver = (side: Side): boolean => side.has(flag.ended) && !side.holds

const closedSideOf = ({ client, backend }: Connection): Side =>
  client.fd === -1 ? client : backend

const recordOf = (connection: Connection, now: number): ConnectionRecord => {
  const { service, endpoint, acceptedAt, connectedAt, client, backend, end } = connection
  const { address, port } = connection.peer
  const isServed = connectedAt !== 0 && endpoint !== undefined
  return {
    listener: service.name,
    client: joinHostPort(address, port),
    endpoint: isServed ? endpoint.key : '',
    attempts: attemptRecords(connection.attempts),
    bytesToBackend: client.bytes,
    bytesToClient: backend.bytes,
    dialMs: (connectedAt === 0 ? now : connectedAt) - acceptedAt,
    totalMs: now - acceptedAt,
    cause: end?.cause ?? '--',
    detail: end?.detail ?? '',
  }
}
