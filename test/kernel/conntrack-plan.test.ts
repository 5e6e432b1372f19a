import * as fc from 'fast-check'
import t from 'tap'
import {
  DoomedEntries,
  type EntryFilter,
  type FlowHost,
  type FlowVip,
} from '../../src/kernel/conntrack.ts'
import { cidrContains, parseCidr } from '../../src/util/cidr.ts'
import type { IpFamily } from '../../src/util/ip.ts'

interface Destination {
  readonly address: string
  readonly port: number
}

/** An entry: where it was sent, and the endpoint where it goes. */
interface Entry extends Destination {
  readonly endpoint?: Destination
  readonly client?: string
}

const usual: Destination = { address: '10.1.1.1', port: 9999 }

const family4 = { family: 'IPv4', protocol: 'UDP' } as const

const line = ({ address, port, endpoint = usual, client = '192.0.2.1' }: Entry): string =>
  `udp      17 29 src=${client} dst=${address} sport=40000 dport=${port} [UNREPLIED] ` +
  `src=${endpoint.address} dst=192.0.2.1 sport=${endpoint.port} dport=40000 mark=0 use=1`

const filtersFor = async (
  family: IpFamily,
  vips: readonly FlowVip[],
  entries: readonly Entry[],
  later: readonly FlowVip[] = [],
) => {
  const doomed = new DoomedEntries(family, vips, host)
  for (const entry of entries) doomed.see(line(entry))
  doomed.spare(later)
  return doomed.filters()
}

/** The host of these tests has some of the addresses to which entries go. */
const isOwn = (address: string): boolean =>
  address === '192.0.2.7' || /(\.96\.0\.|::)\w$/.test(address)

const host: FlowHost = {
  nodePorts: address => (isOwn(address) ? 'answered' : undefined),
  proxyAddress: '169.254.77.88',
}

/** What `conntrack -D` makes of a filter. */
const picks = (
  filter: EntryFilter,
  { address, port, endpoint = usual }: Entry,
): boolean => {
  const source = /-r (\S+) --reply-port-src (\d+)/.exec(filter)
  const [, from = endpoint.address, fromPort = endpoint.port] = source ?? []
  if (from !== endpoint.address || Number(fromPort) !== endpoint.port) return false
  const block = /-d (\S+)/.exec(filter)?.[1]
  const cidr = block === undefined ? undefined : parseCidr(cidrText(block))
  const wanted = /--dport (\d+)/.exec(filter)?.[1]
  const inBlock = cidr === undefined || cidrContains(cidr, address)
  return inBlock && (wanted === undefined || Number(wanted) === port)
}
const cidrText = (block: string): string =>
  block.includes('/') ? block : `${block}/${block.includes(':') ? 128 : 32}`

const addressOf = (family: IpFamily, n: number): string =>
  family === 'IPv4' ? `10.96.${n >> 8}.${n & 255}` : `fd00::${(n + 1).toString(16)}`

