import t, { type Test } from 'tap'
import { iptablesSteering } from '../../../src/capture/iptables/iptables.ts'
import type { VipRule } from '../../../src/capture/iptables/vip-rule.ts'
import type { Protocol } from '../../../src/model/service.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { ipFamilies, type IpFamily } from '../../../src/util/ip.ts'
import { makeNetwork, type Network } from './network.ts'
import { proxyAddresses, SteeredTable } from '../steered-table.ts'
import { ruleOf, settingsOf } from './rules.ts'
import { skip } from './skip.ts'

type From = 'node' | 'pod' | 'outside'

/** What a client gets there, from the node, from a pod, and from outside. */
type Row = readonly [
  what: string,
  protocol: Protocol,
  address: string,
  port: number,
  ...got: readonly [node: string, pod: string, outside: string],
]

const vips: Readonly<Record<IpFamily, (number: number) => string>> = {
  IPv4: number => `203.0.113.${number}`,
  IPv6: number => `2001:db8:113::${number}`,
}

const clusterIp = { IPv4: '10.96.0.1', IPv6: 'fd00:10:96::1' }
const emptyIp = { IPv4: '10.96.0.2', IPv6: 'fd00:10:96::2' }

const rulesOf = (family: IpFamily): readonly VipRule[] => {
  const vip = vips[family]
  const both = (over: Parameters<typeof ruleOf>[0]): VipRule[] => [
    ruleOf({ ...over, family }),
    ruleOf({ ...over, family, protocol: 'UDP' }),
  ]
  const refused = { outside: 'reject', fromNode: 'reject' } as const
  const outside = { IPv4: '192.0.2.0/24', IPv6: '2001:db8::/64' }[family]
  return [
    ...both({ address: clusterIp[family], toPort: 3000 }),
    ...both({ address: emptyIp[family], ...refused }),
    ...both({ kind: 'ExternalIP', address: vip(1), outside: 'drop', toPort: 3001 }),
    ...both({
      kind: 'LoadBalancerIP',
      address: vip(2),
      allowedClients: [outside],
      toPort: 3002,
    }),
    ...both({
      kind: 'ExternalIP',
      address: vip(3),
      outside: 'drop',
      fromNode: 'drop',
      toPort: 3003,
    }),
    ...both({ kind: 'ExternalIP', address: vip(4), ...refused }),
    ...both({
      kind: 'LoadBalancerIP',
      address: vip(5),
      ...refused,
      allowedClients: [outside],
    }),
    ...both({ kind: 'NodePort', port: 30_080, toPort: 3004 }),
    ...both({ kind: 'NodePort', port: 30_081, ...refused }),
  ]
}

const rowsOf = (family: IpFamily, node: string): readonly Row[] =>
  (['TCP', 'UDP'] as const).flatMap((protocol): Row[] => {
    const [vip, loopback] = [vips[family], family === 'IPv4' ? '127.0.0.1' : '::1']
    // By IPv4 the host outside sends this to the node; see iptables-network.ts.
    const notOwn = family === 'IPv4' ? 'silent' : 'refused'
    const all = (answer: string) => [answer, answer, answer] as const
    return [
      ['ClusterIP', protocol, clusterIp[family], 80, ...all('3000')],
      ['its unknown port', protocol, clusterIp[family], 81, ...all('refused')],
      ['no endpoints', protocol, emptyIp[family], 80, ...all('refused')],
      ['local only', protocol, vip(1), 80, '3001', '3001', 'silent'],
      ['source ranges', protocol, vip(2), 80, '3002', 'silent', '3002'],
      ['dropped', protocol, vip(3), 80, ...all('silent')],
      ['refused', protocol, vip(4), 80, ...all('refused')],
      ['ranges, refused', protocol, vip(5), 80, 'refused', 'silent', 'refused'],
      ['node port', protocol, node, 30_080, ...all('3004')],
      ['node port refused', protocol, node, 30_081, ...all('refused')],
      ['loopback', protocol, loopback, 30_080, '3004', 'refused', notOwn],
      ['side door', protocol, proxyAddresses[family], 3000, ...all('silent')],
      ['no node port there', protocol, proxyAddresses[family], 30_080, ...all('silent')],
    ]
  })

const asked = async (
  { agents }: Network,
  rows: readonly Row[],
): Promise<readonly (readonly string[])[]> => {
  const froms: readonly From[] = ['node', 'pod', 'outside']
  return Promise.all(
    rows.map(async ([what, protocol, address, port]) => [
      `${what} ${protocol}`,
      ...(await Promise.all(
        froms.map(from => agents[from].ask(protocol, address, port)),
      )),
    ]),
  )
}

const ready = async (backend: 'nft' | 'legacy') => {
  const network = await makeNetwork(backend)
  const { run } = network.node
  const kind = iptablesSteering({ run, clock: systemClock, backend })
  const table = (family: IpFamily) => new SteeredTable(kind.rules(family), family)
  return { network, probe: kind.probe, table }
}

