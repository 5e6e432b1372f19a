import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bind, RelayEndpoint } from '../../src/relay/relay.ts'
import type { Random } from '../fault-run/random.ts'
import { testHost } from '../support/ports.ts'
import { endpoint } from '../support/relay-fixture.ts'
import type { Outcome } from './client.ts'
import { pattern } from './pattern.ts'

export interface UdpServer {
  readonly endpoint: RelayEndpoint
  readonly close: () => Promise<void>
}

/** Sends every datagram back. */
export const startUdpServer = async (): Promise<UdpServer> => {
  const socket = createSocket({ type: 'udp4', recvBufferSize: 1 << 20 })
  socket.on('error', () => undefined)
  socket.on('message', (message, { port, address }) =>
    socket.send(message, port, address),
  )
  socket.bind(0, testHost)
  await once(socket, 'listening')
  return {
    endpoint: endpoint(testHost, socket.address().port),
    close: async () => void socket.close(),
  }
}

const answersWithinMs = 400
/** UDP may lose, and a flow's first datagrams go to an endpoint that is gone. */
const mostTries = 8
const longest = 8000

/** A flow of a few datagrams, each checked, the next when the last has come back. */
export const udpVisit = async (
  random: Random,
  { address, port }: Bind,
): Promise<Outcome & { readonly lost: number }> => {
  const socket = createSocket('udp4')
  socket.on('error', () => undefined)
  const came: Buffer[] = []
  socket.on('message', message => void came.push(message))
  socket.connect(port, address)
  await once(socket, 'connect')
  const echoes = random.between(1, 30)
  let lost = 0
  /** Datagrams that were sent again: their echoes may come late. */
  const repeated: Buffer[] = []
  try {
    for (let nth = 0; nth < echoes; nth += 1) {
      const length = random.chance(0.1) ? 0 : random.between(1, longest)
      const sent = Buffer.from(pattern(random.between(0, 1e6), 0, length))
      let tries = 0
      for (;;) {
        came.length = 0
        socket.send(sent, () => undefined)
        if (await answered(came, sent)) break
        lost += 1
        tries += 1
        if (tries === 1) repeated.push(sent)
        if (tries === mostTries)
          return { verdict: 'failed', why: `no echo of ${length} B`, lost }
      }
      const known = [sent, ...repeated]
      if (!came.every(one => known.some(each => each.equals(one))))
        return { verdict: 'wrong', why: `another echo of ${length} B`, lost }
    }
    return { verdict: 'right', why: '', lost }
  } finally {
    socket.close()
  }
}

const answered = async (came: readonly Buffer[], sent: Buffer): Promise<boolean> => {
  const end = performance.now() + answersWithinMs
  while (performance.now() < end) {
    if (came.some(one => one.equals(sent))) return true
    await sleep(1)
  }
  return false
}
