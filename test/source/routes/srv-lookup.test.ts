import t from 'tap'
import type { SrvData } from '../../../src/source/routes/dns/dns-message.ts'
import { srvLookup } from '../../../src/source/routes/srv-lookup.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { until } from '../../support/until.ts'

type Row = readonly [priority: number, weight: number, port: number, target: string]

/** A lookup of `_pg._tcp.example` whose records and hosts the test may change. */
const fixture = (rows: Row[], hosts: Record<string, string[] | Error | undefined>) => {
  const state = { rows, hosts, asked: [] as string[] }
  const clock = new FakeClock()
  const lookup = srvLookup(
    '_pg._tcp.example',
    async () => ({
      records: state.rows.map(([priority, weight, port, target]): SrvData => ({
        type: 'SRV',
        priority,
        weight,
        port,
        target,
      })),
      ttlMs: 20_000,
    }),
    async host => {
      state.asked.push(host)
      const found = state.hosts[host]
      if (found instanceof Error) throw found
      if (found === undefined) return new Promise(() => {})
      return { addresses: found, ttlMs: host === 'untold' ? undefined : 25_000 }
    },
    clock,
  )
  return { state, clock, find: () => lookup(new AbortController().signal) }
}

t.test(
  'each record is a place at each address of its host, lower numbers first',
  async t => {
    const { find, state } = fixture(
      [
        [20, 0, 5433, 'b'],
        [10, 60, 5432, 'a'],
        [10, 40, 5434, 'a'],
      ],
      { a: ['10.0.0.1', 'fd00::1'], b: ['10.0.0.2'] },
    )
    t.strictSame(await find(), {
      places: [
        { address: '10.0.0.1', port: 5432, tier: 0, weight: 30 },
        { address: 'fd00::1', port: 5432, tier: 0, weight: 30 },
        { address: '10.0.0.1', port: 5434, tier: 0, weight: 20 },
        { address: 'fd00::1', port: 5434, tier: 0, weight: 20 },
        { address: '10.0.0.2', port: 5433, tier: 1, weight: 1 },
      ],
      ttlMs: 20_000,
      faults: [],
    })
    t.strictSame(state.asked, ['a', 'b'], 'each host once')
  },
)

t.test('an address of several hosts has the weights of all of them', async t => {
  const { find } = fixture(
    [
      [10, 10, 5432, 'a'],
      [10, 20, 5432, 'b'],
      [10, 30, 5432, 'c'],
      [20, 40, 5432, 'a'],
    ],
    { a: ['fd00::1', 'FD00:0::1'], b: ['fd00::1', 'fd00::2'], c: ['fd00::2'] },
  )
  const { places } = await find()
  t.strictSame(
    places.map(({ address, tier, weight }) => `${address} ${tier} ${weight}`),
    ['fd00::1 0 20', 'fd00::2 0 40', 'fd00::1 1 40'],
  )
})

t.test('records that are of no use are left out and named', async t => {
  const cases: [Row, string][] = [
    [[0, 0, 1, ''], 'it says that there is no such service (the target is ".")'],
    [[0, 0, 1, '_pg._tcp.example'], 'its target is the name itself'],
    [[0, 0, 1, '10.0.0.1'], 'its target "10.0.0.1" is not a host name'],
    [[0, 0, 1, String.raw`a\032b`], String.raw`its target "a\032b" is not a host name`],
    [[0, 0, 0, 'a'], 'the port of its target a is 0'],
  ]
  for (const [row, fault] of cases) {
    const hosts = { a: ['10.0.0.1'], b: ['10.0.0.2'] }
    await t.rejects(fixture([row], hosts).find(), { message: fault })
    const some = await fixture([row, row, [5, 0, 2, 'b']], hosts).find()
    t.match(some, { places: [{ address: '10.0.0.2', port: 2, tier: 0 }] })
    t.strictSame(some.faults, [fault])
  }
})

t.test('a host that cannot be found keeps what it had, the others go on', async t => {
  const { find, state, clock } = fixture(
    [
      [0, 0, 1, 'a'],
      [0, 0, 1, 'b'],
    ],
    { a: ['10.0.0.1'], b: ['10.0.0.2'] },
  )
  await find()
  state.hosts = { a: ['10.0.0.3'], b: new Error('gone') }
  const addresses = async () => (await find()).places.map(({ address }) => address)
  t.strictSame(await addresses(), ['10.0.0.3', '10.0.0.2'])
  t.strictSame((await find()).faults, ['b: gone'])
  state.hosts = { a: ['10.0.0.3'] }
  const found = find()
  await until('it is waited for', () => clock.waiting === 1)
  clock.advance(4000)
  t.match(await found, {
    places: [{ address: '10.0.0.3' }, { address: '10.0.0.2' }],
    faults: ['b: no answer within 4 s'],
  })
  state.rows = [[0, 0, 1, 'a']]
  t.strictSame(await addresses(), ['10.0.0.3'], 'what is not named any more goes')
  state.rows.push([0, 0, 1, 'b'])
  state.hosts = { a: ['10.0.0.3'], b: new Error('gone') }
  t.strictSame(await addresses(), ['10.0.0.3'], 'and is forgotten')
})

t.test('addresses of unknown TTL are looked for again after 30 s at most', async t => {
  const hosts = { a: ['10.0.0.1'], untold: ['10.0.0.2'] }
  t.equal((await fixture([[0, 0, 1, 'a']], hosts).find()).ttlMs, 20_000)
  t.equal((await fixture([[0, 0, 1, 'untold']], hosts).find()).ttlMs, 20_000)
})

t.test('thousands of records are cut to a bound, the first tiers stay', async t => {
  const rows = Array.from({ length: 5000 }, (_, i): Row => [
    5000 - i,
    0,
    i + 1,
    `h${i % 100}`,
  ])
  const hosts = Object.fromEntries(
    Array.from({ length: 100 }, (_, i) => [
      `h${i}`,
      Array<string>(1000).fill('10.0.0.1'),
    ]),
  )
  const { find, state } = fixture(rows, hosts)
  const { places, faults } = await find()
  t.equal(state.asked.length, 64)
  t.match(places[0], { port: 5000, tier: 0 })
  t.ok(places.length <= 256 * 256)
  t.strictSame(faults, [
    'it has 5000 records, of which 256 are taken',
    'it names 100 hosts, of which 64 are taken',
  ])
})