t.test('the plan for conntrack', async t => {
  t.test('flows that go where they are to go stay', async t => {
    const address = '10.96.0.10'
    const right = { address: '10.1.1.1', port: 9999 }
    const at = (to: FlowVip['to']): FlowVip => ({
      family: 'IPv4',
      protocol: 'UDP',
      address,
      port: 53,
      to,
    })
    const entries = [{ address, port: 53 }]
    t.same(await filtersFor('IPv4', [at([right])], entries), [])
    const elsewhere = { ...right, port: 9998 }
    const gone = ['-d 10.96.0.10 --dport 53 -r 10.1.1.1 --reply-port-src 9999']
    t.same(await filtersFor('IPv4', [at([elsewhere])], entries), gone)
    t.same(await filtersFor('IPv4', [at(undefined)], entries), gone)
    const own = [{ address: '192.0.2.7', port: 30053 }]
    const nodePort = { ...at([right]), address: undefined, port: 30053 }
    t.same(await filtersFor('IPv4', [nodePort], own), [])
    t.same(await filtersFor('IPv4', [{ ...nodePort, to: [elsewhere] }], own), [
      '-d 192.0.2.7 --dport 30053 -r 10.1.1.1 --reply-port-src 9999',
    ])
    t.same(
      await filtersFor('IPv4', [at([elsewhere, right])], entries),
      [],
      'to any of them',
    )
    t.same(await filtersFor('IPv4', [at([])], entries), gone)
  })

  t.test('of a VIP those that are right stay beside those that are not', async t => {
    for (const count of [1, 100]) {
      const vips: FlowVip[] = Array.from({ length: count }, (_, n) => ({
        family: 'IPv4',
        protocol: 'UDP',
        address: addressOf('IPv4', n),
        port: 53,
        to: [usual],
      }))
      const left = { address: '10.1.1.2', port: 9999 }
      const entries: Entry[] = vips.flatMap(({ address = '', port }) => [
        { address, port },
        { address, port, endpoint: left },
      ])
      const filters = await filtersFor('IPv4', vips, entries)
      for (const entry of entries)
        t.equal(
          filters.some(filter => picks(filter, entry)),
          entry.endpoint === left,
        )
    }
  })

  t.test('what became right while the table was read stays', async t => {
    const newer = { address: '10.1.1.3', port: 9999 }
    const gone = { address: '10.1.1.2', port: 9999 }
    const cluster: FlowVip = {
      family: 'IPv4',
      protocol: 'UDP',
      address: '10.96.0.10',
      port: 53,
      to: [usual],
    }
    const node: FlowVip = { ...cluster, address: undefined, port: 30053 }
    const entries = [
      ...[newer, gone].map(endpoint => ({ address: '10.96.0.10', port: 53, endpoint })),
      ...[newer, gone].map(endpoint => ({ address: '192.0.2.7', port: 30053, endpoint })),
    ]
    const later = [
      { ...cluster, to: [usual, newer] },
      { ...node, to: [usual, newer] },
    ]
    t.same(await filtersFor('IPv4', [cluster, node], entries, later), [
      '-d 10.96.0.10 --dport 53 -r 10.1.1.2 --reply-port-src 9999',
      '-d 192.0.2.7 --dport 30053 -r 10.1.1.2 --reply-port-src 9999',
    ])
  })

  t.test(
    'of what nobody serves those end that were led there, and no others',
    async t => {
      const address = '10.96.0.10'
      const gone: FlowVip = { family: 'IPv4', protocol: 'UDP', address, port: 53 }
      const relay = { address: host.proxyAddress, port: 40_000 }
      const filter = (to: Destination): string =>
        `-d 10.96.0.10 --dport 53 -r ${to.address} --reply-port-src ${to.port}`
      const entries = [usual, relay, { address, port: 53 }].map(endpoint => ({
        address,
        port: 53,
        endpoint,
      }))
      const led = [filter(usual), filter(relay)]
      t.same(await filtersFor('IPv4', [gone], entries), led)
      t.same(await filtersFor('IPv4', [{ ...gone, to: [] }], entries), led)
      t.same(await filtersFor('IPv4', [{ ...gone, onlyRelayed: true }], entries), [
        filter(relay),
      ])
    },
  )

  t.test('clients that are let in no more end beside others that stay', async t => {
    const address = '203.0.113.7'
    const vip: FlowVip = {
      family: 'IPv4',
      protocol: 'UDP',
      address,
      port: 53,
      to: [usual],
      clients: ['192.0.2.8/32', '10.0.0.0/8'],
    }
    const entries = ['192.0.2.1', '192.0.2.8', '10.9.9.9', address].map(client => ({
      address,
      port: 53,
      client,
    }))
    t.same(await filtersFor('IPv4', [vip], entries), [
      '-d 203.0.113.7 --dport 53 -r 10.1.1.1 --reply-port-src 9999 -s 192.0.2.1',
    ])
  })

  t.test('an address and a node port of the same port are told apart', async t => {
    const nodePort: FlowVip = { ...family4, address: undefined, port: 30053 }
    const address: FlowVip = { ...family4, address: '192.0.2.7', port: 30053 }
    const entries = [{ address: '192.0.2.7', port: 30053 }]
    const to = [usual]
    const other = [{ address: '10.1.1.9', port: 1 }]
    const count = async (...vips: FlowVip[]): Promise<number> =>
      (await filtersFor('IPv4', vips, entries)).length
    t.equal(await count(nodePort, { ...address, to }), 0)
    t.equal(await count({ ...nodePort, to }, address), 0)
    t.equal(await count({ ...nodePort, to }, { ...address, to: other }), 1)
    t.equal(await count(nodePort, address), 1)
  })

  t.test('an address that answers node ports no more', async t => {
    const vip: FlowVip = { ...family4, address: undefined, port: 30053, to: [usual] }
    const entry = { address: '192.0.2.9', port: 30053 }
    const at = async (is: 'silent' | undefined): Promise<number> => {
      const doomed = new DoomedEntries('IPv4', [vip], { ...host, nodePorts: () => is })
      doomed.see(line(entry))
      return (await doomed.filters()).length
    }
    t.equal(await at('silent'), 1)
    t.equal(await at(undefined), 0, 'another host')
  })

  t.test('a node port is on addresses of the host only', async t => {
    const node: FlowVip = {
      family: 'IPv4',
      protocol: 'UDP',
      address: undefined,
      port: 30053,
    }
    const far = { address: '198.51.100.9', port: 30053 }
    t.same(await filtersFor('IPv4', [node], [far]), [])
    t.same(await filtersFor('IPv4', [node], [{ ...far, endpoint: far }]), [])
  })

  t.test('few VIPs are removed one by one, those without entries not at all', async t => {
    const vips: FlowVip[] = [
      { family: 'IPv4', protocol: 'UDP', address: '10.96.0.10', port: 53 },
      { family: 'IPv4', protocol: 'UDP', address: '10.96.0.11', port: 53 },
      { family: 'IPv4', protocol: 'UDP', address: undefined, port: 30053 },
      { family: 'IPv6', protocol: 'UDP', address: 'fd00::a', port: 53 },
    ]
    const entries = [
      { address: '10.96.0.10', port: 53 },
      { address: '10.96.0.10', port: 53 },
      { address: '10.96.0.10', port: 54 },
      { address: '192.0.2.7', port: 30053 },
    ]
    const from = '-r 10.1.1.1 --reply-port-src 9999'
    t.same(await filtersFor('IPv4', vips, entries), [
      `-d 10.96.0.10 --dport 53 ${from}`,
      `-d 192.0.2.7 --dport 30053 ${from}`,
    ])
    t.same(await filtersFor('IPv4', vips, [{ address: '10.96.0.10', port: 54 }]), [])
    t.same(await filtersFor('IPv6', vips, [{ address: 'fd00::a', port: 53 }]), [
      `-d fd00::a --dport 53 ${from}`,
    ])
  })

  t.test('an address all of whose ports go is removed as one', async t => {
    const ports = Array.from({ length: 900 }, (_, i) => 10_000 + i)
    const all = ports.map(port => ({ address: '203.0.113.9', port }))
    const vips: FlowVip[] = all.map(one => ({ ...one, family: 'IPv4', protocol: 'UDP' }))
    const other = { address: '203.0.113.8', port: 10_001 }
    t.same(await filtersFor('IPv4', vips, [...all, other]), ['-d 203.0.113.9'])
    const stays = [...all, { address: '203.0.113.9', port: 53 }]
    t.equal((await filtersFor('IPv4', vips, stays)).length, 900)
  })

  t.test('thousands of VIPs in a row are few filters', async t => {
    for (const family of ['IPv4', 'IPv6'] as const) {
      const addresses = Array.from({ length: 3000 }, (_, n) => addressOf(family, n))
      const vips: FlowVip[] = addresses.map(address => ({
        family,
        protocol: 'UDP',
        address,
        port: 53,
      }))
      const entries = addresses.map(address => ({ address, port: 53 }))
      t.equal((await filtersFor(family, vips, entries)).length, 1)
      const one = { address: addressOf(family, 3005), port: 53 }
      const some = await filtersFor(family, vips, [...entries, one])
      t.ok(some.length > 1 && some.length < 64, `${some.length}`)
    }
  })

  t.test('whatever the VIPs: filters pick all of theirs and nothing else', async t => {
    const destination = (family: IpFamily) =>
      fc.record({
        address: fc.nat(700).map(n => addressOf(family, n)),
        port: fc.integer({ min: 53, max: 56 }),
      })
    const endpoint = fc.constantFrom(usual, { address: '10.1.1.2', port: 9999 })
    const entryIn = (family: IpFamily) =>
      fc
        .tuple(destination(family), endpoint)
        .map(([to, one]): Entry => Object.assign({ endpoint: one }, to))
    const family = fc.constantFrom<IpFamily>('IPv4', 'IPv6')
    const all = family.chain(one =>
      fc.record({
        family: fc.constant(one),
        entries: fc.array(entryIn(one), { maxLength: 400, size: 'max' }),
        to: fc.subarray([usual]),
        vips: fc.array(destination(one), { maxLength: 400, size: 'max' }),
        nodePorts: fc.subarray([55, 56, 57]),
        both: fc.integer({ min: 0, max: 400 }),
      }),
    )
    const check = fc.asyncProperty(all, async given => {
      const named = [...given.vips, ...given.entries.slice(0, given.both)]
      const nodePorts = given.nodePorts.map(port => ({ address: undefined, port }))
      const vips: FlowVip[] = [...named, ...nodePorts].map(({ address, port }) => ({
        family: given.family,
        protocol: 'UDP',
        address,
        port,
        to: given.to,
      }))
      const filters = await filtersFor(given.family, vips, given.entries)
      const keys = new Set(named.map(({ address, port }) => `${address} ${port}`))
      return given.entries.every(entry => {
        const isWanted =
          keys.has(`${entry.address} ${entry.port}`) ||
          (given.nodePorts.includes(entry.port) && isOwn(entry.address))
        const doomed = isWanted && !(given.to.length > 0 && entry.endpoint === usual)
        return filters.some(filter => picks(filter, entry)) === doomed
      })
    })
    await t.resolves(fc.assert(check, { numRuns: 60 }))
  })
})
