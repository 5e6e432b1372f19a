import { GrowingBytes } from '../../../util/growing-bytes.ts'
import {
  EPOLLERR,
  EPOLLHUP,
  EPOLLOUT,
  EPOLLRDHUP,
  MSG_MORE,
  MSG_PEEK,
  MSG_TRUNC,
  SPLICE_F_MOVE,
  SPLICE_F_NONBLOCK,
} from '../../../ffi/constants.ts'
import { errno } from '../../../ffi/errno.ts'
import { noteUnserved } from '../../early-close.ts'
import { keepAliveAfterMs } from '../keep-alive.ts'
import type { TimerWheel } from '../timer-wheel.ts'
import type { WorkerEnv } from '../worker/worker-backend.ts'
import { type Connection, flag, type Side } from './connection.ts'
import type { Ending } from './ending.ts'
import type { IdleLimits } from './idle-limits.ts'
import type { PipePool } from './pipe-pool.ts'
import type { SocketCalls } from './socket-calls.ts'
import { isPassing, isShortage, type Sending, sent } from './sending.ts'

/** Bytes that one direction may move before others have their turn. */
const turnBytes = 512 * 1024
/** Full reads in a row that make a direction bulk, which is spliced from then on. */
const fullReads = 4
/** Splices in a row below this many bytes after which copying is cheaper again. */
const meagreBytes = 16 * 1024
const meagreSplices = 8
/** What all connections of a worker may hold together, unless it is said. */
const mostHeldBytes = 64 << 20
const mostInterrupts = 10
const hangUp = EPOLLERR | EPOLLHUP | EPOLLRDHUP

/**
 * The two half-duplex copies of an open connection: what is read from one side is written to
 * the opposite one, through one buffer for all, or through a pipe once it proves to be much.
 */
export class Copying {
  readonly #env: WorkerEnv
  readonly #timers: TimerWheel<Connection>
  readonly #pipes: PipePool
  readonly #sending: Sending
  readonly #idleLimits: IdleLimits
  readonly #ending: Ending
  readonly #size: number
  readonly #mostHeld: number
  readonly #sockets: SocketCalls

  constructor(
    env: WorkerEnv,
    timers: TimerWheel<Connection>,
    pipes: PipePool,
    sending: Sending,
    idleLimits: IdleLimits,
    ending: Ending,
    sockets: SocketCalls,
  ) {
    this.#env = env
    this.#timers = timers
    this.#pipes = pipes
    this.#sending = sending
    this.#idleLimits = idleLimits
    this.#ending = ending
    this.#size = env.limits.connectionBuffer
    this.#mostHeld = env.limits.heldBytes ?? mostHeldBytes
    this.#sockets = sockets
  }

  /** The backend's side stands; `events` are what is known of it. */
  begin(connection: Connection, events: number): void {
    const { client, backend } = connection
    connection.state = 'open'
    if (client.bytes > 0) this.#requestSent(connection)
    if (!connection.awaitsAnswer) this.#keepAliveLater(connection)
    // It was dialled with all events.
    backend.set(flag.watchesRoom)
    backend.note(events)
    const { retry, brake } = connection.service
    if (brake !== undefined) brake.sinceAnswer += 1
    if (retry !== undefined && retry.replay > 0) {
      client.replayBuffer ??= new GrowingBytes(retry.replay)
    }
    // To an endpoint that has hung up nothing is sent before that is known.
    const endedAtOnce = retry !== undefined && (events & hangUp) !== 0
    if (connection.service.proxyProtocol !== undefined && !connection.asksTls) {
      this.#greet(connection, !endedAtOnce)
      if (connection.state !== 'open') return
    }
    this.#start(endedAtOnce ? backend : client)
    if (connection.state === 'open') this.#start(endedAtOnce ? client : backend)
  }

  /**
   * A header that names the client is the first that the endpoint gets, and nothing that the client
   * has sent. With `isMore` what has come from it goes in the same write.
   */
  #greet(connection: Connection, isMore: boolean): void {
    const { client } = connection
    const isAlone = !client.holds
    const header = this.#sockets.headerOf(connection)
    if (header !== undefined) this.#sending.holdBefore(client, header)
    if (!isMore || !isAlone || !client.has(flag.readable) || this.#holdsEnough) return
    const count = this.#read(client, 0)
    if (count <= 0) return void this.#nothingRead(client, count)
    if (client.replayBuffer !== undefined) this.#bufferForReplay(client, count)
    this.#count(client, count)
    this.#noteDrained(client, count)
    this.#sending.holdMore(client, count)
  }

  /** What it holds is a header, or was sent to another endpoint before. */
  #start(from: Side): void {
    if (!from.holds || this.#unblock(from)) this.#move(from)
  }

