import { type Cut, idleBeforeCloseMs } from '../../cut.ts'
import { Lifetimes, type Overdue } from '../../lifetimes.ts'
import type { WorkerEnv } from '../worker/worker-backend.ts'
import { type Connection, flag, type Side, Watched } from './connection.ts'
import type { SocketCalls } from './socket-calls.ts'
import type { TcpService } from './tcp-service.ts'

const longestTickMs = 1000
/** Connections that may be kept though they are over. */
const mostOver = 64

/** For how long nothing may move on a connection, and since when that counts. */
interface Limit {
  readonly ms: number
  readonly since: number
  /** The one that could have sent. */
  readonly side: Side
  readonly isDrained: boolean
}

/**
 * Which connections have been idle for too long, or have lasted too long: looked at together, now and then, because a
 * timer and system calls for each would cost more.
 */
export class IdleLimits {
  readonly #env: WorkerEnv
  readonly #sockets: SocketCalls
  /**
   * Those that have a `watched`, and some that are over: they leave it when there are many, as nearly all are
   * half-closed for a moment only.
   */
  readonly #all: Connection[] = []
  /** How many there may be until those that are over leave. */
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
    const { now } = this.#env.loop
    if (idleMs > 0) {
      this.#tickMs = Math.min(this.#tickMs, tickOf(idleMs))
      this.#watch(connection).since = now
    }
    if (ages !== undefined || connection.life !== undefined)
      this.#lifetimes.set(connection, ages?.lifetimeMs, now)
  }

  /** It has come from another process; both in milliseconds ago. */
  adopted(
    connection: Connection,
    {
      halfClosedMs,
      quietMs,
    }: {
      readonly halfClosedMs?: number | undefined
      readonly quietMs?: number | undefined
    },
  ): void {
    const { now } = this.#env.loop
    this.begun(connection)
    if (halfClosedMs !== undefined)
      this.#watch(connection).halfClosedAt = now - halfClosedMs
    const { watched } = connection
    if (watched === undefined || quietMs === undefined) return
    watched.since = now - quietMs
    watched.movedAt = now - quietMs
  }

  /** The limits of its ServicePort are others now. */
  changed(connection: Connection): void {
    this.begun(connection)
  }

  /**
   * A connection with one end gone must not stay for ever (kubernetes/kubernetes#18354:
   * 14 500 connections in FIN_WAIT2).
   */
  halfClosed(connection: Connection): void {
    this.#watch(connection).halfClosedAt ??= this.#env.loop.now
  }

  /** It is over as soon as nothing moves on it. */
  drained(connection: Connection): void {
    const watched = this.#watch(connection)
    if (watched.drainedFrom === connection.endpoint) return
    watched.drainedFrom = connection.endpoint
    watched.drainedAt = this.#env.loop.now
  }

  /** Of a ServicePort's that were drained only `cut` still are. */
  stillDrained(service: TcpService, cut: Pick<Cut, 'isIdleCut'> | undefined): void {
    for (const { watched, service: owner } of this.#all) {
      if (watched?.drainedFrom === undefined || owner !== service) continue
      if (cut?.isIdleCut(watched.drainedFrom.key) !== true)
        watched.drainedFrom = undefined
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
    for (const connection of this.#all) {
      this.#env.signs.beat()
      const { watched } = connection
      if (connection.isEnded || watched === undefined) continue
      const limit = this.#limitOf(connection, watched)
      if (limit === undefined) connection.watched = undefined
      else if (this.#isIdle(connection, watched, limit))
        yield [limit.side, limit.isDrained]
    }
    this.#leave()
    this.#nextCheck = this.#all.length === 0 ? Infinity : now + this.#tickMs
  }

  #watch(connection: Connection): Watched {
    this.#nextCheck = Math.min(this.#nextCheck, this.#env.loop.now + this.#tickMs)
    if (connection.watched !== undefined) return connection.watched
    connection.watched = new Watched(bytesOf(connection))
    this.#all.push(connection)
    if (this.#all.length >= this.#most) this.#leave()
    return connection.watched
  }

  /** Those that are over. In place: an array that is thrown away may keep what is in it for long. */
  #leave(): void {
    let kept = 0
    for (const connection of this.#all) {
      if (connection.isEnded || connection.watched === undefined) continue
      this.#all[kept] = connection
      kept += 1
    }
    this.#all.length = kept
    this.#most = Math.max(mostOver, 2 * kept)
  }

  /** The one that is reached first if nothing moves; undefined: it has none any more. */
  #limitOf(connection: Connection, watched: Watched): Limit | undefined {
    const { client, endpoint, service } = connection
    const { since, drainedFrom, drainedAt } = watched
    const limits = [this.#halfCloseLimit(connection, watched)]
    if (service.idleMs > 0)
      limits.push({ ms: service.idleMs, since, side: client, isDrained: false })
    // It may have gone on to another endpoint, as after an early close.
    if (drainedFrom !== undefined && drainedFrom === endpoint) {
      const ms = idleBeforeCloseMs
      limits.push({ ms, since: drainedAt, side: client, isDrained: true })
    }
    return limits.reduce((first, other) =>
      other === undefined || (first && dueOf(first, watched) <= dueOf(other, watched))
        ? first
        : other,
    )
  }

  #halfCloseLimit(
    { client, backend, service }: Connection,
    { halfClosedAt }: Watched,
  ): Limit | undefined {
    if (halfClosedAt === undefined) return undefined
    // Of one that was reset, and is not read, only the time of the relay counts.
    const isReset = client.has(flag.reset) || backend.has(flag.reset)
    const ofRoute = isReset ? undefined : service.ages?.idleMs
    const ms = ofRoute ?? this.#env.limits.halfCloseTimeout
    const side = client.has(flag.ended) ? backend : client
    return { ms, since: halfClosedAt, side, isDrained: false }
  }

  /**
   * Nothing was read for long, but megabytes may still be on their way from the kernel to
   * a slow reader: what it has left to send is looked at half-way and at the end.
   */
  #isIdle(connection: Connection, watched: Watched, limit: Limit): boolean {
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
    const left = dueOf(limit, watched) - now
    if (left > limit.ms / 2) return false
    const unsent = this.#unsent(connection.client) + this.#unsent(connection.backend)
    const isMoving = unsent < watched.unsent
    watched.unsent = unsent
    if (isMoving) watched.movedAt = now
    return !isMoving && left <= 0
  }

  /** What was read from a side and is held, and what its peer has not acknowledged. */
  #unsent(side: Side): number {
    return (side.held?.length ?? 0) + side.piped + this.#sockets.unacknowledged(side.fd)
  }
}

const dueOf = ({ ms, since }: Limit, { movedAt }: Watched): number =>
  Math.max(since, movedAt) + ms

const tickOf = (shortestMs: number): number =>
  Math.max(10, Math.min(longestTickMs, shortestMs / 8))

const movedBy = (connection: Connection): number | undefined => {
  const { state, client, backend } = connection
  return state === 'open' && !client.holds && !backend.holds
    ? bytesOf(connection)
    : undefined
}

const bytesOf = ({ client, backend }: Connection): number => client.bytes + backend.bytes
