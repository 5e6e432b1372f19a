import { Socket } from 'node:dgram'
import t from 'tap'
import { freeUdpPort, testHost } from '../../../support/ports.ts'
import { makePortableRelay } from '../../../support/portable-relay.ts'
import { relayFixture } from '../../../support/relay-fixture.ts'
import { namedUdp } from '../../../support/udp-backend.ts'
import { udpClient } from '../../../support/udp-client.ts'

t.test('a flow that may not send to its endpoint any more goes to another', async t => {
  const { listen, stats } = relayFixture(t, makePortableRelay)
  const port = await freeUdpPort()
  const binds = [{ address: testHost, port }]
  const [a, b] = [await namedUdp(t, 'a'), await namedUdp(t, 'b')]
  await listen({ protocol: 'UDP', binds, endpoints: [a.endpoint] })
  const client = await udpClient(t, port)
  t.equal(await client.ask('1'), 'a')
  await listen({ protocol: 'UDP', binds, endpoints: [a.endpoint, b.endpoint] })

  // What the kernel says once there is a `prohibit` route.
  const refused = Object.assign(new Error('send EACCES'), { code: 'EACCES' })
  const real = Object.getOwnPropertyDescriptor(Socket.prototype, 'send')?.value as Send
  t.intercept(Socket.prototype, 'send', {
    value(this: Socket, message: Buffer, ...rest: unknown[]): void {
      const [then] = rest
      const toA = rest.length === 1 && isConnectedTo(this, a.endpoint.port)
      if (toA && typeof then === 'function') process.nextTick(then, refused)
      else real.call(this, message, ...rest)
    },
  })
  t.equal(await client.ask('2'), 'b', 'the client notices nothing')
  t.strictSame(b.received.map(String), ['2'])
  t.match(stats().counters, { accepted: 1, dialAttempts: 2, dialRetries: 1 })
  t.strictSame(stats().counters.datagramsDropped, {})
})

type Send = (this: Socket, message: Buffer, ...rest: unknown[]) => void

/** `remoteAddress` throws where there is none. */
const isConnectedTo = (socket: Socket, port: number): boolean => {
  try {
    return socket.remoteAddress().port === port
  } catch {
    return false
  }
}
