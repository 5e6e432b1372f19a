import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import type { Test } from 'tap'
import type {
  ConnectionsPage,
  OpenConnection,
} from '../../../src/relay/open-connections.ts'
import type { Relay, RelayListener } from '../../../src/relay/relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { silentBackend } from '../../support/silent-backend.ts'
import { dial, namedEcho } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

/** All open connections of a relay, page by page. */
export const allConnections = async (
  relay: Pick<Relay, 'query'>,
  listeners?: readonly string[],
): Promise<readonly OpenConnection[]> => {
  const found: OpenConnection[] = []
  let after: string | undefined
  do {
    const page = await relay.query('connections', { listeners, after })
    found.push(...page.connections)
    after = page.next
  } while (after !== undefined)
  return found
}

/** Their number alone. */
const countOf = async (relay: Pick<Relay, 'query'>): Promise<number> => {
  let [sum, after]: [number, string | undefined] = [0, undefined]
  do {
    const page: ConnectionsPage = await relay.query('connections', {
      after,
      limit: 0,
    })
    sum += page.counted + page.connections.length
    after = page.next
  } while (after !== undefined)
  return sum
}

/** Connections are listed, and closed by their ids. */
export const tcpConnectionsContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test) => {
    const fixture = relayFixture(t, make)
    const port = await freeTcpPort()
    const binds = [{ address: testHost, port }]
    const backend = await namedEcho(t, 'alive')
    const listen = (over: Partial<RelayListener> = {}) =>
      fixture.listen({ binds, endpoints: [backend.endpoint], ...over })
    await listen()
    return { ...fixture, port, backend, listen }
  }
  const open = async (t: Test, port: number): Promise<Socket> => {
    const socket = dial(t, port)
    await once(socket, 'data')
    return socket.on('error', () => {})
  }
  const nameOf = ({ localAddress, localPort }: Socket): string =>
    `${localAddress}:${localPort}`
  const howItEnds = (socket: Socket): Promise<string> =>
    new Promise(resolve => {
      socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''))
      socket.on('end', () => resolve('end'))
    })

  t.test('each is told with what it is doing', async t => {
    const { relay, port, backend, listen } = await setUp(t)
    t.strictSame(await allConnections(relay), [])
    const [one, two] = [await open(t, port), await open(t, port)]
    one.write('four')
    await once(one, 'data')
    two.end()
    await once(two, 'end')
    const stateOf = async (socket: Socket) =>
      (await allConnections(relay)).find(({ client }) => client === nameOf(socket))
    t.match(await stateOf(one), {
      id: /^\d+-[0-9a-z]+-\d+$/,
      listener: 'test/service:port',
      endpoint: backend.endpoint.key,
      state: 'open',
      bytesToBackend: 4,
      bytesToClient: 9,
    })
    await until('one that is over is not told of', async () => !(await stateOf(two)))
    const told = await stateOf(one)
    t.ok((told?.ageMs ?? -1) >= 0 && (told?.ageMs ?? Infinity) < 60_000)
    t.ok((told?.idleMs ?? 0) <= (told?.ageMs ?? 0) + 1000)

    const silent = await silentBackend(t)
    await listen({ endpoints: [silent] })
    const dialling = dial(t, port).on('error', () => {})
    await once(dialling, 'connect')
    await until('it is dialled for', async () => {
      const found = await stateOf(dialling)
      return found?.state === 'dialling' && found.endpoint === ''
    })
    await listen({ paused: true })
    await until('it waits', async () => (await stateOf(dialling))?.state === 'waiting')
    t.strictSame(await allConnections(relay, ['other']), [])
    t.equal(await countOf(relay), (await allConnections(relay)).length)
  })

  t.test('one of which a side has ended is ending', async t => {
    const { relay, port, listen } = await setUp(t)
    // It says nothing and does not end.
    const deaf = createServer({ allowHalfOpen: true }, socket => {
      socket.on('error', () => {})
      socket.resume()
    }).listen(0, testHost)
    await once(deaf, 'listening')
    t.teardown(() => void deaf.close())
    const { port: at } = deaf.address() as { port: number }
    await listen({
      endpoints: [{ key: `${testHost}:${at}`, address: testHost, port: at }],
    })
    const socket = dial(t, port)
    await once(socket, 'connect')
    socket.on('error', () => {}).end('x')
    await until(
      'it is so',
      async () => (await allConnections(relay))[0]?.state === 'ending',
    )
    const [one] = await allConnections(relay)
    t.strictSame(await relay.query('close-connections', [one?.id ?? '']), [one?.id])
  })

  t.test('one is reset by its id, and no other', async t => {
    const { relay, port, records } = await setUp(t)
    const [one, two] = [await open(t, port), await open(t, port)]
    const ends = howItEnds(one)
    const name = nameOf(one)
    const found = (await allConnections(relay)).find(({ client }) => client === name)
    const id = found?.id ?? ''
    const others = ['', 'x', '0-0-1', `${id}0`, id.replace(/\d+$/, '999'), '99-a-1']
    t.strictSame(await relay.query('close-connections', others), [])
    t.strictSame(await relay.query('close-connections', [...others, id, id]), [id])
    t.equal(await ends, 'ECONNRESET')
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], {
      client: name,
      cause: 'KD',
      detail: 'closed by an operator',
    })
    t.strictSame(await relay.query('close-connections', [id]), [], 'it has ended')
    two.write('still there')
    t.equal(String(await once(two, 'data')), 'still there')
    const next = await open(t, port)
    const ids = (await allConnections(relay)).map(each => each.id)
    t.equal(ids.length, 2)
    t.notOk(ids.includes(id), 'it is not used again')
    next.destroy()
  })

  t.test('one that waits is reset, too', async t => {
    const { relay, port, listen, stats } = await setUp(t)
    await listen({ paused: true })
    const socket = dial(t, port)
    const ends = howItEnds(socket)
    await until('it waits', () => stats().counters.held === 1)
    const [one] = await allConnections(relay)
    t.strictSame(await relay.query('close-connections', [one?.id ?? '']), [one?.id])
    t.equal(await ends, 'ECONNRESET')
    await until('it waits no more', () => stats().counters.held === 0)
  })

  t.test('many are told in parts, each once', async t => {
    const { relay, port } = await setUp(t)
    const sockets = await Promise.all(Array.from({ length: 250 }, () => open(t, port)))
    const told = await allConnections(relay)
    t.strictSame(new Set(told.map(({ client }) => client)), new Set(sockets.map(nameOf)))
    t.equal(new Set(told.map(({ id }) => id)).size, 250)
    const first = await relay.query('connections', {})
    t.ok(first.connections.length <= 100)
    const closed = await relay.query(
      'close-connections',
      told.map(({ id }) => id),
    )
    t.equal(closed.length, 250)
    await until('none is left', async () => (await allConnections(relay)).length === 0)
  })
}