  /** It has answered, or been open too long for an early close. */
  confirmServing(connection: Connection): void {
    const { client, backend, endpoint, service } = connection
    const { retry } = service
    if (retry === undefined) return
    // Where an answer is awaited time alone says nothing of the endpoint.
    const isServed = backend.bytes > 0 || retry.answerMs === undefined
    if (isServed || client.bytes > 0) this.#sending.dropReplayBuffer(client)
    // An end that was passed on is no service.
    const hasLeft = backend.bytes === 0 && backend.has(flag.ended)
    if (isServed && !hasLeft && endpoint !== undefined) service.served(endpoint)
  }

  /** The client has sent something to an endpoint that has sent nothing so far. */
  #requestSent(connection: Connection): void {
    const { answerMs } = connection.service.retry ?? {}
    if (answerMs === undefined) return
    connection.awaitsAnswer = true
    this.#timers.set(connection, answerMs, this.#env.loop.now)
  }

  #answered(connection: Connection): void {
    if (connection.awaitsAnswer) this.#keepAliveLater(connection)
    connection.awaitsAnswer = false
    this.confirmServing(connection)
    const { service, attempts, client } = connection
    if (service.brake !== undefined) service.brake.sinceAnswer = 0
    if (attempts.length > 1)
      noteUnserved(service, attempts, client.bytes, () => connection.peer.address)
  }

  #keepAliveLater(connection: Connection): void {
    this.#timers.set(connection, keepAliveAfterMs, this.#env.loop.now)
  }

  /** `events` of a side of an open connection. */
  ready(side: Side, events: number): void {
    if (!side.has(flag.ended)) side.note(events)
    // Its end was read before: what comes now is a reset, or that it was given up.
    else if ((events & EPOLLERR) !== 0)
      this.#ending.broken(side, -this.#sockets.error(side.fd) || -errno.ECONNRESET)
    if (events !== 0) this.#move(side)
    else if (!side.holds || this.#unblock(side)) this.#move(side)
    if ((events & EPOLLOUT) !== 0 && side.has(flag.full)) this.#roomAt(side)
    // A reset is found by reading, which may take for ever where the opposite side takes
    // nothing: the limit of half-closed connections is for this too.
    const { connection } = side
    if (connection.state !== 'open') return
    if ((events & EPOLLERR) !== 0) this.#idleLimits.halfClosed(connection)
    else if ((events & EPOLLHUP) !== 0) this.#ending.written(connection)
  }

  /** What waited for room at `side` goes on. */
  #roomAt(side: Side): void {
    const { connection } = side
    const from = side.opposite
    // Since the event came: there is only one for this edge.
    if (connection.state === 'delivering') return this.#ending.goOnDelivering(connection)
    if (connection.state !== 'open') return
    side.unset(flag.full)
    if (from.holds && !this.#flush(from)) return
    if (connection.state === 'open') this.#move(from)
  }

  /** Moves what there is from a side to the opposite one, as far as it goes now. */
  #move(from: Side): void {
    if (from.has(flag.readable) && from.holds && !this.#unblock(from)) return
    let left = turnBytes
    while (from.has(flag.readable)) {
      if (left <= 0) return this.#sending.again(from)
      const moved = from.pipe === undefined ? this.#copy(from) : this.#splice(from)
      if (moved < 0) return
      left -= moved
    }
  }

  /** Whether what is held could be written, and the connection goes on. */
  #unblock(from: Side): boolean {
    if (from.opposite.has(flag.full)) return false
    return this.#flush(from) && from.connection.state === 'open'
  }

  /** Writes what is held of a side; whether all of it could be. */
  #flush(from: Side): boolean {
    const result = this.#sending.flush(from)
    if (result < 0) this.#writeFailed(from.opposite, result)
    if (result !== sent.all) return false
    if (from.has(flag.ended)) this.#ending.passEnd(from)
    return true
  }

  /** Bytes moved; -1: there is no more to be done for this direction now. */
  #copy(from: Side): number {
    if (this.#holdsEnough) return this.#passOn(from)
    const count = this.#read(from, 0)
    if (count <= 0) return this.#nothingRead(from, count)
    if (from.replayBuffer !== undefined) this.#bufferForReplay(from, count)
    this.#count(from, count)
    from.streak = count === this.#size ? from.streak + 1 : 0
    const isLast =
      this.#noteDrained(from, count) && from.has(flag.finSeen) && !from.has(flag.broken)
    if (!this.#write(from, count, isLast ? MSG_MORE : 0)) return -1
    if (isLast) return this.#nothingRead(from, 0)
    // Splicing can't get past urgent data: it answers EAGAIN, or even the end.
    if (from.streak >= fullReads && !from.has(flag.urgent)) this.#startSplicing(from)
    return count
  }

  #read(from: Side, flags: number): number {
    return this.#env.calls.recv(from.fd, this.#sending.buffer.address, this.#size, flags)
  }

  /** A short read has emptied the queue (epoll(7)), but for urgent data: notes whether. */
  #noteDrained(from: Side, count: number): boolean {
    const isDrained = count < this.#size && !from.has(flag.urgent)
    if (isDrained && !from.has(flag.hungUp)) from.unset(flag.readable)
    return isDrained
  }

  get #holdsEnough(): boolean {
    return this.#env.signs.heldBytes >= this.#mostHeld
  }

  /**
   * As `#copy`, for one call more, but holds nothing: what the opposite side does not take
   * stays in the queue of the socket that it came by, which holds up its sender.
   */
  #passOn(from: Side): number {
    const to = from.opposite
    if (to.has(flag.full)) return -1
    const count = this.#read(from, MSG_PEEK)
    if (count <= 0) return this.#nothingRead(from, count)
    const taken = this.#sending.send(to, count, 0)
    this.#sending.dropReplayBuffer(from)
    if (taken > 0) {
      this.#count(from, taken)
      if (!this.#discard(from, taken)) return -1
    }
    if (taken === count) {
      this.#noteDrained(from, count)
      return count
    }
    if (taken < 0 && !isPassing(taken)) this.#writeFailed(to, taken)
    else this.#sending.waitForRoom(from, taken)
    return -1
  }

  /**
   * Takes from a side's queue what was sent. If that is not all gone it would be sent twice,
   * and what is left may begin behind an urgent mark: the connection ends.
   */
  #discard(from: Side, count: number): boolean {
    let gone = -errno.EINTR
    for (let tries = 0; gone === -errno.EINTR && tries < mostInterrupts; tries += 1) {
      gone = this.#env.calls.recv(from.fd, this.#sending.buffer.address, count, MSG_TRUNC)
    }
    if (gone === count) return true
    this.#ending.broken(from, gone < 0 ? gone : -errno.EPROTO)
    return false
  }

  /**
   * Writes what was just read; what can't be is held. With MSG_MORE the FIN that follows
   * goes in the same segment.
   */
  #write(from: Side, count: number, flags: number): boolean {
    const to = from.opposite
    const written = this.#sending.send(to, count, flags)
    if (written === count) return true
    if (written < 0 && !isPassing(written)) this.#writeFailed(to, written)
    else this.#sending.hold(from, Math.max(written, 0), count, written)
    return false
  }

  #splice(from: Side): number {
    const { pipe } = from
    if (pipe === undefined || from.has(flag.urgent) || this.#holdsEnough) {
      return this.#copyAgain(from)
    }
    const count = this.#env.calls.splice(
      from.fd,
      pipe.writeEnd,
      Math.max(this.#size, this.#sockets.sendRoom(from.opposite.fd)),
      SPLICE_F_MOVE | SPLICE_F_NONBLOCK,
    )
    // The end, or urgent data that came a moment ago: a read shows which.
    if (count === 0) return this.#copyAgain(from)
    if (count < 0) return this.#nothingRead(from, count)
    this.#count(from, count)
    this.#sending.piped(from, count)
    from.streak = count < meagreBytes ? from.streak + 1 : 0
    const result = this.#sending.flushPipe(from)
    if (result < 0) this.#writeFailed(from.opposite, result)
    if (result !== sent.all) return -1
    if (from.streak >= meagreSplices) this.#stopSplicing(from)
    return count
  }

  #copyAgain(from: Side): number {
    this.#stopSplicing(from)
    return this.#copy(from)
  }

  #startSplicing(from: Side): void {
    this.#sending.dropReplayBuffer(from)
    from.streak = 0
    from.pipe = this.#pipes.take()
  }

  #stopSplicing(from: Side): void {
    const { pipe } = from
    from.streak = 0
    from.pipe = undefined
    if (pipe !== undefined) this.#pipes.giveBack(pipe, true)
  }

  #nothingRead(from: Side, result: number): number {
    if (result === -errno.EINTR) return 0
    if (result < 0 && isShortage(result)) {
      this.#sending.later(from)
      return -1
    }
    from.unset(flag.readable)
    if (result === 0) this.#ending.ended(from)
    else if (result !== -errno.EAGAIN) this.#ending.broken(from, result)
    return -1
  }

  /**
   * The peer is gone, but what it sent before it went may still be in the kernel's queue;
   * after that comes its reset.
   */
  #writeFailed(to: Side, result: number): void {
    const isLast = to.opposite.fd === -1
    if (isLast || to.has(flag.ended)) return this.#ending.broken(to, result)
    this.#sending.drop(to.opposite)
    to.set(flag.broken | flag.readable | flag.hungUp)
    this.#move(to)
  }

  #bufferForReplay(from: Side, count: number): void {
    const most = from.connection.service.retry?.replay ?? 0
    // What is held is written in one piece, from the buffer.
    this.#sending.bufferForReplay(from, count, Math.min(most, this.#size))
  }

  #count(from: Side, count: number): void {
    const { connection } = from
    const isFirst = from.bytes === 0
    from.bytes += count
    connection.service.counters.countBytes(!from.isBackend, count)
    if (!isFirst) return
    if (from.isBackend) this.#answered(connection)
    else if (connection.backend.bytes === 0) this.#requestSent(connection)
  }
}
