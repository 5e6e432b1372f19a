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
    // Most are told apart by this alone.
    if (!side.isBackend || side.bytes > 0 || side.has(flag.ended)) return false
    if (connection.state !== 'open') return false
    const unserved = this.#describe(connection)
    const ms = this.#env.loop.now - connection.connectedAt
    if (unserved === undefined || !takeEarlyClose(unserved, ms)) return false
    // The endpoint may still be reading. Of what was said to it nothing may be lost.
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
    // Should no other serve it may answer yet, if it has heard all.
    this.#leave(connection.backend, !connection.client.holds)
    return true
  }

  /** Another endpoint stands, or the connection is over. */
  forget(connection: Connection): void {
    const { lastEnd } = connection
    if (lastEnd === undefined) return
    connection.lastEnd = undefined
    this.#env.fds.close(lastEnd.fd)
    lastEnd.freePlace()
    this.#env.fds.release(1)
  }

  /**
   * No other endpoint could be connected to. True: the last end is the client's to know, as what
   * it was, and that side is the connection's again.
   */
  restore(connection: Connection): boolean {
    const { lastEnd, lastEndpoint } = connection
    if (lastEnd === undefined || lastEndpoint === undefined) return false
    const { loop, fds } = this.#env
    if (loop.add(lastEnd.fd, this.#sides, lastEnd, allEvents) < 0) return false
    connection.lastEnd = undefined
    fds.release(1)
    // It is the last one, and has heard what there was to be said.
    this.#sending.forgetSaid(connection.client)
    this.#sending.drop(connection.client)
    const { header } = connection
    if (header !== undefined && !connection.asksTls && !lastEnd.has(flag.wroteOnce))
      this.#sending.holdBefore(connection.client, header)
    this.#timers.set(connection, keepAliveAfterMs, loop.now)
    connection.dial = undefined
    connection.backend = lastEnd
    connection.endpoint = lastEndpoint
    connection.connectedAt = loop.now
    connection.state = 'open'
    lastEndpoint.active += 1
    return true
  }

  #describe(connection: Connection) {
    const { service, choice, attempts, client, endpoint: backend } = connection
    if (backend === undefined) return undefined
    const repeatable = isRepeatable(client)
    const { bytes: told, said: kept } = client
    const said = kept?.bytes
    const address = (): string => connection.peer.address
    return { service, backend, choice, attempts, repeatable, told, said, address }
  }

  /** The connection is to be dialled for once more, when its client's side has its turn. */
  #leave(side: Side, isKept: boolean): void {
    const { connection } = side
    this.#timers.clear(connection)
    this.#setAside(side, isKept)
    this.#sending.sayAgain(connection.client)
    connection.backend = new Side(connection, true, -1)
    connection.endpoint = undefined
    connection.connectedAt = 0
    connection.state = 'unserved'
    this.#sending.again(connection.client)
  }

  /** Keeping it costs a descriptor more; without one to spare the client is reset at the end. */
  #setAside(side: Side, isKept: boolean): void {
    const { connection } = side
    const { fds, loop } = this.#env
    this.forget(connection)
    if (!isKept || !fds.take(1)) {
      fds.close(side.fd)
      return side.freePlace()
    }
    loop.remove(side.fd)
    connection.lastEnd = side
    connection.lastEndpoint = connection.endpoint
  }
}

/** Whether all that was sent for a client is kept; an end alone is a question that was answered. */
const isRepeatable = (client: Side): boolean =>
  client.bytes === 0 ? !client.has(flag.ended) : client.said !== undefined
