import { takeEarlyClose } from '../../early-close.ts'
import type { EventSource } from '../event-loop.ts'
import { keepAliveAfterMs } from '../keep-alive.ts'
import type { TimerWheel } from '../timer-wheel.ts'
import type { WorkerEnv } from '../worker/worker-env.ts'
import { allEvents, type Connection, flag, Side } from './connection.ts'
import type { Sending } from './sending.ts'

/** Endpoints that end before their first byte: others are dialled in their place. */
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
    const { service, choice, attempts, client, endpoint: backend } = connection
    if (backend === undefined) return false
    const { now } = this.#env.loop
    const [ms, age] = [now - connection.connectedAt, now - connection.acceptedAt]
    const repeatable = isRepeatable(client)
    const ended = { service, backend, choice, attempts, ms, age, repeatable }
    if (!takeEarlyClose(ended)) return false
    this.#timers.clear(connection)
    this.#sending.sayAgain(client)
    this.#setAside(side, wasReset)
    connection.backend = new Side(connection, true, -1)
    connection.endpoint = undefined
    connection.connectedAt = 0
    connection.state = 'closed-early'
    this.#sending.again(client)
    return true
  }

  /** Another endpoint stands, or the connection is over. */
  forget(connection: Connection): void {
    const { lastEnd } = connection
    if (lastEnd === undefined) return
    connection.lastEnd = undefined
    this.#env.fds.close(lastEnd.fd)
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
    // It is the last one.
    this.#sending.forgetSaid(connection.client)
    this.#timers.set(connection, keepAliveAfterMs, loop.now)
    connection.dial = undefined
    connection.backend = lastEnd
    connection.endpoint = lastEndpoint
    connection.connectedAt = loop.now
    connection.state = 'open'
    lastEndpoint.active += 1
    return true
  }

  /**
   * An end in order is kept, if the client has said nothing: the endpoint may still be reading.
   * Costs a descriptor more; without one to spare the client is reset at the end.
   */
  #setAside(side: Side, wasReset: boolean): void {
    const { connection } = side
    const { fds, loop } = this.#env
    this.forget(connection)
    if (wasReset || connection.client.bytes > 0 || !fds.take(1)) {
      fds.close(side.fd)
    } else {
      loop.remove(side.fd)
      side.set(flag.ended)
      connection.lastEnd = side
      connection.lastEndpoint = connection.endpoint
    }
  }
}

/** Whether all that was sent for a client is kept; an end alone is a question that was answered. */
const isRepeatable = (client: Side): boolean =>
  client.bytes === 0 ? !client.has(flag.ended) : client.said !== undefined
