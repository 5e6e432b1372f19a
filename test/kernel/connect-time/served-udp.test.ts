import t from 'tap'
import * as objects from '../../support/objects.ts'
import { addressOf, readAddressOf } from '../../../src/kernel/connect-time/tables.ts'
import { losesUdp, servedUdp } from '../../../src/kernel/connect-time/udp-ends.ts'
import type { Endpoint, ServicePort, Vip } from '../../../src/model/snapshot.ts'
import { canonicalIp, joinHostPort } from '../../../src/util/ip.ts'
import { clusterIp, nodePort, servicePort } from '../../support/service-ports.ts'

const nodeAddresses = ['192.0.2.1', '127.0.0.1', '2001:db8::1', '::1']

const lb = { kind: 'LoadBalancerIP', address: '', port: 53 } as const

const udp = (
  name: string,
  vips: readonly Vip[],
  endpoints: readonly string[],
  over: Partial<ServicePort> = {},
): ServicePort =>
  servicePort(name, {
    protocol: 'UDP',
    vips,
    endpoints: endpoints.map(each => ({ ...objects.endpoint(each), port: 53 })),
    ...over,
  })

const text = (address: string): string => {
  const { address: ip, port } = readAddressOf(address)
  return joinHostPort(canonicalIp(ip) ?? '', port)
}

const served = (...servicePorts: readonly ServicePort[]) =>
  Object.fromEntries(
    Array.from(servedUdp({ servicePorts, nodeAddresses }), ([vip, to]) => [
      text(vip),
      Array.from(to, text),
    ]),
  )

const loses = (before: readonly ServicePort[], after: readonly ServicePort[]): boolean =>
  losesUdp(
    { servicePorts: before, nodeAddresses },
    { servicePorts: after, nodeAddresses },
  )

const dns = udp('dns', [clusterIp('10.96.0.10', 53)], ['10.0.0.1', '10.0.0.2'])

t.test('addresses can be read again', async t => {
  for (const ip of ['10.0.0.1', '::1', '2001:db8::ff:1', '::', '2001:db8::ffff:0:1'])
    t.same(text(addressOf(ip, 53, 'UDP')), joinHostPort(ip, 53))
  t.equal(addressOf('::ffff:10.0.0.1', 53), addressOf('10.0.0.1', 53))
})

t.test('VIPs of UDP have endpoints where clients may stay', async t => {
  const web = servicePort('web', { endpoints: dns.endpoints })
  t.same(served(dns, web), { '10.96.0.10:53': ['10.0.0.1:53', '10.0.0.2:53'] })
  t.same(served(udp('dns', dns.vips, [])), { '10.96.0.10:53': [] })
  const [one, two] = dns.endpoints
  if (one === undefined || two === undefined) throw new Error('none')
  const down = { ready: false, serving: false }
  const ending = { ...one, ready: false, serving: true, terminating: true }
  const at = (...endpoints: readonly Endpoint[]) =>
    served({ ...dns, endpoints })['10.96.0.10:53']
  t.same(at(ending, { ...two, ...down }), ['10.0.0.1:53'], 'one that ends still serves')
  t.same(at({ ...one, ...down }, { ...two, ...down, terminating: true }), ['10.0.0.1:53'])
})

t.test('node ports are at the addresses of the node', async t => {
  t.same(
    served(
      udp('four', [nodePort('0.0.0.0')], ['10.0.0.1']),
      udp('six', [nodePort('::')], ['fd00::1'], { family: 'IPv6' }),
      udp('before it', [clusterIp('192.0.2.1', 30_080)], ['10.0.0.2']),
    ),
    {
      '192.0.2.1:30080': ['10.0.0.2:53'],
      '127.0.0.1:30080': ['10.0.0.1:53'],
      '[2001:db8::1]:30080': ['[fd00::1]:53'],
      '[::1]:30080': ['[fd00::1]:53'],
    },
  )
})

t.test('clients of source ranges are not led, and nobody stays', async t => {
  const guarded = udp(
    'lb',
    [clusterIp('10.96.0.10', 53), { ...lb, address: '203.0.113.7' }],
    ['10.0.0.1'],
    { sourceRanges: ['192.0.2.0/24'] },
  )
  t.same(Object.keys(served(guarded)), ['10.96.0.10:53'])
  t.ok(loses([{ ...guarded, sourceRanges: undefined }], [guarded]))
})

t.test('sockets are looked at where something is lost', async t => {
  const fewer = udp('dns', dns.vips, ['10.0.0.2'])
  const web = servicePort('web')
  for (const after of [[], [web], [fewer], [udp('dns', dns.vips, [])]])
    t.ok(loses([dns, web], after))
  t.ok(loses([dns], [udp('dns', [clusterIp('10.96.0.9', 53)], ['10.0.0.1', '10.0.0.2'])]))
  t.ok(loses([], [web]), 'what was led before is not known')
  t.notOk(loses([dns], [dns]))
  t.notOk(loses([fewer], [dns]), 'another has come')
  t.notOk(loses([web, dns], [dns]), 'TCP')
  const other = udp('other', [clusterIp('10.96.0.11', 53)], ['10.0.0.3'])
  t.notOk(loses([other, dns], [dns, other]), 'it has only moved')
  const led = { servicePorts: [dns], nodeAddresses }
  t.ok(losesUdp(led, { ...led, nodeAddresses: nodeAddresses.slice(1) }))
})
