import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { freeTcpPort, freeUdpPort, testHost } from '../support/ports.ts'
import { ask, dial, namedBackend, namedEcho } from '../support/tcp-backend.ts'
import { namedUdp } from '../support/udp-backend.ts'
import { udpClient } from '../support/udp-client.ts'
import { get } from '../support/usher.ts'
import { startInWine } from './usher-in-wine.ts'

t.test('a dead endpoint costs a retry, and no client notices', async t => {
  const port = await freeTcpPort()
  const dead = await freeTcpPort()
  const alive = await namedBackend(t, 'alive')
  const usher = await startInWine(
    t,
    'sidecar',
    `--route=tcp://${testHost}:${port}=${testHost}:${dead},${alive.endpoint.key}`,
  )
  for (let i = 0; i < 10; i += 1)
    t.strictSame(await ask(port), { text: 'alive', how: 'end' })
  const { servicePorts } = await usher.status()
  t.match(servicePorts, [{ accepted: 10, failed: 0 }])
  t.ok((servicePorts[0]?.retries ?? 0) > 0, 'the dead one was tried')
  t.match((await get(usher.metrics, '/metrics')).body, /^usher_.*retries.* [1-9]/m)
  t.match((await get(usher.healthz, '/healthz')).status, 200)

  await alive.close()
  // A Linux client sees what one in wine can't.
  t.strictSame(await ask(port), { text: '', how: 'ECONNRESET' })
})

t.test('bytes, half-closes, datagrams, and a connection at the end', async t => {
  // Wine binds UDP to all addresses: from any other the answers would come from this one.
  const udpHost = '127.0.0.1'
  const [port, udp] = [await freeTcpPort(), await freeUdpPort(udpHost)]
  const echo = await namedEcho(t, 'a')
  const answers = await namedUdp(t, 'b')
  const usher = await startInWine(
    t,
    'sidecar',
    `--route=tcp://${testHost}:${port}=${echo.endpoint.key}`,
    `--route=udp://${udpHost}:${udp}=${answers.endpoint.key}`,
  )
  const bulk = Buffer.alloc(4 * 1024 * 1024, 'usher ')
  const client = dial(t, port)
  client.end(bulk)
  const got = await buffer(client)
  t.equal(got.length, bulk.length + 1)
  t.ok(got.subarray(1).equals(bulk), 'what was sent after the half-close came back')
  t.equal(await (await udpClient(t, udp, udpHost)).ask('hello'), 'b')

  const open = dial(t, port)
  await once(open, 'data')
  // Ctrl-C.
  usher.send('SIGINT')
  await usher.logged('stopping: draining', { reason: 'SIGINT' })
  open.write('still here?')
  t.equal(String(await once(open, 'data')), 'still here?')
  open.end()
  t.strictSame(await usher.exit, { code: 0, signal: null })
  t.match(await usher.logged('stopped'), { reset: 0 })
})
