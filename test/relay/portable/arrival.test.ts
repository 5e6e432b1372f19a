import type { Socket } from 'node:net'
import t from 'tap'
import { Arrival } from '../../../src/relay/portable/arrival.ts'

t.test('the zone of a link-local address is nobody else’s to know', t => {
  const socket = {
    remoteAddress: 'fe80::1%eth0',
    remotePort: 5501,
    localAddress: 'fe80::2%eth0',
    localPort: 443,
  } as Socket
  const arrival = new Arrival(socket, 0)
  t.equal(String(arrival.header('v1')), 'PROXY TCP6 fe80::1 fe80::2 5501 443\r\n')
  t.equal(arrival.source.address, 'fe80::1')
  t.end()
})

t.test('IPv4 at a socket of IPv6 is IPv4', t => {
  const socket = { remoteAddress: '::ffff:192.0.2.1', remotePort: 1 } as Socket
  t.strictSame(new Arrival(socket, 0).source, { address: '192.0.2.1', port: 1 })
  t.equal(new Arrival(socket, 0).header(undefined), undefined)
  t.end()
})
