import { type Cut, idleBeforeCloseMs } from '../../cut.ts'
import { Lifetimes, type Overdue } from '../../lifetimes.ts'
import type { WorkerEnv } from '../worker/worker-backend.ts'
import { type Connection, flag, type Side, type Watched } from './connection.ts'
import type { SocketCalls } from './socket-calls.ts'
import type { TcpService } from './tcp-service.ts'

const longestTickMs = 1000
/** Connections that may be kept though they are over. */
const mostOver = 64

/**
 * Which connections have been idle for too long, or have lasted too long: looked at together, now and then, because a
 * timer and system calls for each would cost more.
 */
export class IdleLimits {
  readonly #env: WorkerEnv
  readonly #sockets: SocketCalls
  /**
   * Those that are over as soon as nothing moves on them for a time. They leave it when it is next gone
   * through: nearly all are half-closed for a moment only.
   */
  readonly #watched: Connection[] = []
  /** How many there may be until those that are over are left out. */
  #most = mostOver
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
      this.#watchFromNow(connection)
    }
    if (ages !== undefined)
      this.#lifetimes.set(connection, ages.lifetimeMs, this.#env.loop.now)
  }

  /** The limits of its ServicePort are others now. */
  changed(connection: Connection): void {
    this.#lifetimes.ended(connection)
    this.begun(connection)
  }

  /**
   * A connection with one end gone must not stay for ever (kubernetes/kubernetes#18354:
   * 14 500 connections in FIN_WAIT2).
   */
  halfClosed(connection: Connection): void {
    const { client, watched } = connection
    if (client.has(flag.halfClosed)) return
    client.set(flag.halfClosed)
    if (watched !== undefined) watched.movedAt = this.#env.loop.now
    this.#watch(connection)
  }

  /** It is over as soon as nothing moves on it. */
  drained(connection: Connection): void {
    const { endpoint } = connection
    if (connection.drainedFrom === endpoint) return
    connection.drainedFrom = endpoint
    this.#watchFromNow(connection)
  }

  /** Of a ServicePort's that were drained only `cut` still are. */
  stillDrained(service: TcpService, cut: Pick<Cut, 'isIdleCut'> | undefined): void {
    for (const connection of this.#watched) {
      const { drainedFrom } = connection
      if (drainedFrom === undefined || connection.service !== service) continue
      if (cut?.isIdleCut(drainedFrom.key) !== true) connection.drainedFrom = undefined
    }
  }

  ended(connection: Connection): void {
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
    this.#leaveOut()
    for (const connection of this.#watched) {
      this.#env.signs.beat()
      if (connection.isEnded) continue
      const watched = (connection.watched ??= seenOf(connection, now))
      const limitMs = this.#limitOf(connection)
      if (!this.#isIdle(connection, watched, limitMs)) continue
      const { client, backend } = connection
      const isDrained = hasDrained(connection) && limitMs === idleBeforeCloseMs
      // That which has not ended could have sent.
      const side = client.has(flag.ended) && !isDrained ? backend : client
      yield [side, isDrained]
    }
    this.#nextCheck = this.#watched.length === 0 ? Infinity : now + this.#tickMs
  }

  #watchFromNow(connection: Connection): void {
    connection.watched = seenOf(connection, this.#env.loop.now)
    this.#watch(connection)
  }

  #watch(connection: Connection): void {
    const { client } = connection
    this.#nextCheck = Math.min(this.#nextCheck, this.#env.loop.now + this.#tickMs)
    if (client.has(flag.watched)) return
    client.set(flag.watched)
    this.#watched.push(connection)
    if (this.#watched.length >= this.#most) this.#leaveOut()
  }

  /** In place: an array that is thrown away may keep what is in it for long. */
  #leaveOut(): void {
    const watched = this.#watched
    let kept = 0
    for (const connection of watched)
      if (!connection.isEnded && this.#limitOf(connection) < Infinity) {
        watched[kept] = connection
        kept += 1
      } else connection.client.unset(flag.watched)
    watched.length = kept
    this.#most = Math.max(mostOver, 2 * kept)
  }

  /** Milliseconds in which something has to move; Infinity: any time will do. */
  #limitOf(connection: Connection): number {
    const { service, client, backend } = connection
    const { idleMs } = service
    let limitMs = idleMs > 0 ? idleMs : Infinity
    if (hasDrained(connection)) limitMs = Math.min(limitMs, idleBeforeCloseMs)
    if (!client.has(flag.halfClosed)) return limitMs
    // Of one that was reset, and is not read, only the time of the relay counts.
    const isReset = client.has(flag.reset) || backend.has(flag.reset)
    const ofRoute = isReset ? undefined : service.ages?.idleMs
    return Math.min(limitMs, ofRoute ?? this.#env.limits.halfCloseTimeout)
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

/** It may have gone on to another endpoint, as after an early close. */
const hasDrained = ({ drainedFrom, endpoint }: Connection): boolean =>
  drainedFrom !== undefined && drainedFrom === endpoint

const seenOf = (connection: Connection, now: number): Watched => ({
  bytes: bytesOf(connection),
  movedAt: now,
  unsent: 0,
})

const tickOf = (shortestMs: number): number =>
  Math.max(10, Math.min(longestTickMs, shortestMs / 8))

const movedBy = (connection: Connection): number | undefined => {
  const { state, client, backend } = connection
  return state === 'open' && !client.holds && !backend.holds
    ? bytesOf(connection)
    : undefined
}

const bytesOf = ({ client, backend }: Connection): number => client.bytes + backend.bytes
