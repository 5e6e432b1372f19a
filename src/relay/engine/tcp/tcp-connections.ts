import { addressWords } from '../../../util/cidr.ts'
import { type AddressPort, joinHostPort } from '../../../util/ip.ts'
import { LinkedSet } from '../../../util/linked-set.ts'
import { clientKey } from '../../client-table.ts'
import type { Counted } from '../../connection-limiter.ts'
import { cutOf, drainedDetail } from '../../cut.ts'
import type { Choice } from '../../front.ts'
import { endOfLife } from '../../lifetimes.ts'
import {
  closedDetail,
  ConnectionIds,
  connectionsPage,
  type OpenConnection,
  serialsOf,
  type ConnectionsPage,
  type ConnectionsQuery,
} from '../../open-connections.ts'
import type { RelayListener } from '../../relay.ts'
import { EPOLLERR, EPOLLIN } from '../../../ffi/constants.ts'
import type { EventSource } from '../event-loop.ts'
import { comesRound, fewConnections, isFar, ringText } from '../rings.ts'
import { KeepAlive, keepAliveAfterMs } from '../keep-alive.ts'
import type { NativeMemory } from '../../../ffi/syscalls.ts'
import { TimerWheel } from '../timer-wheel.ts'
import type { WorkerBackend, WorkerEnv } from '../worker/worker-backend.ts'
import { Connection, flag, quietEvents, type Side } from './connection.ts'
import { Copying } from './copying.ts'
import { Dialling } from './dialling.ts'
import { EarlyCloses } from './early-closes.ts'
import { Ending } from './ending.ts'
import { IdleLimits } from './idle-limits.ts'
import { Moving } from './moving.ts'
import { PipePool } from './pipe-pool.ts'
import { Sending } from './sending.ts'
import { SocketCalls } from './socket-calls.ts'
import type { TcpService } from './tcp-service.ts'

/** What is known of a client that is watched, as it has said something before it became a connection. */
export interface Before {
  readonly acceptedAt: number
  /** All that was told of it. */
  readonly events: number
  /** By the header of a proxy. */
  readonly dialled: AddressPort | undefined
  /** Its endpoint is to be asked for TLS, as it has asked. */
  readonly asksTls: boolean
}

/** Connections that last so long have their endpoint's round-trip time looked at so often. */
const checkMs = 60_000
const tickMs = 8

/**
 * All TCP connections of a worker: dialled, copied both ways, ended, recorded. Hands each event
 * and timer to the phase that its connection is in. Edge-triggered: an event says what has
 * changed, and `flag` remembers it until it is used.
 */
export class TcpConnections implements EventSource<Side> {
  readonly #env: WorkerEnv
  /** In the order of their serials. */
  readonly #all = new LinkedSet<Connection>()
  readonly #ids: ConnectionIds
  readonly #sockets: SocketCalls
  readonly #timers: TimerWheel<Connection>
  readonly #pipes: PipePool
  readonly #idleLimits: IdleLimits
  readonly #keepAlive: KeepAlive
  readonly #ending: Ending
  readonly #copying: Copying
  readonly #dialling: Dialling
  readonly #earlyCloses: EarlyCloses
  /** To another process, and from one. */
  readonly moving: Moving

