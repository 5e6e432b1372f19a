import type { Socket } from 'node:net'
import { joinHostPort, unmapped } from '../../util/ip.ts'
import type { Clock } from '../../util/clock.ts'
import type { Cause } from '../cause.ts'
import type { EndRecord } from './end-record.ts'
import {
  closedDetail,
  ConnectionIds,
  connectionsPage,
  serialsOf,
  type ConnectionsPage,
  type ConnectionsQuery,
  type OpenConnection,
} from '../open-connections.ts'

/** What is looked at of a connection. */
interface Listed {
  readonly acceptedAt: number
  readonly bytesToBackend: number
  readonly bytesToClient: number
  /** While it is dialled for. */
  readonly dial: { readonly isHeld: boolean } | undefined
  readonly endpoint: string
  /** The client's first. */
  readonly sockets: readonly Socket[]
  readonly record: Pick<EndRecord, 'name'>
  kill(cause: Cause, detail: string): void
}

/** All TCP connections of the relay that have not ended. */
export class OpenConnections {
  readonly #clock: Pick<Clock, 'now'>
  /** There is one thread. */
  readonly #ids = new ConnectionIds(0)
  /** In the order of their serials, each with how its listener is called now. */
  readonly #all = new Map<
    Listed,
    { readonly serial: number; readonly name: () => string }
  >()

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
  }

  begun(connection: Listed, name: () => string): void {
    this.#all.set(connection, { serial: this.#ids.next(), name })
  }

  ended(connection: Listed): void {
    this.#all.delete(connection)
  }

  /** Those that come from now on see to it themselves. */
  nameAll(): void {
    for (const connection of this.#all.keys()) connection.record.name()
  }

  page(query: ConnectionsQuery): ConnectionsPage {
    const now = this.#clock.now()
    return connectionsPage(
      this.#all,
      this.#ids,
      query,
      ([, { serial, name }]) => ({ serial, listener: name() }),
      ([connection]) => describe(connection, now),
    )
  }

  /** Resets those with these ids; which of them were open. */
  close(ids: readonly string[]): readonly string[] {
    const serials = serialsOf(this.#ids, ids)
    const closed: string[] = []
    for (const [connection, { serial }] of serials.size > 0 ? this.#all : []) {
      if (!serials.has(serial)) continue
      connection.kill('KD', closedDetail)
      closed.push(this.#ids.idOf(serial))
    }
    return closed
  }
}

const describe = (
  connection: Listed,
  now: number,
): Omit<OpenConnection, 'id' | 'listener'> => {
  const { acceptedAt, endpoint, bytesToBackend, bytesToClient, sockets, dial } =
    connection
  const state =
    dial !== undefined
      ? dial.isHeld
        ? 'waiting'
        : 'dialling'
      : sockets.some(isEnding)
        ? 'ending'
        : 'open'
  const [client] = sockets
  const address = unmapped(client?.remoteAddress ?? '')
  return {
    client: address === '' ? '' : joinHostPort(address, client?.remotePort ?? 0),
    endpoint,
    state,
    ageMs: now - acceptedAt,
    bytesToBackend,
    bytesToClient,
  }
}

const isEnding = ({ readableEnded, writableEnded, destroyed }: Socket): boolean =>
  readableEnded || writableEnded || destroyed
