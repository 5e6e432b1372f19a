import { joinHostPort } from '../../../util/ip.ts'
import type { Cause } from '../../cause.ts'
import type { ConnectionRecord } from '../../relay.ts'
import { IPPROTO_TCP, SHUT_WR, SIOCOUTQ, TCP_INFO } from '../constants.ts'
import { errno, errnoName } from '../errno.ts'
import { Linger } from '../linger.ts'
import type { NativeMemory } from '../native-memory.ts'
import { tcpInfo } from '../struct-layout.ts'
import type { TimerWheel } from '../timer-wheel.ts'
import type { WorkerEnv } from '../worker/worker-env.ts'
import {
  backendSide,
  clientSide,
  connectionOf,
  type ConnectionTable,
  fdsPerConnection,
  flag,
  isBackend,
  opposite,
  state,
} from './connection-table.ts'
import type { Copying } from './copying.ts'
import type { DirectionEnds } from './direction-ends.ts'
import { Story } from './story.ts'

const firstLookMs = 8
const longestLookMs = 500
/** An endpoint's connections are asked for their round-trip time so often at most. */
const sampleMs = 1000

/** How connections come to an end: half-closes, resets, idle limits, and the record of it. */
export class Ending implements DirectionEnds {
  readonly #env: WorkerEnv
  readonly #table: ConnectionTable
  readonly #timers: TimerWheel
  readonly #copying: () => Copying
  readonly #halfClosed: (connection: number) => void
  readonly #gone: (connection: number) => void
  readonly #linger: Linger
  readonly #answer: NativeMemory

  /** `halfClosed` is told of a connection of which one direction has ended, `gone` of all. */
  constructor(
    env: WorkerEnv,
    table: ConnectionTable,
    timers: TimerWheel,
    copying: () => Copying,
    halfClosed: (connection: number) => void,
    gone: (connection: number) => void,
  ) {
    this.#env = env
    this.#table = table
    this.#timers = timers
    this.#copying = copying
    this.#halfClosed = halfClosed
    this.#gone = gone
    this.#linger = new Linger(env.calls)
    this.#answer = env.calls.allocate(tcpInfo.size + 8)
  }

  ended(side: number): void {
    const table = this.#table
    if (table.has(side, flag.broken)) return this.broken(side, -errno.ECONNRESET)
    table.set(side, flag.ended)
    if (!table.holds(side)) this.#passEnd(side)
    const isOpen = table.state[connectionOf(side)] === state.open
    if (isOpen && table.has(side, flag.reset)) this.broken(side, -errno.ECONNRESET)
  }

  flushed(side: number): void {
    const connection = connectionOf(side)
    if (this.#table.state[connection] === state.delivering) this.#deliver(connection)
    else if (this.#table.has(side, flag.ended)) this.#passEnd(side)
  }

  broken(side: number, result: number): void {
    const table = this.#table
    const connection = connectionOf(side)
    this.blame(connection, isBackend(side) ? 'SD' : 'CD', errnoName(result))
    this.#resetSide(side)
    const to = opposite(side)
    if (table.fd[to] === -1) return this.#finish(connection)
    // There is nobody to write it to.
    this.#copying().drop(to)
    table.state[connection] = state.delivering
    this.#story(connection).deliverUntil =
      this.#env.loop.now + this.#env.limits.halfCloseIdleMs
    if (table.holds(side))
      this.#timers.set(connection, this.#deliverMs, this.#env.loop.now)
    else this.#deliver(connection)
  }

  /** Of a connection that is delivering: its time may be over. */
  lookAgain(connection: number): void {
    const { now } = this.#env.loop
    if (now >= this.#story(connection).deliverUntil) this.#resetAll(connection)
    else if (this.#table.holds(this.#closedSide(connection))) {
      this.#timers.set(connection, longestLookMs, now)
    } else this.#deliver(connection)
  }

  /** Of a connection that is delivering: there may be room for what is held. */
  goOnDelivering(connection: number): void {
    const closed = this.#closedSide(connection)
    if (this.#table.holds(closed)) this.#copying().flush(closed)
  }

  /** Nothing has moved for too long; `side` is the one that could have sent. */
  idle(side: number): void {
    const connection = connectionOf(side)
    this.blame(connection, isBackend(side) ? 'sD' : 'cD', 'ETIMEDOUT')
    this.#resetAll(connection)
  }

  /** Ends a connection at once; both sides that are open are reset. */
  kill(connection: number, cause: Cause, detail: string): void {
    this.blame(connection, cause, detail)
    this.#resetAll(connection)
  }

  /** The remaining side of a connection that is delivering has gone too. */
  abandon(connection: number): void {
    this.#resetAll(connection)
  }

  /** The first cause is the cause: what follows from it is not told. */
  blame(connection: number, cause: Cause, detail: string): void {
    this.#story(connection).blame(cause, detail)
  }

  /** A client that was accepted and never became a connection. */
  turnAway(fd: number): void {
    this.#env.fds.close(fd)
    this.#env.fds.release(fdsPerConnection)
  }

  /** The direction from `side` is over: so it is for the opposite side. */
  #passEnd(side: number): void {
    const table = this.#table
    const to = opposite(side)
    const connection = connectionOf(side)
    // The close that follows sends the FIN.
    if (table.has(to, flag.ended) && !table.holds(to)) return this.#finish(connection)
    table.set(to, flag.finished)
    const result = this.#env.calls.shutdown(table.fd[to] ?? -1, SHUT_WR)
    // ENOTCONN: it was reset a moment ago, of which an event is going to tell.
    if (result < 0 && result !== -errno.ENOTCONN) return this.broken(to, result)
    this.#halfClosed(connection)
  }

  /** Resets the remaining side once its peer has acknowledged everything. */
  #deliver(connection: number): void {
    const table = this.#table
    const closed = this.#closedSide(connection)
    const to = opposite(closed)
    if (table.has(closed, flag.ended) && !table.has(to, flag.finished)) {
      table.set(to, flag.finished)
      this.#env.calls.shutdown(table.fd[to] ?? -1, SHUT_WR)
    }
    if (table.bytes[closed] === 0 || this.unsent(to) === 0) {
      return this.#resetAll(connection)
    }
    const story = this.#story(connection)
    story.lookMs = Math.min(Math.max(firstLookMs, story.lookMs * 2), longestLookMs)
    this.#timers.set(connection, story.lookMs, this.#env.loop.now)
  }

  /** Bytes written to a side that its peer has not acknowledged. */
  unsent(side: number): number {
    const fd = this.#table.fd[side] ?? -1
    if (fd < 0) return 0
    const { address, words } = this.#answer
    return this.#env.calls.ioctl(fd, SIOCOUTQ, address) < 0 ? 0 : (words[0] ?? 0)
  }

  /** Notes the round-trip time of a connection's endpoint, now and then. */
  sample(connection: number, isLast: boolean): void {
    const table = this.#table
    const backend = table.backend[connection]
    const { now } = this.#env.loop
    if (backend === undefined || now - backend.sampledAt < sampleMs) return
    const fd = table.fd[backendSide(connection)] ?? -1
    const { address, words, view } = this.#answer
    const length = tcpInfo.size
    words[length / 4] = length
    const asked = this.#env.calls.getsockopt(
      fd,
      IPPROTO_TCP,
      TCP_INFO,
      address,
      address + length,
    )
    if (asked < 0) return
    // Of one that goes on they would be counted again.
    const again = isLast ? view.getUint32(tcpInfo.totalRetransmits, true) : 0
    backend.sampled(now, view.getUint32(tcpInfo.rtt, true), again)
  }

  #closedSide(connection: number): number {
    const client = clientSide(connection)
    return this.#table.fd[client] === -1 ? client : backendSide(connection)
  }

