import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { ClosedLoop } from '../../../bench/load/closed-loop.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { until } from '../../support/until.ts'
import { ask, ok, serveHttp } from './servers.ts'

const path = '/64'

t.test('requests are as many as the server has seen', async t => {
  const { to, asked } = await serveHttp(t)
  const load = new ClosedLoop({ to, path, connections: 4 })
  await until('some are done', () => load.done() > 500)
  await load.stop()
  const done = load.done()
  t.ok(asked.requests - done >= 0 && asked.requests - done <= 4, `${done}`)
  t.equal(asked.connections, 4)
  t.same(load.errors.counts, {})
})

t.test('connections are as many as the server has seen', async t => {
  const { to, asked } = await serveHttp(t)
  const load = new ClosedLoop({ to, path, connections: 4, closes: true })
  await until('some are done', () => load.done() > 200)
  await load.stop()
  const done = load.done()
  t.ok(asked.connections - done >= 0 && asked.connections - done <= 4, `${done}`)
  t.equal(asked.requests >= done, true)
  t.same(load.errors.counts, {})
})

t.test('a window gives counts, times and cores', async t => {
  const { to, asked } = await serveHttp(t)
  const requests = await ask({
    kind: 'requests',
    generator: 'own',
    to,
    path,
    connections: 2,
  })
  t.ok(requests.done > 0 && requests.done < asked.requests)
  t.ok(requests.seconds >= 0.29 && requests.seconds < 2)
  t.ok((requests.latency?.count ?? 0) >= requests.done)
  t.ok((requests.cores?.generator ?? 0) > 0)
  t.same(requests.errors, {})
  const connections = await ask({
    kind: 'connections',
    generator: 'own',
    to,
    path,
    parallel: 2,
  })
  t.ok(connections.done > 0)
  t.ok((connections.connect?.p50 ?? 0) > 0)
  t.ok((connections.connect?.p50 ?? 0) <= (connections.latency?.p50 ?? 0))
  t.same(connections.errors, {})
})

const answers: Record<string, (nth: number) => string> = {
  'of another length each time': nth =>
    `HTTP/1.1 200 OK\r\nContent-Length: ${nth % 50}\r\n\r\n${'x'.repeat(nth % 50)}`,
  'larger than a read': () =>
    `HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n${'x'.repeat(200_000)}`,
  'in chunks': () =>
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n',
  'with status 404': () => 'HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno',
}

for (const [name, answer] of Object.entries(answers))
  t.test(`responses ${name} are counted`, async t => {
    const { to, asked } = await serveHttp(t, answer)
    const kept = new ClosedLoop({ to, path, connections: 2 })
    await until('some are done', () => kept.done() > 100)
    await kept.stop()
    t.ok(asked.requests - kept.done() <= 2)
    t.same(kept.errors.counts, {})
    const short = new ClosedLoop({ to, path, connections: 2, closes: true })
    await until('some are done', () => short.done() > 20)
    await short.stop()
    t.same(short.errors.counts, {})
  })

t.test('what a gateway answers for others counts as an error', async t => {
  const { to } = await serveHttp(
    t,
    () => 'HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nno',
  )
  for (const load of [
    new ClosedLoop({ to, path, connections: 2 }),
    new ClosedLoop({ to, path, connections: 2, closes: true }),
  ]) {
    await until('some have failed', () => (load.errors.counts['status 502'] ?? 0) > 2)
    await load.stop()
    t.equal(load.done(), 0)
  }
})

t.test("Node's own HTTP server is understood", async t => {
  const server = createServer((request, response) => {
    response.write('a')
    response.end(request.url)
  }).listen(0, testHost)
  await once(server, 'listening')
  t.teardown(() => server.close().closeAllConnections())
  const to = { address: testHost, port: (server.address() as AddressInfo).port }
  const kept = await ask({
    kind: 'requests',
    generator: 'own',
    to,
    path,
    connections: 2,
  })
  t.ok(kept.done > 10)
  t.same(kept.errors, {})
  const short = await ask({
    kind: 'connections',
    generator: 'own',
    to,
    path,
    parallel: 2,
  })
  t.ok(short.done > 10)
  t.same(short.errors, {})
})

t.test('a server that says it closes is dialled again, without an error', async t => {
  const closing = ok.replace('\r\n', '\r\nConnection: close\r\n')
  const { to, asked } = await serveHttp(t, (nth, socket) => {
    if (nth % 10 !== 0) return ok
    socket.end(closing)
    return undefined
  })
  const load = new ClosedLoop({ to, path, connections: 2 })
  await until('some are done', () => load.done() > 200)
  await load.stop()
  t.ok(asked.connections > 20)
  t.same(load.errors.counts, {})
})

t.test('first connections go once to each, one after the other', async t => {
  const servers = [await serveHttp(t), await serveHttp(t)]
  const closed = { address: testHost, port: await freeTcpPort() }
  const to = [...servers.map(server => server.to), closed]
  const answer = await ask({ kind: 'first-connections', to, path })
  t.same(
    servers.map(({ asked }) => asked.connections),
    [1, 1],
  )
  t.match(answer, { done: 2, tried: 3, errors: { ECONNREFUSED: 1 } })
  t.match([answer.connect?.count, answer.latency?.count], [2, 2])
})
