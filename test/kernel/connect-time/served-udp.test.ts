import t from 'tap'
import { addressOf, readAddressOf } from '../../../src/kernel/connect-time/addresses.ts'
import { servedUdp } from '../../../src/kernel/connect-time/served-udp.ts'
import type { ServicePort, Vip } from '../../../src/model/snapshot.ts'
import { canonicalIp, joinHostPort } from '../../../src/util/ip.ts'
import * as objects from '../../support/objects.ts'
import { clusterIp, nodePort, servicePort } from '../../support/service-ports.ts'

const nodeAddresses = ['192.0.2.1', '127.0.0.1', '2001:db8::1', '::1']

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

const served = (before: readonly ServicePort[], after: readonly ServicePort[]) =>
  Object.fromEntries(
    Array.from(servedUdp(before, after, nodeAddresses), ([vip, to]) => [
      text(vip),
      Array.from(to, text),
    ]),
  )

const dns = udp('dns', [clusterIp('10.96.0.10', 53)], ['10.0.0.1', '10.0.0.2'])

t.test('addresses can be read again', async t => {
  for (const ip of ['10.0.0.1', '::1', '2001:db8::ff:1', '::', '2001:db8::ffff:0:1'])
    t.same(text(addressOf(ip, 53, 'UDP')), joinHostPort(ip, 53))
  t.equal(addressOf('::ffff:10.0.0.1', 53), addressOf('10.0.0.1', 53))
})

t.test('what changed of UDP has endpoints where clients may stay', async t => {
  const both = { '10.96.0.10:53': ['10.0.0.1:53', '10.0.0.2:53'] }
  t.same(served([], [dns]), both, 'all, at a start')
  t.same(served([dns], [dns]), {})
  const web = servicePort('web', { endpoints: dns.endpoints })
  t.same(served([], [web]), {}, 'TCP')
  const fewer = udp('dns', dns.vips, ['10.0.0.2'])
  t.same(served([dns, web], [web, fewer]), { '10.96.0.10:53': ['10.0.0.2:53'] })
  t.same(served([fewer], [dns]), {}, 'another has come')
  const none = udp('dns', dns.vips, [])
  t.same(served([none], [dns]), both, 'nothing has served in between')
  const other = udp('other', [clusterIp('10.96.0.11', 53)], ['10.0.0.3'])
  t.same(served([other, dns], [dns, other]), {}, 'it has only moved')
})

t.test('flows stay of what is gone, and of what nothing serves', async t => {
  t.same(served([dns], []), {})
  t.same(served([dns], [udp('dns', dns.vips, [])]), {})
  const down = { ready: false, serving: false }
  const [one, two] = dns.endpoints.map(each => ({ ...each, ...down }))
  if (one === undefined || two === undefined) throw new Error('none')
  t.same(served([dns], [{ ...dns, endpoints: [one, two] }]), {})
  const ending = { ...one, serving: true, terminating: true }
  t.same(
    served([dns], [{ ...dns, endpoints: [ending, two] }]),
    { '10.96.0.10:53': ['10.0.0.1:53'] },
    'one that ends still serves',
  )
})

t.test('node ports are at the addresses of the node', async t => {
  const to = { family: 'IPv6' } as const
  t.same(
    served(
      [],
      [
        udp('four', [nodePort('0.0.0.0')], ['10.0.0.1']),
        udp('six', [nodePort('::')], ['fd00::1'], to),
      ],
    ),
    {
      '192.0.2.1:30080': ['10.0.0.1:53'],
      '127.0.0.1:30080': ['10.0.0.1:53'],
      '[2001:db8::1]:30080': ['[fd00::1]:53'],
      '[::1]:30080': ['[fd00::1]:53'],
    },
  )
})
