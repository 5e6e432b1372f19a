import type { Choice } from '../../front.ts'
import type { GiveUpCause } from '../../retry-plan.ts'
import {
  EPOLLERR,
  EPOLLHUP,
  EPOLLIN,
  EPOLLOUT,
  EPOLLPRI,
  EPOLLRDHUP,
} from '../constants.ts'
import { errno } from '../errno.ts'
import type { EventSource } from '../event-loop.ts'
import type { NativeMemory } from '../native-memory.ts'
import { TimerWheel } from '../timer-wheel.ts'
import type { WorkerBackend } from '../worker/worker-backend.ts'
import type { WorkerEnv } from '../worker/worker-env.ts'
import {
  backendSide,
  clientSide,
  connectionOf,
  ConnectionTable,
  flag,
  isBackend,
  opposite,
  state,
} from './connection-table.ts'
import { Copying } from './copying.ts'
import { quietEvents } from './side-events.ts'
import { type Dialler, Dialling } from './dialling.ts'
import { Ending } from './ending.ts'
import { Patrol } from './patrol.ts'
import { PipePool } from './pipe-pool.ts'
import type { TcpListener } from './tcp-listener.ts'

/** Connections that last so long get keep-alive; most are over before. */
const keepAliveAfterMs = 5000
/** And have their endpoint's round-trip time looked at so often. */
const lookMs = 60_000
const tickMs = 8

/**
 * All TCP connections of a worker: accepted, dialled, copied both ways, ended, recorded.
 * Edge-triggered: an event says what has changed, and `flag` remembers it until it is used.
 */
export class TcpConnections implements EventSource, Dialler {
  readonly table = new ConnectionTable()
  readonly #env: WorkerEnv
  readonly #source: number
  readonly #timers: TimerWheel
  readonly #pipes: PipePool
  readonly #copying: Copying
  readonly #dialling: Dialling
  readonly #ending: Ending
  readonly #patrol: Patrol

  constructor(env: WorkerEnv) {
    const { loop } = env
    const { table } = this
    this.#env = env
    this.#source = loop.register(this)
    this.#timers = new TimerWheel(tickMs, connection => this.#timer(connection))
    loop.addTimers(this.#timers)
    this.#pipes = new PipePool(env.calls, env.fds)
    this.#ending = new Ending(
      env,
      table,
      this.#timers,
      () => this.#copying,
      connection => this.#patrol.halfClosed(connection),
      connection => this.#patrol.ended(connection),
    )
    this.#patrol = new Patrol(env, table, this.#ending)
    this.#copying = new Copying(env, table, this.#pipes, this.#ending, this.#source)
    this.#dialling = new Dialling(env, table, this.#timers, this, this.#source)
  }

  /** A client that may connect; its two descriptors are paid for. `peer`: its address. */
  begin(
    listener: TcpListener,
    fd: number,
    peer: NativeMemory,
    choice: Choice<WorkerBackend>,
  ): void {
    const connection = this.table.add(listener, fd, peer, this.#env.loop.now)
    this.table.choice[connection] = choice
    const side = clientSide(connection)
    try {
      // A client that leaves while it is being dialled for is noticed too.
      const watched = this.#env.loop.add(fd, this.#source, side, quietEvents)
      if (watched < 0) return this.#ending.kill(connection, 'RC', 'epoll_ctl')
      this.#patrol.begun(connection)
      this.#dialling.start(connection)
    } catch (error) {
      // Not for whoever accepted: there it is no connection.
      this.failed(side, error)
    }
  }

  ready(side: number, events: number): void {
    const connection = connectionOf(side)
    const { table } = this
    // Asked for by a connection that had the number before.
    if (events === 0 && !table.has(side, flag.queued)) return
    table.unset(side, flag.queued)
    switch (table.state[connection] ?? state.free) {
      case state.open:
        return this.#whileOpen(connection, side, events)
      case state.dialling:
        if (isBackend(side)) this.#dialling.firstReady(connection, events)
        else this.#clientWhileDialling(connection, side, events)
        return
      case state.delivering:
        return this.#whileDelivering(side, events)
      default: // It has ended.
    }
  }

  /** Nothing is known of its state any more. */
  failed(side: number, error: unknown): void {
    const connection = connectionOf(side)
    this.#env.teller.fault(this.table.listener[connection]?.name ?? '', error)
    this.#kill(connection, 'internal fault')
  }

  connected(connection: number, events: number): void {
    const { table } = this
    table.state[connection] = state.open
    this.#timers.set(connection, keepAliveAfterMs, this.#env.loop.now)
    const backend = backendSide(connection)
    // It was dialled with all events.
    this.table.set(backend, flag.watchesRoom)
    this.#note(backend, events)
    this.#copying.move(clientSide(connection))
    if (table.state[connection] === state.open) this.#copying.move(backend)
  }

  gaveUp(connection: number, cause: GiveUpCause, detail: string): void {
    this.#ending.kill(connection, cause, detail)
  }

  /** Ends all connections of a listener; how many those were. */
  killAll(listener: TcpListener): number {
    let killed = 0
    for (let connection = 0; connection < this.table.used; connection += 1) {
      if (this.table.listener[connection] !== listener) continue
      this.#kill(connection, 'drain time over')
      killed += 1
    }
    return killed
  }

  /** Resets a client that is not to become a connection. */
  turnAway(fd: number): void {
    this.#ending.turnAway(fd)
  }

  /** Descriptors run out: those of idle pipes are of use elsewhere. */
  exhausted(): void {
    this.#pipes.closeKept()
  }

  #kill(connection: number, detail: string): void {
    const { state: states } = this.table
    if (states[connection] === state.dialling) this.#dialling.cancel(connection)
    if (states[connection] !== state.free) {
      this.#ending.kill(connection, 'KD', detail)
    }
  }

