import t from 'tap'
import type { Vip } from '../../../src/model/snapshot.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import { clusterIp } from '../../support/service-ports.ts'
import { skip } from './group.ts'
import { endpointsAt, makeStage, serviceTo, tally, type To } from './world.ts'

const udpOver = { protocol: 'UDP' } as const
const v6 = { family: 'IPv6' as IpFamily }

t.test(
  'clients are led to endpoints, and see the VIP as their peer',
  { skip },
  async t => {
    const { client, serve, steering } = await makeStage(t)
    const [a, b, c] = await endpointsAt(client, '127.0.0.11', '127.0.0.12', '::1')
    if (a === undefined || b === undefined || c === undefined) throw new Error('none')
    await serve(
      serviceTo('web', [clusterIp('10.96.0.1')], [a, b]),
      serviceTo('dns', [{ ...clusterIp('10.96.0.1'), port: 53 }], [a], udpOver),
      serviceTo('web6', [clusterIp('fd10:96::1')], [c], v6),
      serviceTo('dns6', [{ ...clusterIp('fd10:96::1'), port: 53 }], [c], {
        ...udpOver,
        ...v6,
      }),
    )
    t.match(await client.tcp('10.96.0.1', 80), {
      said: /^127.0.0.1[12] sees 127.0.0.1$/,
      peer: '10.96.0.1 80',
    })
    t.match(await client.tcp('::ffff:10.96.0.1', 80), { peer: '::ffff:10.96.0.1 80' })
    t.same(await client.tcp('fd10:96::1', 80), {
      said: '::1 sees ::1',
      peer: 'fd10:96::1 80',
    })
    const chance = await tally(200, () => client.tcp('10.96.0.1', 80))
    t.ok(
      (chance['127.0.0.11'] ?? 0) > 60 && (chance['127.0.0.12'] ?? 0) > 60,
      'by chance',
    )
    for (const connected of [{}, { connected: true } as const])
      for (const vip of ['10.96.0.1', '::ffff:10.96.0.1', 'fd10:96::1'])
        for (const again of [1, 2]) {
          const name = `${vip} ${JSON.stringify(connected)}`
          const answer = await client.udp(vip, 53, { name, ...connected })
          t.match(answer, { said: / from /, peer: `${vip} 53` }, `${name}, ${again}`)
        }
    steering.close()
    t.match(await client.tcp('10.96.0.1', 80), { error: 'ENETUNREACH' })
  },
)

t.test('a Service without endpoints refuses', { skip }, async t => {
  const { client, serve } = await makeStage(t)
  const drop = { verdict: 'drop', endpoints: [] } as const
  await serve(
    serviceTo('none', [clusterIp('10.96.0.1')], []),
    serviceTo('none-udp', [{ ...clusterIp('10.96.0.1'), port: 53 }], [], udpOver),
    serviceTo('not-here', [clusterIp('10.96.0.2')], [], { internal: drop }),
  )
  t.same(await client.tcp('10.96.0.1', 80), { error: 'ECONNREFUSED' })
  t.same(await client.udp('10.96.0.1', 53, { name: 'a' }), { error: 'ECONNREFUSED' })
  t.match(await client.udp('10.96.0.1', 53, { name: 'b', connected: true }), {
    error: 'ECONNREFUSED',
  })
  t.same(await client.tcp('10.96.0.2', 80), { error: 'EHOSTUNREACH' })
})

t.test('kernels that can not say why refuse by EPERM', { skip }, async t => {
  const { client, serve } = await makeStage(t, { errors: false })
  await serve(serviceTo('none', [clusterIp('10.96.0.1')], []))
  t.same(await client.tcp('10.96.0.1', 80), { error: 'EPERM' })
})

