import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { startPod } from '../../../bench/backends/pod.ts'
import { ackedBytes } from '../../../bench/backends/servers.ts'
import type { Endpoint } from '../../../bench/services.ts'
import { nginx, programProblem } from '../../../bench/targets/program.ts'
import { bodyLength, echo, get, talk } from '../targets/ask.ts'
import { here, isAlive, startPods, workDirectory } from '../targets/pods.ts'
import { until } from '../../support/until.ts'

const noNginx = await programProblem(nginx)

t.test('a pod of the own servers', async t => {
  const { backends, pods } = await startPods(t)
  const [http, source, sink, udp] = (['http', 'source', 'sink', 'udp'] as const).map(
    service => backends.endpoints(service)[1],
  ) as [Endpoint, Endpoint, Endpoint, Endpoint]

  await t.test('answers what it is asked for', async t => {
    t.equal(bodyLength(await get(http, '/64')), 64)
    t.equal(bodyLength(await get(http, '/16384')), 16_384)
    t.equal(bodyLength(await get(http, '/else')), 'HTTP/1.1 404 Not Found')
  })

  await t.test('answers requests that come together, and in pieces', async t => {
    const one = 'GET /64 HTTP/1.1\r\nHost: x\r\n\r\n'
    const last = 'GET /64 HTTP/1.1\r\nconnection: close\r\n\r\n'
    const all = await talk(http, one + one + last + one)
    t.equal(all.split('HTTP/1.1 200 OK').length - 1, 3)
    const socket = connect(http.port, http.address)
    socket.write(one.slice(0, 20))
    await new Promise(setImmediate)
    socket.write(one.slice(20))
    const [answer] = (await once(socket, 'data')) as [Buffer]
    t.equal(bodyLength(answer.toString()), 64)
    socket.destroy()
  })

  await t.test('closes after a request of HTTP/1.0', async t => {
    t.equal(bodyLength(await talk(http, 'GET /64 HTTP/1.0\r\n\r\n')), 64)
  })

  await t.test('sends without end, and acknowledges what it reads', async t => {
    const much = await talk(source, '', text => text.length > 1e6)
    t.ok(much.length > 1e6)
    const acks = await talk(sink, Buffer.alloc(2 * ackedBytes), text => text.length === 2)
    t.equal(acks.length, 2)
  })

  await t.test('sends datagrams back', async t => {
    t.equal(await echo(udp, 'hello'), 'hello')
  })

  await t.test('has ports that refuse, each named once', async t => {
    const refusing = backends.refusing(12)
    t.equal(new Set(refusing.map(({ port }) => port)).size, 12)
    for (const endpoint of refusing)
      await t.rejects(talk(endpoint, ''), { code: 'ECONNREFUSED' })
    t.throws(() => backends.refusing(1000), /1000 endpoints that refuse/)
  })

  await t.test('has a port that neither takes nor refuses', async t => {
    const socket = connect(backends.silent.port, backends.silent.address)
    const heard = once(socket, 'connect', { signal: AbortSignal.timeout(500) })
    await t.rejects(heard, { name: 'AbortError' })
    socket.destroy()
  })

  await t.test('leaves no process', async t => {
    const pids = pods.flatMap(pod => pod.pids())
    t.ok(pids.length >= 2)
    await Promise.all(pods.map(pod => pod.stop()))
    await until('all are gone', () => !pids.some(isAlive))
  })
})

t.test('nginx as a backend', { skip: noNginx || false }, async t => {
  const workDir = join(await workDirectory(t), 'pod')
  const pod = await startPod(here, { http: 'nginx', workDir })
  t.teardown(() => pod.stop())
  const http = { address: '127.0.0.1', port: pod.ports.http }
  t.equal(bodyLength(await get(http, '/64')), 64)
  t.equal(bodyLength(await get(http, '/16384')), 16_384)
  t.equal(bodyLength(await get(http, '/else')), 'HTTP/1.1 404 Not Found')
  const pids = pod.pids()
  t.ok(pids.length >= 3, 'node, the master and a worker')
  await pod.stop()
  await until('all are gone', () => !pids.some(isAlive))
})