  #whileOpen(connection: number, side: number, events: number): void {
    const { table } = this
    this.#note(side, events)
    if (events === 0) this.#copying.resume(side)
    else this.#copying.move(side)
    if ((events & EPOLLOUT) !== 0 && table.has(side, flag.full)) this.#roomAt(side)
    // A reset is found by reading, which may take for ever where the opposite side takes
    // nothing: the limit of half-closed connections is for this too.
    if ((events & EPOLLERR) !== 0 && table.state[connection] === state.open) {
      this.#patrol.halfClosed(connection)
    }
  }

  #note(side: number, events: number): void {
    let flags = 0
    if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) !== 0) {
      flags = flag.readable
    }
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) !== 0) {
      flags |= flag.hungUp
      // With both FINs there is a hang-up; a reset is an error too.
      if ((events & EPOLLERR) === 0) flags |= flag.finSeen
      else {
        flags |= flag.reset
        this.table.unset(side, flag.finSeen)
      }
    }
    if ((events & EPOLLPRI) !== 0) flags |= flag.urgent
    if (this.table.has(side, flag.ended)) return this.#noteEnded(side, events)
    this.table.set(side, flags)
  }

  /** Its end was read before: what comes now can only be a reset. */
  #noteEnded(side: number, events: number): void {
    if ((events & EPOLLERR) !== 0) this.#ending.broken(side, -errno.ECONNRESET)
  }

  /** What waited for room at `side` goes on. */
  #roomAt(side: number): void {
    const { table } = this
    const from = opposite(side)
    const connection = connectionOf(side)
    // Since the event came: this edge is told of once.
    if (table.state[connection] === state.delivering) {
      return this.#ending.goOnDelivering(connection)
    }
    if (table.state[connection] !== state.open) return
    table.unset(side, flag.full)
    if (table.holds(from) && !this.#copying.flush(from)) return
    if (table.state[connection] === state.open) this.#copying.move(from)
  }

  #clientWhileDialling(connection: number, side: number, events: number): void {
    if ((events & (EPOLLERR | EPOLLHUP)) === 0) return this.#note(side, events)
    this.#ending.blame(connection, 'CC', 'ECONNRESET')
    this.#dialling.cancel(connection)
    this.#ending.abandon(connection)
  }

  #whileDelivering(side: number, events: number): void {
    const { table } = this
    // An event of the side that is closed, which was waiting.
    if (events !== 0 && table.fd[side] === -1) return
    // A hang-up without an error is a FIN after ours: it may go on reading.
    if ((events & EPOLLERR) !== 0) return this.#ending.abandon(connectionOf(side))
    if ((events & EPOLLOUT) !== 0 || events === 0) {
      this.#ending.goOnDelivering(connectionOf(side))
    }
  }

  /** A timer that throws would end the loop, and with it all connections. */
  #timer(connection: number): void {
    // Tens of thousands may be due at once.
    this.#env.signs.beat()
    try {
      this.#expired(connection)
    } catch (error) {
      this.failed(clientSide(connection), error)
    }
  }

  #expired(connection: number): void {
    switch (this.table.state[connection] ?? state.free) {
      case state.dialling:
        return this.#dialling.timer(connection)
      case state.delivering:
        return this.#ending.lookAgain(connection)
      case state.open:
        return this.#lasts(connection)
      default: // It has ended.
    }
  }

  #lasts(connection: number): void {
    const { now } = this.#env.loop
    const since = now - (this.table.connectedAt[connection] ?? now)
    if (since < lookMs) this.#patrol.enableKeepAlive(connection)
    this.#ending.sample(connection, false)
    this.#timers.set(connection, lookMs, now)
  }
}
