import { Socket } from 'node:net'
import t from 'tap'
import { SendQueues } from '../../../../src/relay/sockets/node/send-queues.ts'
import { StreamSocket } from '../../../../src/relay/sockets/node/stream-socket.ts'

const remoteEndOf = (remoteAddress: string) => {
  const socket = new Socket()
  for (const [name, value] of Object.entries({ remoteAddress, remotePort: 5501 }))
    Object.defineProperty(socket, name, { value })
  const options = { isUnix: false, mostUnread: 1, deaf: () => {} }
  const stream = new StreamSocket(
    socket,
    { ...options, sendQueues: new SendQueues() },
    false,
  )
  return stream.remoteEnd
}

t.test('the zone of a link-local address is nobody else’s to know', t => {
  t.strictSame(remoteEndOf('fe80::1%eth0'), { address: 'fe80::1', port: 5501 })
  t.end()
})

t.test('IPv4 at a socket of IPv6 is IPv4', t => {
  t.strictSame(remoteEndOf('::ffff:192.0.2.1'), { address: '192.0.2.1', port: 5501 })
  t.end()
})
