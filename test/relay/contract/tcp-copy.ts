import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { carryingFds, type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { dial, echoBackend, tcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

const pick = (least: number, most: number): number =>
  least + Math.floor(Math.random() * (most - least + 1))

/** What one side sends: random bytes in random pieces, now and then a pause. */
const sendRandom = async (socket: Socket, total: number): Promise<string> => {
  const hash = createHash('sha256')
  for (let sent = 0; sent < total;) {
    const piece = randomBytes(Math.min(pick(1, 20_000), total - sent))
    hash.update(piece)
    sent += piece.length
    if (!socket.write(piece)) await once(socket, 'drain')
    if (Math.random() < 0.05)
      await new Promise(resolve => setTimeout(resolve, pick(0, 3)))
  }
  return hash.digest('hex')
}

/** Reads to the end, and gives the digest of what came. */
const receive = async (socket: Socket): Promise<string> => {
  const hash = createHash('sha256')
  socket.on('data', chunk => hash.update(chunk))
  await once(socket, 'end')
  return hash.digest('hex')
}

/**
 * Sends, and ends either at once or only when the other side has ended: so that each
 * order of the two ends occurs.
 */
const converse = async (
  socket: Socket,
  bytes: number,
  endsFirst: boolean,
): Promise<{ sent: string; received: string }> => {
  const receiving = receive(socket)
  const sent = await sendRandom(socket, bytes)
  if (!endsFirst) await receiving
  socket.end()
  return { sent, received: await receiving }
}

/** Every byte and both ends of TCP connections, over `host`. */
export const tcpCopyContract = (t: Test, make: MakeRelay, host = testHost): void => {
  t.test(
    'random data in random pieces crosses both ways, whoever ends first',
    async t => {
      const { relay, listen, records, faults } = relayFixture(t, make)
      const port = await freeTcpPort(host)
      const backends: Promise<{ sent: string; received: string }>[] = []
      const backendSaid = new Map<string, { sent: string; received: string }>()
      let clientEndsFirst = true
      const backend = await tcpBackend(
        t,
        socket => {
          backends.push(converse(socket, pick(0, 200_000), !clientEndsFirst))
        },
        host,
      )
      await listen({ binds: [{ address: host, port }], endpoints: [backend.endpoint] })
      const rounds = 10
      const together = 20
      for (let round = 0; round < rounds; round += 1) {
        clientEndsFirst = round % 2 === 0
        backends.length = 0
        const clients = Array.from({ length: together }, () => {
          const socket = dial(t, port, host)
          return converse(socket, pick(0, 200_000), clientEndsFirst)
        })
        const said = await Promise.all(clients)
        for (const one of await Promise.all(backends)) backendSaid.set(one.sent, one)
        for (const client of said) {
          const opposite = backendSaid.get(client.received)
          t.equal(opposite?.received, client.sent, 'the backend got what the client sent')
        }
      }
      await until('all connections are over', () => records.length === rounds * together)
      t.strictSame(
        records.filter(({ cause }) => cause !== '--'),
        [],
      )
      t.strictSame(faults, [])
      await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
    },
  )

  t.test('a client that ends at once still gets the whole answer', async t => {
    const { listen } = relayFixture(t, make)
    const port = await freeTcpPort(host)
    const answer = randomBytes(300_000)
    const backend = await tcpBackend(
      t,
      socket => void socket.resume().on('end', () => socket.end(answer)),
      host,
    )
    await listen({ binds: [{ address: host, port }], endpoints: [backend.endpoint] })
    const client = dial(t, port, host)
    client.end()
    const got = await receive(client)
    t.equal(got, createHash('sha256').update(answer).digest('hex'))
  })

  t.test('what is sent before the endpoint has answered is not lost', async t => {
    const { listen } = relayFixture(t, make)
    const port = await freeTcpPort(host)
    const backend = await echoBackend(t, host)
    await listen({ binds: [{ address: host, port }], endpoints: [backend.endpoint] })
    const client = dial(t, port, host)
    const message = randomBytes(500_000)
    client.write(message)
    client.end()
    t.equal(await receive(client), createHash('sha256').update(message).digest('hex'))
  })

  t.test('the record of a connection says what went where', async t => {
    const { listen, records, stats } = relayFixture(t, make)
    const port = await freeTcpPort(host)
    const backend = await echoBackend(t, host)
    await listen({ binds: [{ address: host, port }], endpoints: [backend.endpoint] })
    const client = dial(t, port, host)
    client.end('twelve bytes')
    await receive(client)
    await until('the connection is recorded', () => records.length === 1)
    const [record] = records
    t.match(record, {
      listener: 'test/service:port',
      endpoint: backend.endpoint.key,
      attempts: [{ endpoint: backend.endpoint.key, result: 'connected' }],
      bytesToBackend: 12,
      bytesToClient: 12,
      cause: '--',
      detail: '',
    })
    t.match(
      record?.client,
      host.includes(':') ? /^\[::1\]:\d+$/ : /^127\.\d+\.\d+\.\d+:\d+$/,
    )
    t.match(stats().counters, {
      accepted: 1,
      active: 0,
      dialAttempts: 1,
      dialRetries: 0,
      bytesToBackend: 12,
      bytesToClient: 12,
    })
  })
}
