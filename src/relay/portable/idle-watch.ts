import type { Socket } from 'node:net'
import type { Clock, Timer } from '../../util/clock.ts'
import type { Cause } from '../cause.ts'
import { drainedDetail, idleBeforeCloseMs } from '../cut.ts'
import type { Undelivered } from './undelivered.ts'

export interface WatchedConnection {
  /** `Clock` time at which it was accepted, or its endpoint was connected to or left. */
  readonly begunAt: number
  /** Bytes moved so far, both ways. */
  readonly bytesMoved: number
  readonly sockets: readonly Socket[]
  /** Of its route, where that has one: how long it may be half-closed while nothing moves. */
  readonly halfCloseMs: number | undefined
  /** Checks for a reset that no read reports; false: there is nothing to check any more. */
  stillUnread(): boolean
  enableKeepAlive(): void
  endIdle(): void
  kill(cause: Cause, detail: string): void
}

/** One that is ended when nothing moves for long enough. */
interface Watched {
  readonly limitMs: () => number
  readonly end: () => void
  bytes: number
  movedAt: number
  /** Bytes the kernel had not delivered at the last check; undefined before the first. */
  unsent: number | undefined
}

const keepAliveAfterMs = 5000
const longestTickMs = 200

/**
 * Does for all connections together, by one timer, what would cost each of them system calls
 * or a timer of its own. TCP keep-alive (four calls a socket) is switched on only for
 * connections that last; most are over before. Half-closed ones are looked at now and
 * then to see whether anything still moves.
 */
export class IdleWatch {
  readonly #clock: Clock
  readonly #undelivered: Pick<Undelivered, 'unsent'>
  readonly #halfCloseTimeout: number
  readonly #tickMs: number
  /** In the order of `begunAt`. */
  readonly #young = new Set<WatchedConnection>()
  readonly #halfClosed = new Map<WatchedConnection, Watched>()
  /** To endpoints that are drained, and closed as they are idle. */
  readonly #drained = new Map<WatchedConnection, Watched>()
  /** Only a socket that is read notices a reset. */
  readonly #unread = new Set<WatchedConnection>()
  #timer: Timer | undefined
  /** Looks don't overlap: on a busy host one takes long. */
  #judging = false

  constructor(
    clock: Clock,
    undelivered: Pick<Undelivered, 'unsent'>,
    halfCloseTimeout: number,
  ) {
    this.#clock = clock
    this.#undelivered = undelivered
    this.#halfCloseTimeout = halfCloseTimeout
    this.#tickMs = Math.max(10, Math.min(longestTickMs, halfCloseTimeout / 8))
  }

  /** From now on its times count anew. */
  begun(connection: WatchedConnection): void {
    this.ended(connection)
    this.#young.add(connection)
    this.#start()
  }

  /**
   * A connection with one end gone must not stay for ever (kubernetes/kubernetes#18354:
   * 14 500 connections in FIN_WAIT2).
   */
  halfClosed(connection: WatchedConnection): void {
    if (this.#halfClosed.has(connection)) return
    const limitMs = (): number => connection.halfCloseMs ?? this.#halfCloseTimeout
    this.#watch(this.#halfClosed, connection, limitMs, () => connection.endIdle())
  }

  /** Whether it is over as soon as nothing moves on it. */
  drained(connection: WatchedConnection, isDrained: boolean): void {
    if (!isDrained) this.#drained.delete(connection)
    else if (!this.#drained.has(connection))
      this.#watch(
        this.#drained,
        connection,
        () => idleBeforeCloseMs,
        () => connection.kill('DD', drainedDetail),
      )
  }

  /** One of its sockets is not read: it has ended, or the opposite one has yet to take what there is. */
  unread(connection: WatchedConnection): void {
    this.#unread.add(connection)
    this.#start()
  }

  ended(connection: WatchedConnection): void {
    this.#unread.delete(connection)
    this.#young.delete(connection)
    this.#halfClosed.delete(connection)
    this.#drained.delete(connection)
  }

  #watch(
    all: Map<WatchedConnection, Watched>,
    connection: WatchedConnection,
    limitMs: () => number,
    end: () => void,
  ): void {
    const { bytesMoved: bytes } = connection
    const movedAt = this.#clock.now()
    all.set(connection, { limitMs, end, bytes, movedAt, unsent: undefined })
    this.#start()
  }

  #start(): void {
    if (this.#timer !== undefined) return
    this.#timer = this.#clock.setTimeout(() => this.#tick(), this.#tickMs)
    this.#timer.unref?.()
  }

  #tick(): void {
    this.#timer = undefined
    const now = this.#clock.now()
    for (const connection of this.#young) {
      if (now - connection.begunAt < keepAliveAfterMs) break
      this.#young.delete(connection)
      connection.enableKeepAlive()
    }
    for (const connection of this.#unread)
      if (!connection.stillUnread()) this.#unread.delete(connection)
    this.#checkQuiet(now)
    const size = this.#young.size + this.#unread.size
    if (size + this.#halfClosed.size + this.#drained.size > 0) this.#start()
  }

  #checkQuiet(now: number): void {
    const quiet: Quiet[] = []
    for (const [connection, watched] of [...this.#halfClosed, ...this.#drained]) {
      const bytes = connection.bytesMoved
      if (bytes !== watched.bytes) {
        watched.bytes = bytes
        watched.movedAt = now
        watched.unsent = undefined
        continue
      }
      const idle = now - watched.movedAt
      const hasChecked = watched.unsent !== undefined
      const limitMs = watched.limitMs()
      if (idle >= limitMs || (!hasChecked && idle >= limitMs / 2))
        quiet.push([connection, watched])
    }
    if (quiet.length > 0 && !this.#judging) void this.#judge(quiet, now)
  }

  /**
   * Nothing was read for long, but megabytes may still be on their way from the kernel to
   * a slow reader. What it has left to send is looked at half-way and at the end.
   */
  async #judge(quiet: readonly Quiet[], now: number): Promise<void> {
    this.#judging = true
    const unsent = await this.#undelivered.unsent(
      quiet.map(([connection]) => connection.sockets),
    )
    this.#judging = false
    for (const [i, [connection, watched]] of quiet.entries()) {
      const left = unsent[i] ?? 0
      const before = watched.unsent
      watched.unsent = left
      const isWatched =
        this.#halfClosed.get(connection) === watched ||
        this.#drained.get(connection) === watched
      if (!isWatched) continue
      if (before !== undefined && left < before) watched.movedAt = now
      else if (now - watched.movedAt >= watched.limitMs()) watched.end()
    }
  }
}

type Quiet = readonly [WatchedConnection, Watched]
