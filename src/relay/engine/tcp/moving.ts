import { GrowingBytes } from '../../../util/growing-bytes.ts'
import { addressWords } from '../../../util/cidr.ts'
import { DialAttempt } from '../../attempts.ts'
import { clientKey } from '../../client-table.ts'
import type {
  BatchLimits,
  GivenConnections,
  MovedAttempt,
  MovedConnection,
  MovedSide,
  Staying,
} from '../../hand-over/moved.ts'
import { bindKey, type RelayEndpoint } from '../../relay.ts'
import type { EventSource } from '../event-loop.ts'
import { readSockaddr } from '../sockaddr.ts'
import { isFar } from '../rings.ts'
import { keepAliveAfterMs } from '../keep-alive.ts'
import type { LinkedSet } from '../../../util/linked-set.ts'
import type { ConnectionIds } from '../../open-connections.ts'
import type { TimerWheel } from '../timer-wheel.ts'
import { WorkerBackend, type WorkerEnv } from '../worker/worker-backend.ts'
import {
  allEvents,
  Connection,
  flag,
  quietEvents,
  type Side,
  type SocketAttempt,
} from './connection.ts'
import type { Ending } from './ending.ts'
import type { IdleLimits } from './idle-limits.ts'
import type { PipePool } from './pipe-pool.ts'
import type { Sending } from './sending.ts'
import type { SocketCalls } from './socket-calls.ts'
import type { TcpService } from './tcp-service.ts'

/** What counts in this process alone: what the kernel says is said again when a socket is watched. */
const ofThisLoop =
  flag.readable | flag.queued | flag.full | flag.watchesRoom | flag.leftUnanswered

/**
 * Connections that pass to another process, and those that come from one. While they are `moving`
 * nothing is read or written here; then they are the other one's, or go on as if nothing had been.
 */
export class Moving {
  readonly #env: WorkerEnv
  readonly #timers: TimerWheel<Connection>
  readonly #pipes: PipePool
  readonly #sending: Sending
  readonly #idleLimits: IdleLimits
  readonly #sockets: SocketCalls
  readonly #ending: Ending
  readonly #sides: EventSource<Side>
  readonly #all: LinkedSet<Connection>
  readonly #ids: ConnectionIds
  #moving: Connection[] = []

  /** `sides` handles the events of sides; `all`: the connections that have not ended. */
  constructor(
    env: WorkerEnv,
    timers: TimerWheel<Connection>,
    pipes: PipePool,
    sending: Sending,
    idleLimits: IdleLimits,
    sockets: SocketCalls,
    ending: Ending,
    sides: EventSource<Side>,
    all: LinkedSet<Connection>,
    ids: ConnectionIds,
  ) {
    this.#env = env
    this.#timers = timers
    this.#pipes = pipes
    this.#sending = sending
    this.#idleLimits = idleLimits
    this.#sockets = sockets
    this.#ending = ending
    this.#sides = sides
    this.#all = all
    this.#ids = ids
  }

