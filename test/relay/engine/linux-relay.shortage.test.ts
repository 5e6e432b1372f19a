import { once } from 'node:events'
import t from 'tap'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { makeLinuxRelayWith } from '../../support/linux-relay.ts'
import { freeTcpPort } from '../../support/ports.ts'
import { listenerSpec, relayFixture } from '../../support/relay-fixture.ts'
import { dial, namedBackend, tcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

/** So many that what they leave is little for each worker. */
const addresses = 100
const openFileLimit = 300
const reservedFds = 128

/** Several workers that have used up what descriptors there are. */
t.test('shortage', { skip: linuxRelaySkip() }, async t => {
  t.test('when those who held all descriptors have left, all are served', async t => {
    const make = makeLinuxRelayWith({ workers: 8 })
    const { relay } = relayFixture(t, make, { openFileLimit, limits: { reservedFds } })
    const port = await freeTcpPort()
    const silent = await tcpBackend(t, socket => void socket.resume())
    const serving = await namedBackend(t, 'served')
    const hosts = Array.from({ length: addresses }, (_, i) => `127.252.0.${i + 1}`)
    const listen = ({ endpoint }: typeof serving): Promise<void> =>
      relay.apply(
        hosts.map(address => {
          const binds = [{ address, port }]
          return listenerSpec({ id: address, binds, endpoints: [endpoint] })
        }),
      )
    await listen(silent)
    const idle = relay.stats().fds.used
    const clients = hosts.map(host => dial(t, port, host).on('error', () => {}))
    await until('workers have run out', () => {
      const { fds, acceptPaused } = relay.stats()
      return acceptPaused && fds.used >= openFileLimit - reservedFds - 1
    })
    for (const client of clients) client.resetAndDestroy()
    await listen(serving)
    await until('all is given back', () => relay.stats().fds.used === idle)
    for (const host of hosts) {
      const client = dial(t, port, host)
      const [answer] = (await once(client, 'data')) as [Buffer]
      t.equal(answer.toString(), 'served')
      client.destroy()
    }
    t.notOk(relay.stats().acceptPaused)
  })
})
