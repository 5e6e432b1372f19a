import { once } from 'node:events'
import t from 'tap'
import { FakeClock } from '../../support/fake-clock.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { endpoint as endpointAt, listenerSpec } from '../../support/relay-fixture.ts'
import { ask, dial, echoBackend, namedBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'
import { allConnections } from '../contract/tcp-connections.ts'
import { watchEnds } from '../contract/tcp-ended.ts'
import { accepts, runs, supervised } from './fixture.ts'

/** A relay in a process of its own, while nothing goes wrong. */
t.test('a supervised relay serves', async t => {
  t.test('serves in another process, and says here what happens there', async t => {
    const { relay, records, binds, faults, listeners } = supervised(t)
    const port = await freeTcpPort()
    const { endpoint } = await namedBackend(t, 'a')
    const bind = { address: testHost, port }
    await relay.apply([listenerSpec({ binds: [bind], endpoints: [endpoint] })])
    t.not(relay.pid, process.pid)
    t.strictSame(binds, [{ bind, state: 'listening' }], 'known before apply is over')
    t.equal((await ask(port)).text, 'a')
    await until('the record', () => records.length === 1)
    t.match(records, [{ listener: 'test/service:port', cause: '--', bytesToClient: 1 }])
    t.match(await listeners(), [
      {
        id: 'test',
        protocol: 'TCP',
        binds: [{ state: 'listening' }],
        // None has anything to tell now.
        endpoints: [],
        counters: { accepted: 1, dialAttempts: 1, bytesToClient: 1 },
        wanted: true,
      },
    ])
    t.match(await relay.stats(), { fds: { used: 1 }, acceptPaused: false, restarts: 0 })
    t.strictSame(faults, [])
  })

  t.test('that all endpoints of a listener fail is told here', async t => {
    const { relay, allFailed } = supervised(t)
    const [port, dead] = [await freeTcpPort(), await freeTcpPort()]
    const binds = [{ address: testHost, port }]
    await relay.apply([listenerSpec({ binds, endpoints: [endpointAt(testHost, dead)] })])
    dial(t, port).on('error', () => {})
    await until('it is told', () => allFailed[0] === 'test/service:port')
  })

  t.test('connections are told and closed, none once it has died', async t => {
    const { relay } = supervised(t)
    const port = await freeTcpPort()
    const { endpoint } = await echoBackend(t)
    const binds = [{ address: testHost, port }]
    await relay.apply([listenerSpec({ binds, endpoints: [endpoint] })])
    const connected = async () => {
      const client = dial(t, port).on('error', () => {})
      client.write('x')
      await once(client, 'data')
      return client
    }
    const [one] = [await connected(), await connected()]
    const first = await allConnections(relay)
    t.match(first, [
      { listener: 'test/service:port', endpoint: endpoint.key, state: 'open' },
      { bytesToBackend: 1 },
    ])
    const ids = first.map(({ id }) => id)
    const name = `${one.localAddress}:${one.localPort}`
    const ended = new Promise(resolve => one.on('close', resolve))
    const id = first.find(({ client }) => client === name)?.id ?? ''
    t.strictSame(await relay.query('close-connections', [id, 'x']), [id])
    await ended
    const { pid = 0 } = relay
    process.kill(pid, 'SIGKILL')
    await until('another serves', async () => relay.pid !== pid && (await accepts(port)))
    t.strictSame(await relay.query('close-connections', ids), [])
    await connected()
    const second = (await allConnections(relay)).map(each => each.id)
    t.ok(second.length > 0)
    for (const each of second) t.notOk(ids.includes(each), 'it has another name')
  })

  t.test('ends are told, and that some went with a process that died', async t => {
    const { relay } = supervised(t)
    const port = await freeTcpPort()
    const { endpoint } = await namedBackend(t, 'a')
    const binds = [{ address: testHost, port }]
    await relay.apply([listenerSpec({ binds, endpoints: [endpoint] })])
    const { look, seen } = await watchEnds(relay, { clients: ['127.0.0.0/8'] })
    await ask(port)
    await until('it is told of', async () => {
      await look()
      return seen.length === 1
    })
    t.match(seen, [{ endpoint: endpoint.key, cause: '--' }])
    const { pid = 0 } = relay
    process.kill(pid, 'SIGKILL')
    await until('it is said', async () => (await look()).gap)
    t.not(relay.pid, pid)
    await until('another serves', () => accepts(port))
    const before = seen.length
    await ask(port)
    await until('its ends are told of', async () => {
      await look()
      return seen.length > before
    })
  })

  t.test('only what has changed is told, and what is gone goes', async t => {
    const { relay, listeners } = supervised(t)
    const [first, second] = ['a', 'b'].map(id => listenerSpec({ id }))
    const ids = async () => (await listeners()).map(({ id }) => id).toSorted()
    await relay.apply([first!, second!])
    t.strictSame(await ids(), ['a', 'b'])
    await relay.apply([second!])
    t.strictSame(await ids(), ['b'])
    await relay.apply([])
    t.strictSame(await ids(), [])
  })

  t.test('draining waits for connections, and the process is gone after it', async t => {
    const { relay, listeners } = supervised(t)
    const port = await freeTcpPort()
    const { endpoint } = await echoBackend(t)
    const binds = [{ address: testHost, port }]
    await relay.apply([listenerSpec({ binds, endpoints: [endpoint] })])
    const client = dial(t, port)
    client.write('x')
    await once(client, 'data')
    const pid = relay.pid ?? 0
    const drained = relay.drain(20_000)
    await until('closed', async () => !(await accepts(port)))
    client.end('y')
    t.equal(String(await once(client, 'data')), 'y')
    t.strictSame(await drained, { reset: 0 })
    t.equal(runs(pid), false)
    t.match(await listeners(), [{ counters: { bytesToBackend: 2 } }])
    await relay.apply([])
    t.strictSame(await relay.drain(0), { reset: 0 }, 'again')
  })

  t.test('connections that last are reset at the end of the drain time', async t => {
    const { relay, records } = supervised(t)
    const port = await freeTcpPort()
    const { endpoint } = await echoBackend(t)
    const binds = [{ address: testHost, port }]
    await relay.apply([listenerSpec({ binds, endpoints: [endpoint] })])
    const client = dial(t, port)
    client.write('x')
    await once(client, 'data')
    const [[error], result] = await Promise.all([once(client, 'error'), relay.drain(1)])
    t.match(error, { code: 'ECONNRESET' })
    t.strictSame(result, { reset: 1 })
    t.match(records, [{ cause: 'KD' }], 'its record has come too')
  })

  t.test('each data plane is told who is on the node', async t => {
    const { relay, faults } = supervised(t)
    relay.setNodeClients({ addresses: [testHost], cidrs: [] })
    const port = await freeTcpPort()
    const { endpoint } = await namedBackend(t, 'here')
    const front = {
      binds: [{ address: testHost, port }],
      endpoints: [],
      endpointsFromNode: 'all',
      allowedClients: undefined,
      closedReason: '',
    } as const
    await relay.apply([listenerSpec({ fronts: [front], endpoints: [endpoint] })])
    const from = '127.0.0.11'
    t.equal((await ask(port, testHost, from)).how, 'ECONNRESET')
    relay.setNodeClients({ addresses: [from], cidrs: [] })
    // Carried out in order.
    await relay.stats()
    t.equal((await ask(port, testHost, from)).text, 'here')
    process.kill(relay.pid ?? 0, 'SIGKILL')
    await until('its death is known', () => faults.length === 1)
    await until(
      'served again',
      async () => (await ask(port, testHost, from)).text === 'here',
    )
  })

  t.test('a look that was given up takes nothing from the next one', async t => {
    const clock = new FakeClock()
    const { relay, listeners } = supervised(t, { clock })
    const many = Array.from({ length: 1000 }, (_, i) => listenerSpec({ id: `${i}` }))
    await relay.apply(many)
    const first = relay.stats()
    clock.advance(3000)
    await first
    const all = await listeners()
    t.equal(new Set(all.map(({ id }) => id)).size, 1000)
    t.equal(all.length, 1000)
  })

  t.test('figures of 10 000 listeners come in pages', async t => {
    // Which stands still: however slow this machine is, the look is not given up.
    const { relay } = supervised(t, { clock: new FakeClock() })
    const many = Array.from({ length: 10_000 }, (_, i) =>
      listenerSpec({ id: `${i}`, binds: [{ address: '192.0.2.1', port: 1 + i }] }),
    )
    await relay.apply(many)
    let turns = 0
    const turn = () => {
      turns += 1
      next = setImmediate(turn)
    }
    let next = setImmediate(turn)
    const { listeners } = await relay.stats()
    clearImmediate(next)
    t.ok(turns > 50, `${turns} turns`)
    const all = [...listeners]
    t.equal(new Set(all.map(({ id }) => id)).size, 10_000)
    t.match(all[9999], { name: 'test/service:port', binds: [{ state: 'closed' }] })
  })
})
