import { takeEarlyClose, takeNoAnswer } from '../../early-close.ts'
import type { EventSource } from '../event-loop.ts'
import { keepAliveAfterMs } from '../keep-alive.ts'
import type { TimerWheel } from '../timer-wheel.ts'
import type { WorkerEnv } from '../worker/worker-backend.ts'
import { allEvents, type Connection, flag, Side } from './connection.ts'
import type { Sending } from './sending.ts'

/** Endpoints that end before their first byte, or have no answer: others are dialled in their place. */
export class EarlyCloses {
  readonly #env: WorkerEnv
  readonly #timers: TimerWheel<Connection>
  readonly #sending: Sending
  readonly #sides: EventSource<Side>

  /** `sides` handles the events of sides. */
  constructor(
    env: WorkerEnv,
    timers: TimerWheel<Connection>,
    sending: Sending,
    sides: EventSource<Side>,
  ) {
    this.#env = env
    this.#timers = timers
    this.#sending = sending
    this.#sides = sides
  }

  /**
   * A side of an open connection has ended. True: it was an endpoint too early, and the
   * connection is to be dialled for once more, when its client's side has its turn.
   */
  take(side: Side, wasReset: boolean): boolean {
    const { connection } = side
    // This alone decides for most.
    if (!side.isBackend || side.bytes > 0 || side.has(flag.ended)) return false
    if (connection.state !== 'open') return false
    const unserved = this.#describe(connection)
    const ms = this.#env.loop.now - connection.connectedAt
    if (unserved === undefined || !takeEarlyClose(unserved, ms)) return false
    // The endpoint may still be reading. Nothing that was sent to it may be lost.
    const { client } = connection
    // A header was written as a whole, or it was not; else it does not know who the client is.
    const isWhole = !client.holds || !side.has(flag.wroteOnce)
    this.#leave(side, !wasReset && client.bytes === 0 && isWhole)
    side.set(flag.ended)
    return true
  }

  /** The time for an answer is over. True: as for `take`. */
  takeNoAnswer(connection: Connection): boolean {
    const unserved = this.#describe(connection)
    if (unserved === undefined || !takeNoAnswer(unserved)) return false
    // Should no other serve it may answer yet, if it has received all.
    this.#leave(connection.backend, !connection.client.holds)
    return true
  }

  /** Another endpoint stands, or the connection is over. */
  dropHeld(connection: Connection): void {
    const { heldUpstream } = connection
    if (heldUpstream === undefined) return
    connection.heldUpstream = undefined
    this.#env.fds.close(heldUpstream.fd)
    heldUpstream.freePlace()
    this.#env.fds.release(1)
  }

  /**
   * No other endpoint could be connected to. True: the client gets the held endpoint, however that
   * has ended, and its side is the connection's again.
   */
  restore(connection: Connection): boolean {
    const { heldUpstream, heldEndpoint } = connection
    if (heldUpstream === undefined || heldEndpoint === undefined) return false
    const { loop, fds } = this.#env
    if (loop.add(heldUpstream.fd, this.#sides, heldUpstream, allEvents) < 0) return false
    connection.heldUpstream = undefined
    fds.release(1)
    // It is the last one, and has received all that there was to send.
    this.#sending.dropReplayBuffer(connection.client)
    this.#sending.drop(connection.client)
    const { header } = connection
    if (header !== undefined && !connection.asksTls && !heldUpstream.has(flag.wroteOnce))
      this.#sending.holdBefore(connection.client, header)
    this.#timers.set(connection, keepAliveAfterMs, loop.now)
    connection.endDial()
    connection.backend = heldUpstream
    connection.endpoint = heldEndpoint
    connection.connectedAt = loop.now
    connection.state = 'open'
    heldEndpoint.active += 1
    return true
  }

  #describe(connection: Connection) {
    const { service, choice, attempts, client, endpoint: backend } = connection
    if (backend === undefined) return undefined
    const isReplayable = canReplay(client)
    const { bytes: clientBytes, replayBuffer } = client
    const replayBytes = replayBuffer?.bytes
    const address = (): string => connection.peer.address
    return {
      service,
      backend,
      choice,
      attempts,
      isReplayable,
      clientBytes,
      replayBytes,
      address,
    }
  }

  /** The connection is to be dialled for once more, when its client's side has its turn. */
  #leave(side: Side, isHeld: boolean): void {
    const { connection } = side
    this.#timers.clear(connection)
    this.#holdOrClose(side, isHeld)
    this.#sending.resend(connection.client)
    connection.backend = new Side(connection, true, -1)
    connection.endpoint = undefined
    connection.connectedAt = 0
    connection.state = 'unserved'
    this.#sending.again(connection.client)
  }

  /** Holding it open costs a descriptor more; without one to spare the client is reset at the end. */
  #holdOrClose(side: Side, isHeld: boolean): void {
    const { connection } = side
    const { fds, loop } = this.#env
    this.dropHeld(connection)
    if (!isHeld || !fds.take(1)) {
      fds.close(side.fd)
      return side.freePlace()
    }
    loop.remove(side.fd)
    connection.heldUpstream = side
    connection.heldEndpoint = connection.endpoint
  }
}

/** Whether all that was sent for a client is kept; an end alone counts as a request that was answered. */
const canReplay = (client: Side): boolean =>
  client.bytes === 0 ? !client.has(flag.ended) : client.replayBuffer !== undefined
