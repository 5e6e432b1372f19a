import t from 'tap'
import type { IpFamily } from '../../../src/util/ip.ts'
import { until } from '../../support/until.ts'
import { both, rule, settings, tablesIn } from './rules.ts'
import { skip } from './skip.ts'
import { proxyAddresses, type SteeredTable } from '../steered-table.ts'
import { makeWorld, type World } from './world.ts'

/** Addresses by their last number: those of Services, in a range nobody routes. */
const vips: Readonly<Record<IpFamily, (last: number) => string>> = {
  IPv4: last => `10.96.0.${last}`,
  IPv6: last => `fd96::${last}`,
}

const outsideCidr = { IPv4: '172.16.0.0/12', IPv6: 'fd20::/64' } as const
/** Of which the node has no address. */
const elsewhereCidr = { IPv4: '192.0.2.0/24', IPv6: '2001:db8::/64' } as const
const outsideHost = { IPv4: '172.20.0.2/32', IPv6: 'fd20::2/128' } as const
const wildcards = { IPv4: '0.0.0.0', IPv6: '::' } as const
const loopback = { IPv4: '127.0.0.1', IPv6: '::1' } as const

const answered = 'answered by port 4001'

type Test = Pick<typeof t, 'same' | 'equal'>

/** Enough to be sure of silence; whatever else is expected gets more time. */
const silenceMs = 500
const patienceMs = 5000

/** What node, pod and neighbour get, for TCP, then for UDP, as `wanted` is laid out. */
const outcomes = async (
  { node, pod, outside }: World,
  address: string,
  port: number,
  wanted: string[][],
): Promise<string[][]> =>
  Promise.all(
    wanted.map((row, i) =>
      Promise.all(
        [node, pod, outside].map((from, j) => {
          const ms = row[j] === 'silent' ? silenceMs : patienceMs
          return from.dial(i === 0 ? 'TCP' : 'UDP', address, port, ms)
        }),
      ),
    ),
  )

const all = (...[node, pod, outside]: string[]): string[][] => {
  const row = [node ?? '', pod ?? node ?? '', outside ?? node ?? '']
  return [row, row]
}

const whoGetsWhat = async (
  t: Test,
  family: IpFamily,
  world: World,
  table: SteeredTable,
): Promise<void> => {
  const vip = vips[family]
  const { node } = world
  const external = { kind: 'ExternalIP', family } as const
  const balanced = { kind: 'LoadBalancerIP', family } as const
  const none = { outside: 'reject', fromNode: 'reject' } as const
  const nodePort = { family, kind: 'NodePort' } as const
  const only = [outsideCidr[family], outsideHost[family]]
  await table.replace(
    [
      ...both(vip(1), 80, 4001),
      ...both(vip(2), 80, 4001, none),
      ...both(vip(3), 80, 4001, { outside: 'drop', fromNode: 'drop' }),
      ...both(vip(4), 80, 4001, { ...external, outside: 'drop' }),
      ...both(vip(5), 80, 4001, { ...external, ...none }),
      ...both(vip(6), 80, 4001, { ...balanced, allowedClients: only }),
      ...both(vip(7), 80, 4001, { ...balanced, allowedClients: [] }),
      ...both(undefined, 30_080, 4001, nodePort),
      ...both(undefined, 30_081, 4001, { ...nodePort, ...none }),
      ...both(undefined, 30_082, 4001, { ...nodePort, outside: 'drop' }),
    ],
    settings(family),
  )
  const cases: readonly [string, string, number, string[][]][] = [
    ['a VIP is answered', vip(1), 80, all(answered)],
    ['a VIP without endpoints refuses at once', vip(2), 80, all('refused')],
    ['a VIP without local endpoints is silent', vip(3), 80, all('silent')],
    ['dropped for others only', vip(4), 80, all(answered, answered, 'silent')],
    ['an external IP that refuses', vip(5), 80, all('refused')],
    ['only allowed clients', vip(6), 80, all(answered, 'silent', answered)],
    ['no client is allowed', vip(7), 80, all('silent')],
    ['a node port', node.addresses[family], 30_080, all(answered)],
    ['a node port that refuses', node.addresses[family], 30_081, all('refused')],
    [
      'a node port for this node only',
      node.addresses[family],
      30_082,
      all(answered, answered, 'silent'),
    ],
    ['another port of a ClusterIP refuses', vip(1), 81, all('refused')],
    ['another port of a load-balancer IP is not ours', vip(6), 81, all('silent')],
    [
      'the proxy port itself is no side door',
      proxyAddresses[family],
      4001,
      all('silent'),
    ],
    [
      'nor is it a node port to be refused',
      proxyAddresses[family],
      30_081,
      all('silent'),
    ],
  ]
  const seen = await Promise.all(
    cases.map(async ([what, address, port, wanted]) => [
      what,
      await outcomes(world, address, port, wanted),
    ]),
  )
  t.same(
    Object.fromEntries(seen),
    Object.fromEntries(cases.map(([what, , , wanted]) => [what, wanted])),
  )
  t.same(
    await Promise.all(
      (['TCP', 'UDP'] as const).map(protocol =>
        node.dial(protocol, loopback[family], 30_080),
      ),
    ),
    [answered, answered],
    'a node port on the loopback address',
  )
}