t.test('ClientIP affinity holds until its endpoint goes', { skip }, async t => {
  const { client, serve } = await makeStage(t)
  const to = await endpointsAt(client, '127.0.0.11', '127.0.0.12', '127.0.0.13')
  const vips = [clusterIp('10.96.0.1')]
  const sticky = (at: To) => serviceTo('sticky', vips, at, { affinityMs: 60_000 })
  await serve(sticky(to))
  const first = await tally(20, () => client.tcp('10.96.0.1', 80))
  const [one = ''] = Object.keys(first)
  t.same(first, { [one]: 20 })
  await serve(sticky(to.toReversed()))
  t.same(
    await tally(20, () => client.tcp('10.96.0.1', 80)),
    { [one]: 20 },
    'another list',
  )
  await serve(sticky(to.filter(([address]) => address !== one)))
  const [other = ''] = Object.keys(await tally(20, () => client.tcp('10.96.0.1', 80)))
  t.not(other, one)
})

t.test('an unconnected flow of UDP stays, until its endpoint goes', { skip }, async t => {
  const { client, serve } = await makeStage(t)
  const to = await endpointsAt(client, '127.0.0.11', '127.0.0.12', '127.0.0.13')
  const dns = (at: To) => serviceTo('dns', [clusterIp('10.96.0.1')], at, udpOver)
  await serve(dns(to))
  const ask = () => client.udp('10.96.0.1', 80, { name: 'one' })
  const first = await tally(20, ask)
  const [one = ''] = Object.keys(first)
  t.same(first, { [one]: 20 })
  await serve(dns(to.filter(([address]) => address !== one)))
  const second = await tally(20, ask)
  t.same(Object.values(second), [20])
  t.notHas(Object.keys(second), [one])
})

t.test('answers come from the VIP that was asked last', { skip }, async t => {
  const { client, serve } = await makeStage(t)
  const [a] = await endpointsAt(client, '127.0.0.11')
  if (a === undefined) throw new Error('none')
  const vips = ['10.96.0.1', '10.96.0.2']
  const [one = '', two = ''] = vips
  await serve(
    serviceTo(
      'dns',
      vips.map(each => clusterIp(each)),
      [a],
      udpOver,
    ),
  )
  for (const vip of [one, two, one, two, two])
    t.match(await client.udp(vip, 80, { name: 'one' }), { peer: `${vip} 80` })
})

t.test('an endpoint whose connect failed is passed over', { skip }, async t => {
  for (const avoidsFailed of [true, false]) {
    const { client, serve } = await makeStage(t, { avoidsFailed })
    const [alive] = await endpointsAt(client, '127.0.0.11')
    if (alive === undefined) throw new Error('none')
    await serve(serviceTo('half', [clusterIp('10.96.0.1')], [['127.0.0.99', 9], alive]))
    const found = await tally(200, () => client.tcp('10.96.0.1', 80))
    const refused = found['ECONNREFUSED'] ?? 0
    t.ok(avoidsFailed ? refused < 10 : refused > 60, `${refused} of 200 refused`)
  }
})

const nodePort: Vip = { kind: 'NodePort', address: '0.0.0.0', port: 30080 }

t.test('node ports on loopback are for the node, not for pods', { skip }, async t => {
  for (const node of [undefined, 12345n]) {
    const { client, serve } = await makeStage(t, { node })
    await serve(serviceTo('web', [nodePort], await endpointsAt(client, '127.0.0.11')))
    t.match(await client.tcp('192.0.2.1', 30080), { peer: '192.0.2.1 30080' })
    t.same(await client.tcp('127.0.0.1', 30080), { error: 'ECONNREFUSED' })
  }
})

t.test('the wildcard that a node port goes by is no VIP', { skip }, async t => {
  const { client, serve } = await makeStage(t)
  const [a, six] = await endpointsAt(client, '127.0.0.11', '::1')
  if (a === undefined || six === undefined) throw new Error('none')
  const port = await client.serve('127.0.0.1')
  await serve(
    serviceTo('web', [{ ...nodePort, port }], [a]),
    serviceTo('web6', [{ ...nodePort, address: '::', port }], [six], v6),
  )
  // What a process dials so is itself.
  t.match(await client.tcp('0.0.0.0', port), { said: /^127.0.0.1 / })
  t.match(await client.tcp('::ffff:0.0.0.0', port), { said: /^127.0.0.1 / })
  t.match(await client.tcp('::', port), { error: 'ECONNREFUSED' })
})