for (const backend of ['nft', 'legacy'] as const) {
  t.test(`packets go where the rules say (${backend})`, skip, async t => {
    const { network, probe, table: makeTable } = await ready(backend)
    for (const family of ipFamilies)
      await t.test(family, async t => {
        t.match(await probe(family), { usable: true })
        await network.agents.node.serve(
          proxyAddresses[family],
          [3000, 3001, 3002, 3003, 3004, 3005, 3006],
        )
        const table = makeTable(family)
        await table.replace(rulesOf(family), settingsOf(family))
        const rows = rowsOf(family, network.addresses[family].node)
        t.same(
          await asked(network, rows),
          rows.map(([what, protocol, , , ...got]) => [`${what} ${protocol}`].concat(got)),
        )
        t.equal(await sentUntranslated(network, family), 'EPERM', 'no VIP, no way out')
        await changes(t, network, table, family)
        await hostPorts(t, network, table, family, backend)
        await pauses(t, network, makeTable(family), family)
        await table.remove()
        t.not(await network.agents.node.ask('TCP', clusterIp[family], 80), '3000')
      })
  })
}

/** What a program on the proxy address gets that writes to somebody who did not ask. */
const sentUntranslated = async (
  { node, addresses }: Network,
  family: IpFamily,
): Promise<string> => {
  const program = `
    const type = process.argv[1].includes(':') ? 'udp6' : 'udp4'
    const socket = require('node:dgram').createSocket(type)
    socket.bind(0, process.argv[1], () =>
      socket.send('x', 9, process.argv[2], error => {
        console.log(error?.code ?? 'sent')
        socket.close()
      }))`
  const args = ['-e', program, proxyAddresses[family], addresses[family].outside]
  return (await node.run(process.execPath, args)).trim()
}

/** A DNAT of the host's (CNI portmap, ServiceLB) at its address, for who is not served there. */
const hostPorts = async (
  t: Test,
  { node, agents, addresses }: Network,
  table: SteeredTable,
  family: IpFamily,
  backend: 'nft' | 'legacy',
): Promise<void> => {
  const { node: address } = addresses[family]
  await agents.node.serve(address, [3007])
  const tool = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backend}`
  const to = address.includes(':') ? `[${address}]:3007` : `${address}:3007`
  const dnat = ['-p', 'tcp', '-d', address, '--dport', '8088', '-j', 'DNAT']
  await node.run(tool, ['-I', 'INPUT', '-p', 'tcp', '--dport', '3007', '-j', 'ACCEPT'])
  const append = ['-t', 'nat', '-A', 'PREROUTING', ...dnat, '--to-destination', to]
  const ask = () => agents.outside.ask('TCP', address, 8088)
  const balanced = { family, address, port: 8088, kind: 'LoadBalancerIP' } as const
  const dropped = ruleOf({ ...balanced, outside: 'drop', toPort: 3001 })
  const refused = ruleOf({ ...balanced, outside: 'reject', fromNode: 'reject' })
  await table.change([], [dropped])
  t.equal(await ask(), 'silent')
  await node.run(tool, append)
  t.equal(await ask(), '3007', 'the host has a use for what would be dropped')
  await table.change([dropped], [refused])
  t.equal(await ask(), '3007', 'and for what would be refused')
  await table.change([refused], [])
}

const changes = async (
  t: Test,
  { agents }: Network,
  table: SteeredTable,
  family: IpFamily,
): Promise<void> => {
  const ask = () => agents.outside.ask('TCP', clusterIp[family], 80)
  const rule = (over: object) => ruleOf({ family, address: clusterIp[family], ...over })
  const steps = [
    [rule({ toPort: 3006 }), '3006'],
    [rule({ outside: 'reject', fromNode: 'reject' }), 'refused'],
    [rule({ toPort: 3000, outside: 'drop', fromNode: 'drop' }), 'silent'],
    [rule({ toPort: 3000 }), '3000'],
  ] as const
  let before: VipRule = rule({ toPort: 3000 })
  for (const [after, got] of steps) {
    await table.change([before], [after])
    t.equal(await ask(), got, `after a change: ${got}`)
    before = after
  }
}

/**
 * What a restart is like: nobody is refused, and who waits is served in the end. `next` is
 * the next process's.
 */
const pauses = async (
  t: Test,
  { agents }: Network,
  next: SteeredTable,
  family: IpFamily,
): Promise<void> => {
  const ask = (ms?: number) => agents.outside.ask('TCP', clusterIp[family], 80, ms)
  const askUdp = () => agents.pod.ask('UDP', clusterIp[family], 80)
  await agents.node.unserve()
  t.same(await Promise.all([ask(), askUdp()]), ['silent', 'silent'], 'nobody listens')
  const waiting = ask(5000)
  await agents.node.serve(proxyAddresses[family], [3000])
  t.equal(await waiting, '3000', 'served when somebody listens again')
  await next.hold()
  await next.hold()
  t.same(await Promise.all([ask(), askUdp()]), ['silent', 'silent'], 'held')
  await next.replace(rulesOf(family), settingsOf(family))
  t.same(await Promise.all([ask(), askUdp()]), ['silent', 'silent'], 'held')
  await next.release()
  t.same(await Promise.all([ask(), askUdp()]), ['3000', '3000'], 'no longer held')
  await agents.node.unserve()
  await agents.node.serve(family === 'IPv4' ? '0.0.0.0' : '::', [3000])
  t.same(await Promise.all([ask(), askUdp()]), ['silent', 'silent'], 'not for a stranger')
  await agents.node.unserve()
}
