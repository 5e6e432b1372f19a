import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { makePortableRelay } from '../../../support/portable-relay.ts'
import { freeTcpPort, testHost } from '../../../support/ports.ts'
import { relayFixture } from '../../../support/relay-fixture.ts'
import { dial, echoBackend } from '../../../support/tcp-backend.ts'

t.test('what came while all stood still has come in time', async t => {
  const { listen, stats } = relayFixture(t, makePortableRelay)
  const port = await freeTcpPort()
  const binds = [{ address: testHost, port }]
  const { endpoint } = await echoBackend(t)
  await listen({ binds, endpoints: [endpoint], ages: { idleMs: 1000 } })
  const client = dial(t, port)
  client.write('a')
  await once(client, 'data')
  // It is known by now that something has moved.
  await sleep(300)
  // Timers are next, and after them what came.
  await new Promise(resolve => setImmediate(resolve))
  client.write('b')
  for (const end = performance.now() + 1500; performance.now() < end;);
  t.equal(String((await once(client, 'data'))[0]), 'b')
  t.equal(stats().counters.active, 1)
})
