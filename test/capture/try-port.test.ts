import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import { LocalAddresses } from '../../src/capture/local-addresses.ts'
import { ProxyPorts } from '../../src/capture/proxy-ports.ts'
import { onLinux } from '../support/connection.ts'
import { withoutDescriptors } from '../support/descriptors.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../support/ports.ts'

const holdTcp = async (t: Test, host: string, port: number): Promise<void> => {
  const server = createServer().listen(port, host)
  await once(server, 'listening')
  t.teardown(() => server.close())
}
const holdUdp = async (t: Test, host: string, port: number): Promise<void> => {
  const socket = createSocket('udp4').bind(port, host)
  await once(socket, 'listening')
  t.teardown(() => socket.close())
}

const range = (port: number) => ({ first: port, last: port + 1 })
const portFor = (protocol: 'TCP' | 'UDP', addresses: string[], port?: number) =>
  new ProxyPorts(port === undefined ? undefined : range(port), () => 0).portFor(
    'web',
    protocol,
    addresses,
  )

/** Another address of the test process's own. */
const second = testHost.replace(/^127\.1(\d\d)/, (_, tens) => `127.${Number(tens)}`)

/** Which ports are free on the real host. */
t.test('ports of the host', async t => {
  t.test('proxy ports of the real host', onLinux, async t => {
    t.test('a TCP port in use is skipped, by UDP it is not', async t => {
      const port = await freeTcpPort()
      await holdTcp(t, testHost, port)
      t.equal(await portFor('TCP', [testHost], port), port + 1)
      t.equal(await portFor('UDP', [testHost], port), port)
    })

    t.test('a UDP port in use on one of the addresses is skipped', async t => {
      const port = await freeUdpPort()
      await holdUdp(t, testHost, port)
      t.equal(await portFor('UDP', [second, testHost], port), port + 1)
    })

    t.test('a port of the system is one that can be listened on', async t => {
      const port = (await portFor('TCP', [testHost])) ?? 0
      await holdTcp(t, testHost, port)
      const forUdp = (await portFor('UDP', [second, testHost])) ?? 0
      await holdUdp(t, testHost, forUdp)
      t.ok(port > 0 && forUdp > 0)
    })

    t.test('without descriptors nothing is said of ports and addresses', async t => {
      await withoutDescriptors(t, async () => {
        await t.rejects(portFor('TCP', [testHost]), { code: 'EMFILE' })
        await t.rejects(portFor('UDP', [testHost]), { code: 'EMFILE' })
        const addresses = new LocalAddresses(new FakeClock())
        await t.rejects(addresses.has(testHost), { cause: { code: 'EMFILE' } })
      })
      t.ok(await portFor('TCP', [testHost]))
    })

    t.test('an address of somebody else has none', async t => {
      t.equal(await portFor('TCP', ['198.51.100.1']), undefined)
      t.equal(await portFor('UDP', ['198.51.100.1']), undefined)
    })
  })
})
