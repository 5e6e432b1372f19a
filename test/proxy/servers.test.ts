import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import t from 'tap'
import { startServers } from '../../src/proxy/servers.ts'
import type { ProxyOptions } from '../../src/proxy/options.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { recordingLog } from '../support/recording-log.ts'
import { until } from '../support/until.ts'

t.test('a server that cannot listen is a problem until it does', async t => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const { port } = other.address() as AddressInfo
  const clock = new FakeClock()
  const failed: string[] = []
  const servers = await startServers(
    // Nothing else is looked at.
    { healthzBindAddress: { address: '127.0.0.1', port } } as unknown as ProxyOptions,
    { metrics: new Map(), health: new Map() },
    { log: recordingLog([]), clock, failed: reason => failed.push(reason) },
  )
  t.teardown(() => servers.health?.close())
  t.strictSame(failed, ['FailedToStartProxierHealthcheck'])
  t.match(servers.problems(), [
    {
      object: '--healthz-bind-address',
      message: new RegExp(`^the health server cannot listen on 127.0.0.1:${port}: EADDR`),
    },
  ])
  other.close()
  await once(other, 'close')
  clock.advance(5000)
  await until('it listens', () => servers.health?.address() !== '')
  t.strictSame(servers.problems(), [])
})