  /** Takes some connections of these listeners out of the loop until `settle`. */
  give(
    listeners: ReadonlySet<string>,
    { mostFds, quietMs }: BatchLimits,
  ): GivenConnections {
    const connections: MovedConnection[] = []
    const fds: number[] = []
    let [bytes, busy] = [0, 0]
    for (const connection of this.#all) {
      if (fds.length + mostFdsOfOne > mostFds || bytes > mostBytes) break
      if (whyStays(connection, listeners) !== '') continue
      if (quietMs > 0 && !this.#isQuiet(connection, quietMs)) {
        if ((busy += 1) > mostBusy) break
        continue
      }
      this.#leave(connection)
      this.#moving.push(connection)
      connections.push(this.#describe(connection))
      fds.push(...descriptorsOf(connection))
      bytes += keptBytes(connection.client) + keptBytes(connection.backend)
    }
    return { connections, fds }
  }

  #isQuiet({ client, backend }: Connection, ms: number): boolean {
    return [client, backend].every(
      ({ fd }) => (this.#sockets.sinceReceived(fd) ?? 0) >= ms,
    )
  }

  /** Why those that are left have not gone. */
  staying(listeners: ReadonlySet<string>): Staying {
    const counts: Record<string, number> = {}
    for (const connection of this.#all) {
      const why = whyStays(connection, listeners) || 'opened meanwhile'
      counts[why] = (counts[why] ?? 0) + 1
    }
    return counts
  }

  /** What was given is the other process's; or it is not, and goes on here. */
  settle(isTaken: boolean): void {
    for (const connection of this.#moving.splice(0)) {
      this.#env.signs.beat()
      if (isTaken) this.#ending.handedOver(connection)
      else this.#takeBack(connection)
    }
  }

  /** One that another process has given; its descriptors are this worker's and paid for. */
  adopt(
    service: TcpService,
    moved: MovedConnection,
    fds: Iterator<number, number>,
  ): void {
    const connection = this.#made(service, moved, fds)
    this.#all.add(connection)
    service.begun()
    if (isFar(connection.ttl ?? 0)) service.far += 1
    const { endpoint, backend } = connection
    if (endpoint !== undefined) endpoint.active += 1
    backend.takePlace(endpoint?.places)
    // Its dial may have come to its end only after the other process has said whom affinity leads where.
    if (moved.connectedMs < youngMs)
      service.balancer.adoptRemembered([
        [connection.peer.address, moved.endpoint.key, moved.connectedMs],
      ])
    this.#count(connection)
    this.#idleLimits.adopted(connection, moved)
    this.#watch(connection)
  }

  #leave(connection: Connection): void {
    const { loop } = this.#env
    const { client, backend } = connection
    this.#timers.clear(connection)
    // By its close alone it would not leave: the other process has the same open file (epoll(7), Q6).
    loop.remove(client.fd)
    loop.remove(backend.fd)
    this.#sending.dropEmptyPipe(client)
    this.#sending.dropEmptyPipe(backend)
    connection.state = 'moving'
  }

  #takeBack(connection: Connection): void {
    const { end } = connection
    connection.state = 'open'
    // It was to end meanwhile.
    if (end !== undefined) return this.#ending.kill(connection, end.cause, end.detail)
    this.#watch(connection)
  }

  /** Edge-triggered, and yet nothing is missed: what there is already is told again. */
  #watch(connection: Connection): void {
    const { loop } = this.#env
    const { client, backend, service, awaitsAnswer } = connection
    const { answerMs = keepAliveAfterMs } = service.retry ?? {}
    this.#timers.set(connection, awaitsAnswer ? answerMs : keepAliveAfterMs, loop.now)
    for (const side of [client, backend]) {
      const watchesRoom = side.has(flag.watchesRoom) || side.opposite.holds
      if (watchesRoom) side.set(flag.watchesRoom)
      if (side.opposite.holds) side.set(flag.full)
      const events = watchesRoom ? allEvents : quietEvents
      if (loop.add(side.fd, this.#sides, side, events) < 0)
        return this.#ending.kill(connection, 'RC', 'epoll_ctl')
    }
  }

  #describe(connection: Connection): MovedConnection {
    const { now } = this.#env.loop
    const { service, endpoint, watched, client, backend, ttl, dialled } = connection
    const { key = '', address = '', port = 0 } = endpoint ?? {}
    return {
      listener: service.id,
      endpoint: { key, address, port },
      peer: [...connection.peerWords()],
      acceptedMs: now - connection.acceptedAt,
      connectedMs: now - connection.connectedAt,
      heldMs: connection.heldMs,
      queuedMs: connection.queuedMs,
      awaitsAnswer: connection.awaitsAnswer,
      asksTls: connection.asksTls,
      attempts: connection.attempts.map(
        ({ backend: { key: tried }, result, ms, unservedAfter }) => ({
          endpoint: tried,
          result,
          ms,
          unservedAfter,
        }),
      ),
      client: describeSide(client),
      backend: describeSide(backend),
      ttl,
      dialled,
      header: connection.header?.toString('base64'),
      halfClosedMs: since(watched?.halfClosedAt, now),
      quietMs: watched && since(Math.max(watched.since, watched.movedAt), now),
    }
  }

  #made(
    service: TcpService,
    moved: MovedConnection,
    fds: Iterator<number, number>,
  ): Connection {
    const { now } = this.#env.loop
    const client = fds.next().value
    const peer = { words: Int32Array.from(moved.peer) }
    const at = now - moved.acceptedMs
    const { address } = readSockaddr({ view: new DataView(peer.words.buffer) }, 0)
    const local = this.#sockets.localEnd(client)
    const choice = service.fronts.choiceOfAdopted(bindKey(local), address, local.address)
    const connection = new Connection(service, choice, client, peer, at, this.#ids.next())
    const { backend, attempts } = moved
    connection.backend.fd = fds.next().value
    connection.state = 'open'
    connection.connectedAt = now - moved.connectedMs
    connection.endpoint = endpointOf(service, moved.endpoint)
    connection.heldMs = moved.heldMs
    connection.queuedMs = moved.queuedMs
    connection.awaitsAnswer = moved.awaitsAnswer
    connection.asksTls = moved.asksTls
    connection.ttl = moved.ttl
    connection.dialled = moved.dialled
    connection.header = bytesOf(moved.header)
    connection.attempts = attempts.map(one => attemptOf(connection, one, now))
    this.#fill(connection.client, moved.client, fds)
    this.#fill(connection.backend, backend, fds)
    return connection
  }

  #fill(side: Side, moved: MovedSide, fds: Iterator<number, number>): void {
    const { bytes, flags, piped } = moved
    side.bytes = bytes
    side.flags = flags
    const { replay: most = 0 } = side.connection.service.retry ?? {}
    const sent = bytesOf(moved.replay)
    const replay = sent && new GrowingBytes(Math.max(most, sent.length))
    if (sent) replay?.add(sent)
    const pipe =
      piped === 0 ? undefined : this.#pipes.adopt(fds.next().value, fds.next().value)
    this.#sending.adopt(side, bytesOf(moved.held), replay, pipe, piped)
  }

  /** Against the limits of its listener, also where it would be one too many. */
  #count(connection: Connection): void {
    const { limiter } = connection.service
    if (limiter === undefined) return
    const client = clientKey(addressWords(connection.peer.address) ?? [])
    limiter.adopt(client, this.#env.loop.now)
    connection.counted = { limiter, client }
  }
}

