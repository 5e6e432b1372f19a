import { once } from 'node:events'
import { connect } from 'node:net'
import type { Test } from 'tap'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { namedEcho } from '../../support/tcp-backend.ts'

/**
 * A listener at one of the source ports `first` to `last` of this host. Nobody else's connection gets
 * its port while it has no endpoints.
 */
export const tcpKeptPortsContract = (
  t: Test,
  make: MakeRelay,
  first: number,
  last: number,
): void => {
  const ports = last - first + 1

  /** At a port that is none of the few either. */
  const named = async (t: Test, name: string) =>
    namedEcho(t, name, testHost, await freeTcpPort())

  /** How many connections get a source port of the host's; they end before it resolves. */
  const outgoing = async (t: Test): Promise<number> => {
    const server = await named(t, 'other')
    const sockets = Array.from({ length: ports + 1 }, () =>
      connect({ host: testHost, port: server.endpoint.port }),
    )
    const ended = await Promise.all(
      sockets.map(socket =>
        Promise.race([once(socket, 'connect'), once(socket, 'error')]).then(
          ([error]) => error === undefined,
          () => false,
        ),
      ),
    )
    for (const socket of sockets) socket.resetAndDestroy()
    await server.close()
    return ended.filter(Boolean).length
  }

  /** From a port that is none of the few. */
  const word = async () => {
    const client = connect({
      host: testHost,
      port: first + 1,
      localPort: await freeTcpPort(),
    })
    const heard = new Promise(resolve => {
      client.on('data', data => resolve(String(data)))
      client.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code))
    })
    const said = await heard
    client.resetAndDestroy()
    return said
  }

  for (const affinityMs of [0, 60_000])
    t.test(`kept with ${affinityMs} ms of affinity`, async t => {
      const { listen, stats } = relayFixture(t, make)
      const binds = [{ address: testHost, port: first + 1 }]
      const { endpoint } = await named(t, 'here')
      for (let round = 0; round < 3; round += 1) {
        await listen({ binds, endpoints: [], affinityMs })
        t.match(stats().binds, [{ state: 'closed' }])
        t.equal(await word(), 'ECONNREFUSED')
        t.equal(await outgoing(t), ports - 1)
        await listen({ binds, endpoints: [endpoint], affinityMs })
        t.match(stats().binds, [{ state: 'listening' }])
        for (let i = 0; i < 5; i += 1) t.equal(await word(), 'here')
      }
    })

  t.test('given back when it is not wanted any more, or passes to another', async t => {
    const { listen, relay } = relayFixture(t, make)
    const binds = [{ address: testHost, port: first + 1 }]
    await listen({ binds, endpoints: [] })
    const { endpoint } = await named(t, 'here')
    await listen({ id: 'other', binds, endpoints: [endpoint] })
    t.equal(await word(), 'here')
    await listen({ id: 'other', binds, endpoints: [] })
    await relay.apply([])
    t.equal(await outgoing(t), ports)
    t.equal(relay.stats().fds.used, 0)
  })
}
