import type { OpenConnection } from '../../open-connections.ts'
import { joinHostPort } from '../../../util/ip.ts'
import { type Connection, flag } from './connection.ts'
import type { SocketCalls } from './socket-calls.ts'

/** What there is to say of a connection that has not ended; asks the kernel of its two sockets. */
export const describe = (
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
  if (state === 'dialling' || state === 'unserved' || state === 'asking')
    return dial?.isHeld === true ? 'waiting' : 'dialling'
  const over = flag.ended | flag.finished
  return state === 'open' && !client.has(over) && !backend.has(over) ? 'open' : 'ending'
}