t.test(
  'a VIP that is an address of the node goes before a node port',
  { skip },
  async t => {
    const { client, serve } = await makeStage(t)
    const [a, b, c] = await endpointsAt(client, '127.0.0.11', '127.0.0.12', '::1')
    if (a === undefined || b === undefined || c === undefined) throw new Error('none')
    const external: Vip = { kind: 'ExternalIP', address: '192.0.2.1', port: 30080 }
    const node6: Vip = { ...nodePort, address: '::' }
    const ports = [
      serviceTo('node-port', [nodePort], [a]),
      serviceTo('node-port6', [node6], [c], v6),
    ] as const
    await serve(...ports, serviceTo('external', [external], [b]))
    t.match(await client.tcp('192.0.2.1', 30080), { said: /^127.0.0.12 / })
    await serve(...ports)
    t.match(await client.tcp('192.0.2.1', 30080), { said: /^127.0.0.11 / })
    const mapped = await client.tcp('::ffff:192.0.2.1', 30080)
    t.match(mapped, { said: /^127.0.0.11 /, peer: '::ffff:192.0.2.1 30080' })
    t.match(await client.tcp('2001:db8::1', 30080), { said: /^::1 / })
    t.same(await client.tcp('192.0.2.2', 30080), { error: 'ENETUNREACH' }, 'not the node')
  },
)

t.test('pods are left alone where the node alone is asked for', { skip }, async t => {
  const { group, client: pod, serve } = await makeStage(t, { onlyNode: true })
  const node = await group.client('the host')
  const to = await endpointsAt(node, '127.0.0.11')
  await serve(serviceTo('web', [clusterIp('10.96.0.1'), nodePort], to))
  t.match(await pod.tcp('10.96.0.1', 80), { error: 'ENETUNREACH' })
  t.match(await node.tcp('10.96.0.1', 80), { peer: '10.96.0.1 80' })
  t.match(await node.tcp('127.0.0.1', 30080), { peer: '127.0.0.1 30080' })
})

t.test('what is not to be led goes on as it is', { skip }, async t => {
  const { client, serve } = await makeStage(t)
  const to = await endpointsAt(client, '127.0.0.11')
  const guarded = { kind: 'LoadBalancerIP', address: '192.0.2.7', port: 80 } as const
  const external = { kind: 'ExternalIP', address: '192.0.2.7', port: 80 } as const
  await serve(
    serviceTo('guarded', [guarded, external, clusterIp('10.96.0.1')], to, {
      sourceRanges: ['10.0.0.0/8'],
    }),
    serviceTo('relayed', [clusterIp('10.96.0.2')], to, { relayed: true }),
    serviceTo('sctp', [clusterIp('10.96.0.3')], to, { protocol: 'SCTP' }),
  )
  t.match(await client.tcp('10.96.0.1', 80), { peer: '10.96.0.1 80' })
  for (const vip of ['192.0.2.7', '10.96.0.2', '10.96.0.3', '10.96.0.9'])
    t.same(await client.tcp(vip, 80), { error: 'ENETUNREACH' }, vip)
  t.same(await client.tcp('10.96.0.1', 81), { error: 'ENETUNREACH' }, 'another port')
})

t.test(
  'a table that is being read is not read on when it is closed',
  { skip },
  async t => {
    const { serve, steering } = await makeStage(t)
    await serve(
      serviceTo('one', [clusterIp('10.96.0.1')], []),
      serviceTo('two', [clusterIp('10.96.0.2')], []),
    )
    const read = steering.entries('services')[Symbol.iterator]()
    t.equal(read.next().done, false)
    steering.close()
    t.equal(read.next().done, true)
  },
)
