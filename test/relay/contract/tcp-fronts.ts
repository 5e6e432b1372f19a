import { once } from 'node:events'
import type { Test } from 'tap'
import type { RelayFront } from '../../../src/relay/relay.ts'
import { rangesOf } from '../../../src/util/address-ranges.ts'
import { onLinux, withIpv6 } from '../../support/connection.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  endpoint as endpointOf,
  frontOf,
  type MakeRelay,
  relayFixture,
  type RelayRequest,
} from '../../support/relay-fixture.ts'
import {
  ask,
  dial,
  echoBackend,
  namedBackend,
  type TcpBackend,
} from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

const [near, far] = ['127.0.0.11', '127.0.0.12']

/** What clients of different addresses of one listener get. */
export const tcpFrontsContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test, request: RelayRequest = {}, host = testHost) => {
    const fixture = relayFixture(t, make, {
      nodeClients: { addresses: [near], cidrs: [] },
      ...request,
    })
    const [a, b, c] = await Promise.all(
      ['a', 'b', 'c'].map(name => namedBackend(t, name, host)),
    )
    if (!a || !b || !c) throw new Error('three')
    const port = await freeTcpPort(host)
    const all = [a, b, c].map(({ endpoint }) => endpoint)
    const front = (over: Partial<RelayFront>, at = port) =>
      frontOf([{ address: host, port: at }], over)
    const fronts = (...list: RelayFront[]) =>
      fixture.listen({ fronts: list, endpoints: all })
    return { ...fixture, a, b, c, port, all, front, fronts }
  }
  const keys = (...backends: TcpBackend[]) => backends.map(one => one.endpoint.key)

  t.test('only clients of the source ranges are let in', onLinux, async t => {
    const { fronts, front, port, stats, records, a, b, c } = await setUp(t)
    await fronts(front({ allowedClients: rangesOf(['192.0.2.0/24', '127.0.0.11/32']) }))
    t.equal((await ask(port, testHost, near)).how, 'end')
    t.equal((await ask(port, testHost, far)).how, 'ECONNRESET')
    t.equal(a.accepted + b.accepted + c.accepted, 1, 'nothing was dialled for the other')
    t.match(stats().counters, { accepted: 2, failed: { PR: 1 }, dialAttempts: 1 })
    await until('both are told of', () => records.length === 2)
    t.match(
      records.find(({ cause }) => cause === 'PR'),
      { client: new RegExp(`^${far}:\\d+$`), endpoint: '', attempts: [] },
    )
  })

  t.test('so over IPv6', withIpv6, async t => {
    const { fronts, front, port } = await setUp(t, {}, '::1')
    await fronts(front({ allowedClients: rangesOf(['::/127']) }))
    t.equal((await ask(port, '::1')).how, 'end')
    await fronts(front({ allowedClients: rangesOf(['2001:db8::/32', '127.0.0.0/8']) }))
    t.equal((await ask(port, '::1')).how, 'ECONNRESET')
  })

  t.test('changed ranges count at once, and leave connections alone', async t => {
    const { listen, front, port } = await setUp(t)
    const { endpoint } = await echoBackend(t)
    const allow = (...texts: string[]) =>
      listen({
        fronts: [front({ allowedClients: rangesOf(texts) })],
        endpoints: [endpoint],
      })
    await allow('127.0.0.0/8')
    const old = dial(t, port)
    await once(old, 'connect')
    old.write('one')
    t.equal(String(await once(old, 'data')), 'one')
    await allow('192.0.2.0/24')
    t.equal((await ask(port)).how, 'ECONNRESET')
    old.write('two')
    t.equal(String(await once(old, 'data')), 'two')
  })

  t.test('without any range for them nobody finds a listener', async t => {
    const { fronts, front, port, stats } = await setUp(t)
    await fronts(front({ allowedClients: rangesOf([]), closedReason: 'no range' }))
    t.equal((await ask(port)).how, 'ECONNREFUSED')
    t.match(stats().binds, [{ state: 'closed', reason: 'no range' }])
  })

  t.test('each address has endpoints of its own, or none', async t => {
    const { fronts, front, stats, a, b, port } = await setUp(t)
    const [other, empty] = [await freeTcpPort(), await freeTcpPort()]
    await fronts(
      front({ endpoints: keys(a) }),
      front({ endpoints: keys(b) }, other),
      front({ endpoints: [], closedReason: 'no local endpoints' }, empty),
    )
    for (let i = 0; i < 3; i += 1) {
      t.equal((await ask(port)).text, 'a')
      t.equal((await ask(other)).text, 'b')
    }
    t.equal((await ask(empty)).how, 'ECONNREFUSED')
    t.match(
      stats().binds.find(({ bind }) => bind.port === empty),
      { state: 'closed', reason: 'no local endpoints' },
    )
    await fronts(front({ endpoints: [] }), front({ endpoints: keys(b) }, empty))
    t.equal((await ask(port)).how, 'ECONNREFUSED')
    t.equal((await ask(empty)).text, 'b')
  })

  t.test('clients on the node have a choice of their own', onLinux, async t => {
    const { fronts, front, port, stats, b, c } = await setUp(t)
    await fronts(front({ endpoints: keys(b), endpointsFromNode: keys(c) }))
    t.equal((await ask(port, testHost, near)).text, 'c')
    t.equal((await ask(port, testHost, far)).text, 'b')
    await fronts(front({ endpoints: [], endpointsFromNode: 'all' }))
    t.equal((await ask(port, testHost, near)).how, 'end')
    t.equal((await ask(port, testHost, far)).how, 'ECONNRESET')
    t.match(stats().counters.failed, { PR: 1 })
    await fronts(front({ endpoints: [], endpointsFromNode: [] }))
    t.equal((await ask(port, testHost, near)).how, 'ECONNREFUSED')
  })

  t.test('a dial of who is on the node goes by the newest state', onLinux, async t => {
    const { listen, front, port, stats, a } = await setUp(t)
    const dead = endpointOf(testHost, await freeTcpPort())
    const local = front({ endpoints: [], endpointsFromNode: [dead.key] })
    await listen({ fronts: [local], endpoints: [dead] })
    const asked = ask(port, testHost, near)
    await until('it is dialled', () => stats().counters.dialAttempts > 0)
    await listen({ fronts: [front({ endpoints: keys(a) })], endpoints: [a.endpoint] })
    t.match(await asked, { text: 'a', how: 'end' })
  })

  t.test('who comes from the address it dialled is on the node', onLinux, async t => {
    const { fronts, front, port, b } = await setUp(t)
    await fronts(front({ endpoints: [], endpointsFromNode: keys(b) }))
    t.match(await ask(port, testHost, testHost), { text: 'b', how: 'end' })
    t.equal((await ask(port, testHost, far)).how, 'ECONNRESET')
  })

  t.test('retries stay within the choice', async t => {
    const { fronts, front, port, a, b, c, stats } = await setUp(t, {
      limits: { dialLadder: [50, 50] },
    })
    await fronts(front({ endpoints: keys(a, b) }))
    await a.close()
    for (let i = 0; i < 4; i += 1) t.equal((await ask(port)).text, 'b')
    t.equal(stats().counters.dialRetries, 1)
    await b.close()
    t.equal((await ask(port)).how, 'ECONNRESET')
    t.equal(c.accepted, 0)
  })

  t.test('affinity spans all addresses, but not what is not allowed', async t => {
    const { listen, all, front, port, a, b, c } = await setUp(t)
    const [twin, narrow] = [await freeTcpPort(), await freeTcpPort()]
    const first = front({})
    const fronts = [first, front({}, twin), front({ endpoints: keys(a, b) }, narrow)]
    await listen({ fronts, endpoints: all, affinityMs: 60_000 })
    const { text } = await ask(port)
    for (let i = 0; i < 3; i += 1) t.equal((await ask(twin)).text, text)
    const narrowed = (await ask(narrow)).text
    t.match(narrowed, text === 'c' ? /^[ab]$/ : text)
    const only = front({ endpoints: keys(text === 'a' ? b : a) }, narrow)
    const elsewhere = text === 'a' ? 'b' : 'a'
    await listen({ fronts: [only], endpoints: all, affinityMs: 60_000 })
    t.equal((await ask(narrow)).text, elsewhere)
    t.equal(c.accepted > 0, text === 'c')
  })

  t.test('shares are equal in each choice, whatever the others do', async t => {
    const { fronts, front, port, a, b } = await setUp(t)
    const narrow = await freeTcpPort()
    await fronts(front({}), front({ endpoints: keys(a, b) }, narrow))
    const seen = { a: 0, b: 0, c: 0 }
    for (let i = 0; i < 12; i += 1) {
      await ask(port)
      const name = (await ask(narrow)).text as 'a' | 'b' | 'c'
      seen[name] += 1
    }
    t.strictSame(seen, { a: 6, b: 6, c: 0 })
  })

  t.test('policies change under load, and nobody is lost or led astray', async t => {
    const { fronts, front, port, a, b, c } = await setUp(t)
    const choices = [['a'], ['b', 'c'], ['a', 'b'], ['c']]
    const byName = new Map(Object.entries({ a, b, c }))
    const listed = (names: readonly string[]) =>
      keys(...names.flatMap(name => byName.get(name) ?? []))
    let allowed: readonly string[] = ['a']
    let coming: readonly string[] = []
    let changes = 0
    await fronts(front({ endpoints: listed(allowed) }))
    const wrong: string[] = []
    const over = new AbortController()
    const visitor = async (): Promise<void> => {
      while (!over.signal.aborted) {
        const before = [...allowed, ...coming]
        const from = changes
        const { text, how } = await ask(port)
        const may = [...before, ...allowed, ...coming]
        if (how !== 'end') wrong.push(how)
        else if (changes - from <= 1 && !may.includes(text)) wrong.push(text)
      }
    }
    const visitors = Array.from({ length: 8 }, visitor)
    for (; changes < 100; changes += 1) {
      const next = choices[changes % choices.length] ?? []
      // Until it is applied, both are right.
      coming = next
      await fronts(front({ endpoints: listed(next) }))
      allowed = next
      await ask(port)
    }
    over.abort()
    await Promise.all(visitors)
    t.strictSame(wrong, [])
  })
}
