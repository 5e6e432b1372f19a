import type { WorkerEnv } from '../worker/worker-env.ts'
import { type Connection, flag, type Side } from './connection.ts'
import type { SocketCalls } from './socket-calls.ts'

interface Watched {
  bytes: number
  movedAt: number
  /** Bytes the kernel had not delivered at the last look. */
  unsent: number
}

const longestTickMs = 1000

/**
 * Which connections have been idle for too long: looked at together, now and then, because a
 * timer and system calls for each would cost more.
 */
export class IdleLimits {
  readonly #env: WorkerEnv
  readonly #sockets: SocketCalls
  readonly #halfClosed = new Map<Connection, Watched>()
  /** With an idle limit for whole connections: what they had moved, and when. */
  readonly #open = new Map<Connection, Watched>()
  readonly #tickMs: number
  #nextLook = Infinity

  constructor(env: WorkerEnv, sockets: SocketCalls) {
    const { halfCloseTimeout, tcpIdleTimeout } = env.limits
    this.#env = env
    this.#sockets = sockets
    const shortest =
      tcpIdleTimeout > 0 ? Math.min(halfCloseTimeout, tcpIdleTimeout) : halfCloseTimeout
    this.#tickMs = Math.max(10, Math.min(longestTickMs, shortest / 8))
  }

  begun(connection: Connection): void {
    if (this.#env.limits.tcpIdleTimeout > 0) this.#watch(this.#open, connection)
  }

  /**
   * A connection with one end gone must not stay for ever (kubernetes/kubernetes#18354:
   * 14 500 connections in FIN_WAIT2).
   */
  halfClosed(connection: Connection): void {
    if (!this.#halfClosed.has(connection)) this.#watch(this.#halfClosed, connection)
  }

  ended(connection: Connection): void {
    if (this.#halfClosed.size > 0) this.#halfClosed.delete(connection)
    if (this.#open.size > 0) this.#open.delete(connection)
  }

  /** Milliseconds until the next look. */
  wait(now: number): number {
    return Math.max(this.#nextLook - now, 0)
  }

  /** Sides that could have sent and did not for too long, to be ended one by one. */
  *overdue(now: number): Generator<Side> {
    if (now < this.#nextLook) return
    const { limits, signs } = this.#env
    for (const [connection, watched] of this.#halfClosed) {
      signs.beat()
      if (this.#isIdle(connection, watched, limits.halfCloseTimeout)) {
        yield connection.client.has(flag.ended) ? connection.backend : connection.client
      }
    }
    for (const [connection, watched] of this.#open) {
      signs.beat()
      if (this.#isIdle(connection, watched, limits.tcpIdleTimeout))
        yield connection.client
    }
    const isDone = this.#halfClosed.size + this.#open.size === 0
    this.#nextLook = isDone ? Infinity : now + this.#tickMs
  }

  #watch(all: Map<Connection, Watched>, connection: Connection): void {
    const { now } = this.#env.loop
    all.set(connection, { bytes: bytesOf(connection), movedAt: now, unsent: 0 })
    this.#nextLook = Math.min(this.#nextLook, now + this.#tickMs)
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

const bytesOf = ({ client, backend }: Connection): number => client.bytes + backend.bytes
