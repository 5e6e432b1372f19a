import {
  IPPROTO_TCP,
  SO_KEEPALIVE,
  SOL_SOCKET,
  TCP_KEEPCNT,
  TCP_KEEPIDLE,
  TCP_KEEPINTVL,
  TCP_USER_TIMEOUT,
} from '../constants.ts'
import type { NativeMemory } from '../native-memory.ts'
import type { WorkerEnv } from '../worker/worker-env.ts'
import {
  backendSide,
  clientSide,
  type ConnectionTable,
  flag,
  state,
} from './connection-table.ts'
import type { Ending } from './ending.ts'

interface Watched {
  bytes: number
  movedAt: number
  /** Bytes the kernel had not delivered at the last look. */
  unsent: number
}

const longestTickMs = 1000

/**
 * Does at leisure, for all connections together, what would cost each of them a timer or
 * system calls: idle limits, and keep-alive for those that last.
 */
export class Patrol {
  readonly #env: WorkerEnv
  readonly #table: ConnectionTable
  readonly #ending: Ending
  readonly #halfClosed = new Map<number, Watched>()
  /** With an idle limit for whole connections: what they had moved, and when. */
  readonly #open = new Map<number, Watched>()
  readonly #tickMs: number
  readonly #value: NativeMemory
  #isTicking = false

  constructor(env: WorkerEnv, table: ConnectionTable, ending: Ending) {
    const { halfCloseIdleMs, tcpIdleMs } = env.limits
    this.#env = env
    this.#table = table
    this.#ending = ending
    const shortest =
      tcpIdleMs > 0 ? Math.min(halfCloseIdleMs, tcpIdleMs) : halfCloseIdleMs
    this.#tickMs = Math.max(10, Math.min(longestTickMs, shortest / 8))
    this.#value = env.calls.allocate(4)
  }

  begun(connection: number): void {
    if (this.#env.limits.tcpIdleMs === 0) return
    this.#watch(this.#open, connection)
  }

  /**
   * A connection with one end gone must not stay for ever (kubernetes/kubernetes#18354:
   * 14 500 connections in FIN_WAIT2).
   */
  halfClosed(connection: number): void {
    if (!this.#halfClosed.has(connection)) this.#watch(this.#halfClosed, connection)
  }

  ended(connection: number): void {
    if (this.#halfClosed.size > 0) this.#halfClosed.delete(connection)
    if (this.#open.size > 0) this.#open.delete(connection)
  }

  /** For a connection that lasts; accepted sockets have it from the listening one. */
  enableKeepAlive(connection: number): void {
    const { limits } = this.#env
    const { keepAliveIdleMs = 15_000, keepAliveIntervalMs = 1000 } = limits
    const { keepAliveProbes = 10, userTimeoutMs = 0 } = limits
    const fd = this.#table.fd[backendSide(connection)] ?? -1
    if (fd < 0) return
    if (userTimeoutMs > 0) this.#set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, userTimeoutMs)
    if (keepAliveIdleMs === 0) return
    const idle = Math.max(1, Math.round(keepAliveIdleMs / 1000))
    const interval = Math.max(1, Math.round(keepAliveIntervalMs / 1000))
    this.#set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle)
    this.#set(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval)
    this.#set(fd, IPPROTO_TCP, TCP_KEEPCNT, keepAliveProbes)
    this.#set(fd, SOL_SOCKET, SO_KEEPALIVE, 1)
  }

  #set(fd: number, level: number, name: number, value: number): void {
    this.#value.words[0] = value
    this.#env.calls.setsockopt(fd, level, name, this.#value.address, 4)
  }

  #watch(all: Map<number, Watched>, connection: number): void {
    const bytes = this.#moved(connection)
    all.set(connection, { bytes, movedAt: this.#env.loop.now, unsent: 0 })
    this.#start()
  }

  #start(): void {
    if (this.#isTicking) return
    this.#isTicking = true
    this.#env.loop.clock.setTimeout(() => this.#tick(), this.#tickMs)
  }

  #tick(): void {
    this.#isTicking = false
    const { limits, signs } = this.#env
    const { halfCloseIdleMs, tcpIdleMs } = limits
    for (const [connection, watched] of this.#halfClosed) {
      signs.beat()
      const isIdle = this.#isIdle(connection, watched, halfCloseIdleMs)
      if (isIdle) this.#ending.idle(this.#openWay(connection))
    }
    for (const [connection, watched] of this.#open) {
      signs.beat()
      if (this.#isIdle(connection, watched, tcpIdleMs)) {
        this.#ending.idle(clientSide(connection))
      }
    }
    if (this.#halfClosed.size + this.#open.size > 0) this.#start()
  }

  /**
   * Nothing was read for long, but megabytes may still be on their way from the kernel to
   * a slow reader: what it has left to send is looked at half-way and at the end.
   */
  #isIdle(connection: number, watched: Watched, limitMs: number): boolean {
    // Both have limits of their own; a dial has attempts that it alone knows how to end.
    if (this.#table.state[connection] !== state.open) return false
    const { now } = this.#env.loop
    const bytes = this.#moved(connection)
    if (bytes !== watched.bytes) {
      watched.bytes = bytes
      watched.movedAt = now
      watched.unsent = 0
      return false
    }
    const idle = now - watched.movedAt
    if (idle < limitMs / 2) return false
    const unsent =
      this.#unsent(clientSide(connection)) + this.#unsent(backendSide(connection))
    const isMoving = unsent < watched.unsent
    watched.unsent = unsent
    if (isMoving) watched.movedAt = now
    return !isMoving && idle >= limitMs
  }

  /** What was read from a side and is held, and what its peer has not acknowledged. */
  #unsent(side: number): number {
    const held = this.#table.stuck[side]?.length ?? 0
    return held + (this.#table.piped[side] ?? 0) + this.#ending.unsent(side)
  }

  /** The side that could still send. */
  #openWay(connection: number): number {
    const client = clientSide(connection)
    return this.#table.has(client, flag.ended) ? backendSide(connection) : client
  }

  #moved(connection: number): number {
    const { bytes } = this.#table
    return (bytes[clientSide(connection)] ?? 0) + (bytes[backendSide(connection)] ?? 0)
  }
}