/** A DNAT of the host's (CNI portmap, ServiceLB) at its address, for who is not served there. */
const hostPorts = async (
  t: Test,
  family: IpFamily,
  { node, outside }: World,
  table: SteeredTable,
): Promise<void> => {
  const address = node.addresses[family]
  await node.listen('TCP', address, 4007)
  const ip = family === 'IPv4' ? 'ip' : 'ip6'
  const input = `table ${ip} host {
	chain prerouting {
		type nat hook prerouting priority -100;
		${ip} daddr ${address} tcp dport { 8088, 30082 } dnat to :4007
	}
}
`
  const ask = (port: number) => outside.dial('TCP', address, port, 500)
  const dropped = rule(address, 8088, 4001, { kind: 'LoadBalancerIP', outside: 'drop' })
  const refused = { ...dropped, outside: 'reject', fromNode: 'reject' } as const
  await table.change([], [dropped])
  t.equal(await ask(8088), 'silent')
  await node.netns.run('nft', ['-f', '-'], { input })
  const theirs = answered.replace('4001', '4007')
  t.equal(await ask(8088), theirs, 'the host has a use for what would be dropped')
  t.equal(await ask(30_082), theirs, 'at a node port, too')
  await table.change([dropped], [refused])
  t.equal(await ask(8088), theirs, 'and for what would be refused')
  await table.change([refused], [])
  await node.netns.run('nft', ['delete', 'table', ip, 'host'])
}

const afterAChange = async (
  t: Test,
  family: IpFamily,
  world: World,
  table: SteeredTable,
): Promise<void> => {
  const vip = vips[family]
  const two = rule(vip(1), 443, 4001)
  await world.node.listen('TCP', proxyAddresses[family], 4002)
  const [tcp, udp] = both(vip(1), 80, 4001)
  const refusing = both(vip(2), 80, 4001, { outside: 'reject', fromNode: 'reject' })
  if (tcp === undefined || udp === undefined) throw new Error('no rules')
  await table.change(
    [tcp, udp, ...refusing],
    [rule(vip(1), 80, 4002), two, ...both(vip(2), 80, 4001)],
  )
  const get = async (last: number, port: number, wanted: string[][], what: string) => {
    t.same(await outcomes(world, vip(last), port, wanted), wanted, what)
  }
  const tcpOnly = (outcome: string) => all(outcome).slice(0, 1)
  const [moved] = tcpOnly('answered by port 4002')
  const [refused] = tcpOnly('refused')
  await get(1, 80, [moved ?? [], refused ?? []], 'TCP has moved, UDP is gone')
  await get(2, 80, all(answered), 'endpoints have come')
  await get(1, 443, tcpOnly(answered), 'a port has come')
  await table.change([rule(vip(1), 80, 4002)], [])
  await get(1, 80, tcpOnly('refused'), 'a port has gone')
  await table.change([two], [])
  await get(1, 80, tcpOnly('silent'), 'a ClusterIP is forgotten with its last rule')
}