/** Since a connection that is older was made another process has said where affinity leads. */
const youngMs = 10_000

/** Two sockets, and two pipes. */
const mostFdsOfOne = 6

/** Where so many are busy, to look for quiet ones would take longer than it spares. */
const mostBusy = 512

/** Beyond that no other goes along: what slow readers have left must fit into one message, in base64. */
const mostBytes = 16 * 2 ** 20

const keptBytes = ({ held, replayBuffer }: Side): number =>
  (held?.length ?? 0) + (replayBuffer?.length ?? 0)

/** Why a connection can't go to another process now; '' when it can. */
const whyStays = (
  { state, service, client, backend }: Connection,
  listeners: ReadonlySet<string>,
): string => {
  if (!listeners.has(service.id)) return 'not served by the new process'
  if (state === 'dialling' || state === 'unserved') return 'not connected yet'
  const isEnding = client.has(flag.broken) || backend.has(flag.broken)
  if (state !== 'open' || isEnding) return 'about to end'
  // Which endpoints it may go on to is known by what was read of it, and that is gone.
  const isPrefaced = service.preface !== undefined && service.retry !== undefined
  return isPrefaced && backend.bytes === 0 ? 'no answer yet' : ''
}

const descriptorsOf = ({ client, backend }: Connection): readonly number[] => [
  client.fd,
  backend.fd,
  ...pipeOf(client),
  ...pipeOf(backend),
]

const pipeOf = ({ pipe }: Side): readonly number[] =>
  pipe === undefined ? [] : [pipe.readEnd, pipe.writeEnd]

const describeSide = ({ flags, bytes, piped, held, replayBuffer }: Side): MovedSide => ({
  flags: flags & ~ofThisLoop,
  bytes,
  piped,
  held: held?.toString('base64'),
  replay: replayBuffer?.bytes.toString('base64'),
})

/** That of the list, or one of its own where it is not there any more. */
const endpointOf = (service: TcpService, endpoint: RelayEndpoint): WorkerBackend =>
  service.listedAt(endpoint.key) ?? new WorkerBackend(endpoint)

const attemptOf = (
  connection: Connection,
  { endpoint, result, ms, unservedAfter }: MovedAttempt,
  now: number,
): SocketAttempt => {
  const where = { key: endpoint, address: '', port: 0 }
  const backend = endpointOf(connection.service, where)
  const none = { won: () => {}, lost: () => {} }
  const attempt: SocketAttempt = new DialAttempt(connection, none, backend, now)
  attempt.dial = undefined
  return Object.assign(attempt, { result, ms, unservedAfter })
}

const since = (at: number | undefined, now: number): number | undefined =>
  at === undefined || at === -Infinity ? undefined : now - at

const bytesOf = (base64: string | undefined): Buffer | undefined =>
  base64 === undefined ? undefined : Buffer.from(base64, 'base64')
