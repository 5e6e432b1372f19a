import { type Cut, idleBeforeCloseMs } from '../../cut.ts'
import { Lifetimes, type Overdue } from '../../lifetimes.ts'
import type { WorkerEnv } from '../worker/worker-backend.ts'
import { type Connection, flag, type Side } from './connection.ts'
import type { SocketCalls } from './socket-calls.ts'
import type { TcpService } from './tcp-service.ts'

interface Watched {
  bytes: number
  movedAt: number
  /** Bytes the kernel had not delivered at the last check. */
  unsent: number
}

const longestTickMs = 1000

/**
 * Which connections have been idle for too long, or have lasted too long: looked at together, now and then, because a
 * timer and system calls for each would cost more.
 */
export class IdleLimits {
  readonly #env: WorkerEnv
  readonly #sockets: SocketCalls
  readonly #halfClosed = new Map<Connection, Watched>()
  /** With an idle limit for whole connections: what they had moved, and when. */
  readonly #open = new Map<Connection, Watched>()
  /** To endpoints that are drained, and closed as they are idle. */
  readonly #drained = new Map<Connection, Watched & { endpoint: unknown }>()
  readonly #lifetimes: Lifetimes<Connection>
  #tickMs: number
  #nextCheck = Infinity

  constructor(env: WorkerEnv, sockets: SocketCalls) {
    this.#env = env
    this.#sockets = sockets
    this.#lifetimes = new Lifetimes(env.random, movedBy)
    this.#tickMs = tickOf(env.limits.halfCloseTimeout)
  }

  begun(connection: Connection): void {
    const { ages, idleMs } = connection.service
    if (idleMs > 0) {
      this.#tickMs = Math.min(this.#tickMs, tickOf(idleMs))
      this.#open.set(connection, this.#watched(connection))
    }
    if (ages !== undefined)
      this.#lifetimes.set(connection, ages.lifetimeMs, this.#env.loop.now)
  }

  /** The limits of its ServicePort are others now. */
  changed(connection: Connection): void {
    this.#open.delete(connection)
    this.#lifetimes.ended(connection)
    this.begun(connection)
  }

  /**
   * A connection with one end gone must not stay for ever (kubernetes/kubernetes#18354:
   * 14 500 connections in FIN_WAIT2).
   */
  halfClosed(connection: Connection): void {
    if (this.#halfClosed.has(connection)) return
    this.#halfClosed.set(connection, this.#watched(connection))
  }

  /** It is over as soon as nothing moves on it. */
  drained(connection: Connection): void {
    const { endpoint } = connection
    if (this.#drained.get(connection)?.endpoint === endpoint) return
    this.#drained.set(connection, { ...this.#watched(connection), endpoint })
  }

  /** Of a ServicePort's that were drained only `cut` still are. */
  stillDrained(service: TcpService, cut: Pick<Cut, 'isIdleCut'> | undefined): void {
    for (const connection of this.#drained.keys()) {
      const isStill = cut?.isIdleCut(connection.endpoint?.key ?? '') ?? false
      if (connection.service === service && !isStill) this.#drained.delete(connection)
    }
  }

  ended(connection: Connection): void {
    if (this.#drained.size > 0) this.#drained.delete(connection)
    if (this.#halfClosed.size > 0) this.#halfClosed.delete(connection)
    if (this.#open.size > 0) this.#open.delete(connection)
    this.#lifetimes.ended(connection)
  }

  /** Milliseconds until the next check. */
  wait(now: number): number {
    return Math.min(Math.max(this.#nextCheck - now, 0), this.#lifetimes.wait(now))
  }

  /** Connections that have lasted as long as they may. */
  aged(now: number): Generator<Overdue<Connection>> {
    return this.#lifetimes.overdue(now)
  }

  /**
   * Sides that could have sent and did not for too long, to be ended one by one; and whether that
   * is because their endpoint is drained.
   */
  *overdue(now: number): Generator<readonly [side: Side, isDrained: boolean]> {
    if (now < this.#nextCheck) return
    const { limits, signs } = this.#env
    for (const [connection, watched] of this.#halfClosed) {
      signs.beat()
      const { client, backend, service } = connection
      // Of one that was reset, and is not read, only the time of the relay counts.
      const isReset = client.has(flag.reset) || backend.has(flag.reset)
      const ofRoute = isReset ? undefined : service.ages?.idleMs
      if (this.#isIdle(connection, watched, ofRoute ?? limits.halfCloseTimeout)) {
        yield [client.has(flag.ended) ? backend : client, false]
      }
    }
    for (const [connection, watched] of this.#open) {
      signs.beat()
      if (this.#isIdle(connection, watched, connection.service.idleMs))
        yield [connection.client, false]
    }
    for (const [connection, watched] of this.#drained) {
      signs.beat()
      // It may have gone on to another one, as after an early close.
      if (connection.endpoint !== watched.endpoint) this.#drained.delete(connection)
      else if (this.#isIdle(connection, watched, idleBeforeCloseMs))
        yield [connection.client, true]
    }
    const isDone = this.#halfClosed.size + this.#open.size + this.#drained.size === 0
    this.#nextCheck = isDone ? Infinity : now + this.#tickMs
  }

  #watched(connection: Connection): Watched {
    const { now } = this.#env.loop
    this.#nextCheck = Math.min(this.#nextCheck, now + this.#tickMs)
    return { bytes: bytesOf(connection), movedAt: now, unsent: 0 }
  }

  /**
   * Nothing was read for long, but megabytes may still be on their way from the kernel to
   * a slow reader: what it has left to send is looked at half-way and at the end.
   */
  #isIdle(connection: Connection, watched: Watched, limitMs: number): boolean {
    const { now } = this.#env.loop
    const bytes = bytesOf(connection)
    // Dialling and delivering have limits of their own: an idle time begins after them.
    const isOpen = connection.state === 'open'
    if (!isOpen || bytes !== watched.bytes) {
      watched.bytes = bytes
      watched.movedAt = now
      watched.unsent = 0
      return false
    }
    const idle = now - watched.movedAt
    if (idle < limitMs / 2) return false
    const unsent = this.#unsent(connection.client) + this.#unsent(connection.backend)
    const isMoving = unsent < watched.unsent
    watched.unsent = unsent
    if (isMoving) watched.movedAt = now
    return !isMoving && idle >= limitMs
  }

  /** What was read from a side and is held, and what its peer has not acknowledged. */
  #unsent(side: Side): number {
    return (side.held?.length ?? 0) + side.piped + this.#sockets.unacknowledged(side.fd)
  }
}

const tickOf = (shortestMs: number): number =>
  Math.max(10, Math.min(longestTickMs, shortestMs / 8))

const movedBy = (connection: Connection): number | undefined => {
  const { state, client, backend } = connection
  return state === 'open' && !client.holds && !backend.holds
    ? bytesOf(connection)
    : undefined
}

const bytesOf = ({ client, backend }: Connection): number => client.bytes + backend.bytes