const nodePortAddresses = async (
  t: Test,
  family: IpFamily,
  world: World,
  table: SteeredTable,
): Promise<void> => {
  const { node, outside } = world
  const nodePort = rule(undefined, 30_080, 4001, { family, kind: 'NodePort' })
  const block = outsideCidr[family]
  await table.replace([nodePort], settings(family, { nodePortCidrs: [block] }))
  t.equal(await outside.dial('TCP', node.addresses[family], 30_080), answered)
  t.equal(await node.dial('TCP', loopback[family], 30_080), 'refused', 'not in the CIDRs')
  const elsewhere = { nodePortCidrs: [elsewhereCidr[family]], podCidrs: [] }
  await table.replace([nodePort], settings(family, elsewhere))
  t.equal(await outside.dial('TCP', node.addresses[family], 30_080), 'refused')
}

/** Restarts, crashes and takeovers. */
const silence = async (
  t: Test,
  family: IpFamily,
  { node, pod, outside }: World,
  [table, next]: readonly [SteeredTable, SteeredTable],
): Promise<void> => {
  const address = vips[family](1)
  const rules = both(address, 80, 4001)
  await table.replace(rules, settings(family))
  t.equal(await pod.open(address, 80), answered)
  await next.hold()
  const held = [node, pod, outside].map(from => from.dial('TCP', address, 80, 5000))
  t.equal(await pod.dial('UDP', address, 80), 'silent')
  t.equal(await outside.dial('TCP', address, 80), 'silent')
  t.equal(await pod.write(), answered, 'an open connection goes on')
  await next.replace(rules, settings(family))
  t.equal(await outside.dial('TCP', address, 80), 'silent', 'held by the new rules too')
  await next.release()
  t.same(await Promise.all(held), [answered, answered, answered], 'held, then served')

  await node.stopListening()
  const crashed = [node, pod, outside].map(from => from.dial('TCP', address, 80, 5000))
  t.equal(await pod.dial('TCP', address, 80), 'silent', 'not refused')
  t.equal(await pod.dial('UDP', address, 80), 'silent')
  t.equal(await node.dial('UDP', address, 80), 'silent')
  await node.listen('TCP', proxyAddresses[family], 4001)
  t.same(await Promise.all(crashed), [answered, answered, answered], 'served by the next')
  await until('UDP is back', async () => {
    await node.listen('UDP', proxyAddresses[family], 4001)
    return (await pod.dial('UDP', address, 80)) === answered
  })

  await node.stopListening()
  for (const protocol of ['TCP', 'UDP'] as const) {
    await node.listen(protocol, wildcards[family], 4001)
    for (const from of [node, pod])
      t.equal(await from.dial(protocol, address, 80), 'silent', 'not for a stranger')
  }
}

/** Packets from a process of the node, from a pod and from a neighbour are the judge. */
t.test('where packets go', async t => {
  for (const family of ['IPv4', 'IPv6'] as const) {
    t.test(`nftables, ${family}: where packets go`, { skip }, async t => {
      const world = await makeWorld(t)
      const seen = tablesIn(world.node.netns)
      const table = seen.table(family)
      await world.node.listen('TCP', proxyAddresses[family], 4001)
      await world.node.listen('UDP', proxyAddresses[family], 4001)
      await whoGetsWhat(t, family, world, table)
      await hostPorts(t, family, world, table)
      await afterAChange(t, family, world, table)
      await nodePortAddresses(t, family, world, table)
      await silence(t, family, world, [table, seen.table(family)])
    })
  }
})