  #resetAll(connection: number): void {
    this.#resetSide(clientSide(connection))
    this.#resetSide(backendSide(connection))
    this.#finish(connection)
  }

  #resetSide(side: number): void {
    const fd = this.#table.fd[side] ?? -1
    if (fd < 0) return
    this.#table.fd[side] = -1
    this.#env.fds.close(fd)
  }

  /** An end in order: what is unsent is sent still, and then a FIN. */
  #closeSide(side: number): void {
    const fd = this.#table.fd[side] ?? -1
    if (fd < 0) return
    this.#linger.finish(fd)
    this.#resetSide(side)
  }

  #finish(connection: number): void {
    const table = this.#table
    const listener = table.listener[connection]
    const story = table.story[connection]
    const cause = story?.cause ?? '--'
    const wasServed = table.connectedAt[connection] !== 0
    const failure = wasServed || cause === 'CC' ? '' : (story?.detail ?? '')
    try {
      this.#tell(connection, cause, wasServed)
    } finally {
      // Whatever was thrown, nothing of it is left.
      this.#letGo(connection)
      listener?.ended(failure)
    }
  }

  #tell(connection: number, cause: Cause, wasServed: boolean): void {
    const table = this.#table
    const { teller } = this.#env
    const backend = table.backend[connection]
    if (wasServed && backend !== undefined) {
      backend.active -= 1
      if ((table.fd[backendSide(connection)] ?? -1) >= 0) this.sample(connection, true)
    }
    if (cause !== '--') table.listener[connection]?.counters.countFailure(cause)
    if (teller.wants(cause)) teller.connectionClosed(this.#describe(connection))
  }

  #letGo(connection: number): void {
    const client = clientSide(connection)
    const backend = backendSide(connection)
    this.#timers.clear(connection)
    this.#gone(connection)
    this.#copying().drop(client)
    this.#copying().drop(backend)
    this.#closeSide(client)
    this.#closeSide(backend)
    this.#env.fds.release(fdsPerConnection)
    this.#table.end(connection)
  }

  #describe(connection: number): ConnectionRecord {
    const table = this.#table
    const { address, port } = table.peerOf(connection)
    const story = table.story[connection]
    const acceptedAt = table.acceptedAt[connection] ?? 0
    const connectedAt = table.connectedAt[connection] ?? 0
    const backend = table.backend[connection]
    const { now } = this.#env.loop
    const dialMs = (connectedAt === 0 ? now : connectedAt) - acceptedAt
    const isServed = connectedAt !== 0 && backend !== undefined
    const first = isServed
      ? [{ endpoint: backend.key, result: 'connected', ms: dialMs }]
      : []
    return {
      listener: table.listener[connection]?.name ?? '',
      client: joinHostPort(address, port),
      endpoint: isServed ? backend.key : '',
      attempts: story?.attempts ?? first,
      bytesToBackend: table.bytes[clientSide(connection)] ?? 0,
      bytesToClient: table.bytes[backendSide(connection)] ?? 0,
      dialMs,
      totalMs: now - acceptedAt,
      cause: story?.cause ?? '--',
      detail: story?.detail ?? '',
    }
  }

  #story(connection: number): Story {
    return (this.#table.story[connection] ??= new Story())
  }

  get #deliverMs(): number {
    return Math.min(longestLookMs, this.#env.limits.halfCloseIdleMs)
  }
}