  constructor(env: WorkerEnv) {
    this.#env = env
    const timers = new TimerWheel<Connection>(tickMs, one => this.#expired(one))
    const sockets = new SocketCalls(env.calls)
    const pipes = new PipePool(env.calls, env.fds)
    const sending = new Sending(env, pipes, sockets, this)
    const idleLimits = new IdleLimits(env, sockets)
    const early = new EarlyCloses(env, timers, sending, this)
    const ending = new Ending(env, timers, sending, idleLimits, sockets, early, this.#all)
    const copying = new Copying(env, timers, pipes, sending, idleLimits, ending, sockets)
    this.#ids = new ConnectionIds(env.thread)
    this.#sockets = sockets
    this.#timers = timers
    this.#pipes = pipes
    this.#idleLimits = idleLimits
    this.#keepAlive = new KeepAlive(env.calls, env.limits)
    this.#ending = ending
    this.#earlyCloses = early
    this.#copying = copying
    this.#dialling = new Dialling(env, timers, this, sockets, copying, ending, early)
    this.moving = new Moving(
      env,
      timers,
      pipes,
      sending,
      idleLimits,
      sockets,
      ending,
      this,
      this.#all,
      this.#ids,
    )
    env.loop.addTimers(timers)
    env.loop.addTimers({
      wait: now => idleLimits.wait(now),
      run: now => {
        // Another's timer may be due.
        if (idleLimits.wait(now) > 0) return
        this.#endIdle(now)
        this.#endAged(now)
      },
    })
  }

  /** Those that have not ended. */
  get count(): number {
    return this.#all.size
  }

  /** A client that may connect; its two descriptors are paid for. `peer`: its address. */
  begin(
    service: TcpService,
    choice: Choice<WorkerBackend>,
    fd: number,
    peer: NativeMemory,
    counted?: Counted,
    before?: Before,
  ): void {
    const { loop } = this.#env
    const serial = this.#ids.next()
    const at = before?.acceptedAt ?? loop.now
    const connection = new Connection(service, choice, fd, peer, at, serial)
    connection.counted = counted
    if (before !== undefined) {
      connection.dialled = before.dialled
      connection.asksTls = before.asksTls
    }
    this.#all.add(connection)
    service.begun()
    try {
      // A client that leaves while it is being dialled for is noticed too.
      const watched =
        before === undefined
          ? loop.add(fd, this, connection.client, quietEvents)
          : this.#passed(connection.client, before)
      if (watched < 0) return this.#ending.kill(connection, 'RC', 'epoll_ctl')
      if (service.connections > fewConnections && this.#comesRound(connection))
        return this.#ending.kill(connection, 'PO', ringText)
      this.#idleLimits.begun(connection)
      this.#dialling.start(connection)
    } catch (error) {
      // Not for the code that accepted: there it is no connection.
      this.#ending.failed(connection, error)
    }
  }

  #comesRound(connection: Connection): boolean {
    const { service, client } = connection
    connection.ttl = this.#sockets.ttl(client.fd)
    if (isFar(connection.ttl)) service.far += 1
    return comesRound(connection.ttl, service.far)
  }

  #passed(client: Side, { events }: Before): number {
    this.#env.loop.pass(client.fd, this, client)
    // What has come is not read yet.
    client.note(events | EPOLLIN)
    return 0
  }

  ready(side: Side, events: number): void {
    const { connection } = side
    side.unset(flag.queued)
    switch (connection.state) {
      case 'open':
        return this.#copying.ready(side, events)
      case 'dialling':
        return this.#clientWhileDialling(side, events)
      case 'unserved':
        this.#clientWhileDialling(side, events)
        return connection.isEnded ? undefined : this.#dialling.start(connection)
      case 'delivering':
        return this.#ending.readyWhileDelivering(side, events)
      case 'moving':
      case 'ended': // What was to be called again is over.
    }
  }

  failed({ connection }: Side, error: unknown): void {
    this.#ending.failed(connection, error)
  }

  /** Ends all connections of a ServicePort; how many those were. */
  killAll(service: TcpService): number {
    let killed = 0
    for (const connection of this.#all) {
      if (connection.service !== service) continue
      this.#ending.kill(connection, 'KD', 'drain time over')
      killed += 1
    }
    return killed
  }

  /**
   * Resets those of a ServicePort that are to be cut, and ends dials to such endpoints; when it is
   * paused, all dials.
   */
  changed(service: TcpService, spec: RelayListener, before: RelayListener): void {
    if (service.capacity.hasNewPlaces) this.#takePlaces(service)
    const cut = cutOf(spec, before)
    this.#idleLimits.stillDrained(service, cut)
    if (cut === undefined && spec.paused !== true) return
    for (const connection of this.#all) {
      if (connection.service !== service) continue
      const { dial, endpoint, heldUpstream, heldEndpoint } = connection
      if (heldUpstream !== undefined && cut?.has(heldEndpoint?.key ?? ''))
        this.#earlyCloses.dropHeld(connection)
      if (dial !== undefined && spec.paused === true) dial.pause()
      else if (endpoint !== undefined && cut?.has(endpoint.key))
        this.#ending.kill(connection, 'DD', cut.detailOf(endpoint.key))
      else if (endpoint !== undefined && cut?.isIdleCut(endpoint.key))
        this.#idleLimits.drained(connection)
      else if (cut !== undefined) dial?.cut(cut.dials)
    }
  }

  /** A ServicePort has limits, and had none before: what is open counts, too. */
  limited(service: TcpService): void {
    const { limiter } = service
    if (limiter === undefined) return
    for (const connection of this.#all) {
      if (connection.service !== service || connection.counted !== undefined) continue
      const client = clientKey(addressWords(connection.peer.address) ?? [])
      limiter.adopt(client, this.#env.loop.now)
      connection.counted = { limiter, client }
    }
  }

  /** How long connections of a ServicePort may be there has changed. */
  agesChanged(service: TcpService): void {
    for (const connection of this.#all)
      if (connection.service === service) this.#idleLimits.changed(connection)
  }

  /** Those that were there before their endpoint had a limit count, too. */
  #takePlaces(service: TcpService): void {
    service.capacity.hasNewPlaces = false
    for (const { service: owner, endpoint, backend } of this.#all) {
      if (owner === service && backend.fd >= 0) backend.takePlace(endpoint?.places)
    }
  }

  /** A part of those that are open. */
  page(query: ConnectionsQuery): ConnectionsPage {
    const { now } = this.#env.loop
    return connectionsPage(
      this.#all,
      this.#ids,
      query,
      ({ serial, service }) => ({ serial, listener: service.name }),
      connection => describe(connection, this.#sockets, now),
    )
  }

  /** Resets those with these ids; which of them were open. What may be another process's by now stays. */
  close(ids: readonly string[]): readonly string[] {
    const serials = serialsOf(this.#ids, ids)
    const closed: string[] = []
    for (const connection of serials.size > 0 ? this.#all : []) {
      if (!serials.has(connection.serial) || connection.state === 'moving') continue
      this.#ending.kill(connection, 'KD', closedDetail)
      closed.push(this.#ids.idOf(connection.serial))
    }
    return closed
  }

  /** Resets a client that is not to become a connection. */
  turnAway(fd: number): void {
    this.#ending.turnAway(fd)
  }

  /** Descriptors run out: those of idle pipes are of use elsewhere. */
  exhausted(): void {
    this.#pipes.closeKept()
  }

  /** A reset ends the dialling, a FIN may be a half-close. */
  #clientWhileDialling(side: Side, events: number): void {
    // A hang-up alone is the end of a client at a unix socket, where TCP has a FIN.
    if ((events & EPOLLERR) === 0) {
      side.note(events)
      if (side.has(flag.hungUp)) side.connection.dial?.clientEnded()
      return
    }
    this.#ending.kill(side.connection, 'CC', 'ECONNRESET')
  }

  /** A timer that throws would end the loop, and with it all connections. */
  #expired(connection: Connection): void {
    // Tens of thousands may be due at once.
    this.#env.signs.beat()
    try {
      if (connection.state === 'dialling') connection.dial?.timer()
      else if (connection.state === 'delivering') this.#ending.recheck(connection)
      else if (connection.state !== 'open') return
      else if (connection.awaitsAnswer) this.#unanswered(connection)
      else this.#confirmServing(connection)
    } catch (error) {
      this.#ending.failed(connection, error)
    }
  }

  #unanswered(connection: Connection): void {
    connection.awaitsAnswer = false
    if (this.#earlyCloses.takeNoAnswer(connection)) return
    this.#timers.set(connection, keepAliveAfterMs, this.#env.loop.now)
  }

  #confirmServing(connection: Connection): void {
    const { backend, connectedAt } = connection
    const { now } = this.#env.loop
    // The client's socket has it from the listening one.
    if (now - connectedAt < checkMs && backend.fd >= 0) this.#keepAlive.set(backend.fd)
    this.#copying.confirmServing(connection)
    this.#ending.sampleRoundTrip(connection, false)
    this.#timers.set(connection, checkMs, now)
  }

  #endIdle(now: number): void {
    for (const [side, isDrained] of this.#idleLimits.overdue(now)) {
      try {
        if (isDrained) this.#ending.kill(side.connection, 'DD', drainedDetail)
        else this.#ending.idle(side)
      } catch (error) {
        this.#ending.failed(side.connection, error)
      }
    }
  }

  #endAged(now: number): void {
    for (const { connection, isQuiet } of this.#idleLimits.aged(now)) {
      this.#env.signs.beat()
      try {
        this.#ending.kill(connection, 'LD', endOfLife(isQuiet))
      } catch (error) {
        this.#ending.failed(connection, error)
      }
    }
  }
}

/** What there is to say of a connection that has not ended; asks the kernel of its two sockets. */
const describe = (
  connection: Connection,
  sockets: SocketCalls,
  now: number,
): Omit<OpenConnection, 'id' | 'listener'> => {
  const { client, backend, endpoint, acceptedAt } = connection
  const { address, port } = connection.peer
  const silences = [client, backend].flatMap(({ fd }) =>
    fd < 0 ? [] : (sockets.sinceReceived(fd) ?? []),
  )
  return {
    client: joinHostPort(address, port),
    endpoint: endpoint?.key ?? '',
    state: stateOf(connection),
    ageMs: now - acceptedAt,
    bytesToBackend: client.bytes,
    bytesToClient: backend.bytes,
    idleMs: silences.length === 0 ? undefined : Math.min(...silences),
  }
}

const stateOf = (connection: Connection): OpenConnection['state'] => {
  const { state, dial, client, backend } = connection
  if (state === 'dialling' || state === 'unserved')
    return dial?.isHeld === true ? 'waiting' : 'dialling'
  const over = flag.ended | flag.finished
  return (state === 'open' || state === 'moving') &&
    !client.has(over) &&
    !backend.has(over)
    ? 'open'
    : 'ending'
}
