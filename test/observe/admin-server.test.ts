import { once } from 'node:events'
import { hostname, networkInterfaces } from 'node:os'
import type { RequestOptions } from 'node:http'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { metricsRoutes } from '../../src/observe/admin-routes.ts'
import type { Routes } from '../../src/observe/admin-routes.ts'
import { isHostAllowed } from '../../src/observe/small-http-server.ts'
import { ProbeCounts } from '../../src/observe/probe-counts.ts'
import type { StatusDocument } from '../../src/observe/status.ts'
import { splitHostPort } from '../../src/util/ip.ts'
import { until } from '../support/until.ts'
import { ask, start } from './admin-client.ts'

t.test('the host check', async t => {
  const cases: [host: string | undefined, boundTo: string, allowed: boolean][] = [
    ['127.0.0.1:10249', '127.0.0.1', true],
    ['localhost:10249', '127.0.0.1', true],
    ['LocalHost', '::1', true],
    ['[::1]:10249', '::1', true],
    ['10.0.0.1', '127.0.0.1', true],
    ['evil.example:10249', '127.0.0.1', false],
    ['evil.example', '::1', false],
    ['evil.example', '::ffff:127.0.0.1', false],
    ['evil.example', '0:0:0:0:0:0:0:1', false],
    ['evil.example', 'localhost', false],
    ['evil.example', '127.example', true],
    ['localhost.evil.example', '127.9.9.9', false],
    ['127.0.0.1.evil.example', '127.0.0.1', false],
    ['', '127.0.0.1', false],
    [hostname(), '127.0.0.1', true],
    [`${hostname().split('.')[0]}:80`, '::1', true],
    [`${hostname()}.evil.example`, '127.0.0.1', false],
    [undefined, '127.0.0.1', true],
    ['node-1.example', '0.0.0.0', true],
    ['node-1.example', '192.0.2.1', true],
  ]
  for (const [host, boundTo, allowed] of cases)
    t.equal(isHostAllowed(host, boundTo), allowed, `${host} to ${boundTo}`)
})

const elsewhere = Object.values(networkInterfaces())
  .flatMap(each => each ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')

t.test(
  'what is for this host alone is answered at loopback only',
  { skip: elsewhere === undefined && 'there is no address but those of loopback' },
  async t => {
    const answer = () => ({ status: 200, contentType: 'text/plain', body: 'secret' })
    const own: Routes = new Map([['/own', { onlyThisHost: true, answer }]])
    const { server } = await start(t, own, { address: '0.0.0.0', port: 0 })
    const { port } = splitHostPort(server.address()) ?? {}
    t.match(await ask(`127.0.0.1:${port}`, '/own'), { status: 200, body: 'secret' })
    t.match(await ask(`${elsewhere?.address}:${port}`, '/own'), {
      status: 403,
      body: 'only for clients on the same host, at a loopback address\n',
    })
  },
)

t.test('what is for this host alone is for no page of another site', async t => {
  const answer = () => ({ status: 200, contentType: 'text/plain', body: 'secret' })
  const own: Routes = new Map([['/own', { onlyThisHost: true, answer }]])
  const { server } = await start(t, own, { address: '0.0.0.0', port: 0 })
  const { port } = splitHostPort(server.address()) ?? {}
  const host = `127.0.0.1:${port}`
  const cases: [headers: Record<string, string>, status: number][] = [
    [{}, 200],
    [{ host: `localhost:${port}` }, 200],
    [{ host: `evil.example:${port}` }, 403],
    [{ 'sec-fetch-site': 'same-origin' }, 200],
    [{ 'sec-fetch-site': 'none' }, 200],
    [{ 'sec-fetch-site': 'same-site' }, 403],
    [{ 'sec-fetch-site': 'cross-site' }, 403],
    [{ origin: `http://${host}` }, 200],
    [{ origin: 'http://evil.example' }, 403],
    [{ origin: 'null' }, 403],
    // A proxy on this host lets others in.
    [{ 'x-forwarded-for': '127.0.0.1' }, 403],
    [{ forwarded: 'for=192.0.2.1' }, 403],
    [{ via: '1.1 proxy' }, 403],
  ]
  for (const [headers, status] of cases)
    t.match(await ask(host, '/own', { headers }), { status }, JSON.stringify(headers))
})

const anyPort = { address: '127.0.0.1', port: 0 }
const document = { version: '1', servicePorts: [] } as unknown as StatusDocument
const pages = [Buffer.from('first '), Buffer.from('second\n')]
const metrics = { contentType: 'text/plain; version=0.0.4', scrape: async () => pages }
const routes = metricsRoutes(metrics, () => document)

t.test('the metrics server', async t => {
  const { server } = await start(t, routes, anyPort)
  const get = (path: string, options?: RequestOptions) =>
    ask(server.address(), path, options)

  t.test('answers /proxyMode with exactly the mode', async t => {
    const { status, headers, body } = await get('/proxyMode')
    t.equal(status, 200)
    t.equal(body, 'userspace')
    t.equal(headers['content-type'], 'text/plain; charset=utf-8')
    t.equal(headers['x-content-type-options'], 'nosniff')
  })

  t.test('answers /healthz with ok', async t => {
    t.match(await get('/healthz'), { status: 200, body: 'ok' })
  })

  t.test('takes a target with a query, or in absolute form', async t => {
    for (const target of ['/proxyMode?x=1', 'http://any.example/proxyMode?x=1'])
      t.match(await get(target), { status: 200, body: 'userspace' }, target)
  })

  t.test('answers /metrics with all pages in order', async t => {
    const { status, headers, body } = await get('/metrics?name[]=x')
    t.equal(status, 200)
    t.equal(body, 'first second\n')
    t.equal(headers['content-type'], 'text/plain; version=0.0.4')
  })

  t.test('answers /status with the document', async t => {
    const { status, headers, body } = await get('/status')
    t.equal(status, 200)
    t.equal(headers['content-type'], 'application/json')
    t.strictSame(JSON.parse(body), { version: '1', servicePorts: [] })
  })

  t.test('refuses all but probes to a page with another name', async t => {
    const headers = { Host: 'evil.example' }
    for (const path of ['/status', '/metrics', '/proxyMode']) {
      const refused = await get(path, { headers })
      t.equal(refused.status, 403, path)
      t.match(refused.body, /^the Host header must be an IP address, localhost or /)
      const own = await get(path, { headers: { Host: `${hostname()}:10249` } })
      t.equal(own.status, 200, path)
    }
    t.equal((await get('/healthz', { headers })).status, 200)
  })

  t.test('has no /configz and no /metrics/slis without anything to show', async t => {
    for (const path of ['/configz', '/metrics/slis'])
      t.match(await get(path), { status: 404 }, path)
    t.notMatch((await get('/')).body, /configz|slis/)
  })

  t.test('knows no other path, and says which there are', async t => {
    for (const path of ['/', '/metrics/', '/constructor', '/../status', '//status'])
      t.match(await get(path), { status: 404, body: /\/metrics, / }, path)
  })

  t.test('answers another method with 405 and the allowed ones', async t => {
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const { status, headers } = await get('/metrics', { method })
      t.equal(status, 405, method)
      t.equal(headers.allow, 'GET, HEAD')
    }
  })

  t.test('answers HEAD with the headers alone', async t => {
    const { status, headers, body } = await get('/metrics', { method: 'HEAD' })
    t.equal(status, 200)
    t.equal(headers['content-length'], '13')
    t.equal(body, '')
  })

  t.test('serves one connection again and again', async t => {
    const { host, port } = splitHostPort(server.address()) ?? { host: '', port: 0 }
    const socket = connect(port, host)
    t.teardown(() => socket.destroy())
    const request = 'GET /proxyMode HTTP/1.1\r\nHost: localhost\r\n\r\n'
    socket.write(request)
    let text = ''
    for await (const piece of socket.setEncoding('utf8')) {
      text += piece
      const answers = text.split('userspace').length - 1
      if (answers === 200) break
      if (String(piece).endsWith('userspace')) socket.write(request)
    }
    t.equal(text.split('HTTP/1.1 200 OK').length, 201)
  })

  t.test('answers what is not HTTP with 400', async t => {
    const { host, port } = splitHostPort(server.address()) ?? { host: '', port: 0 }
    const socket = connect(port, host)
    socket.end('\u0016\u0003\u0001\r\n\r\n')
    let text = ''
    for await (const piece of socket.setEncoding('utf8')) text += piece
    t.match(text, /^HTTP\/1\.1 400 Bad Request\r\n/)
    t.notMatch(text, /\.(js|ts):/)
  })
})

t.test('the metrics server with more to show', async t => {
  const probes = new ProbeCounts()
  const config = { kind: 'KubeProxyConfiguration', mode: '' }
  const more = metricsRoutes(metrics, async () => [Buffer.from('{}\n')], {
    probes,
    config: () => config,
  })
  const { server } = await start(t, more, anyPort)
  const get = (path: string, options?: RequestOptions) =>
    ask(server.address(), path, options)

  t.test('answers /configz with the configuration in effect', async t => {
    const { status, headers, body } = await get('/configz')
    t.equal(status, 200)
    t.equal(headers['content-type'], 'application/json')
    t.strictSame(JSON.parse(body), { 'kubeproxy.config.k8s.io': config })
    const foreign = await get('/configz', { headers: { Host: 'evil.example' } })
    t.equal(foreign.status, 403)
  })

  t.test('answers /status with pages', async t => {
    t.equal((await get('/status')).body, '{}\n')
  })

  t.test('counts its own health checks in /metrics/slis', async t => {
    await get('/healthz')
    await get('/healthz')
    const { headers, body } = await get('/metrics/slis')
    t.equal(headers['content-type'], 'text/plain; version=0.0.4')
    const lines = body.split('\n').filter(line => !line.startsWith('#'))
    t.strictSame(lines, [
      'kubernetes_healthcheck{name="ping",type="healthz"} 1',
      'kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 2',
      '',
    ])
  })
})

t.test('an answer that fails is 500 without a stack, and logged with it', async t => {
  const broken: Routes = new Map([
    ['/x', { answer: () => Promise.reject(new Error('secret thing')) }],
  ])
  const { server, records } = await start(t, broken, anyPort)
  const { status, body } = await ask(server.address(), '/x')
  t.equal(status, 500)
  t.notMatch(body, /secret|\.ts/)
  t.match(records.at(-1), { level: 'error', err: { message: 'secret thing' } })
})

const closed = (socket: Socket) =>
  new Promise<void>(resolve => socket.once('close', () => resolve()))

t.test('a client that sends its headers too slowly is cut', async t => {
  const { server } = await start(t, routes, anyPort)
  const { host, port } = splitHostPort(server.address()) ?? { host: '', port: 0 }
  const socket = connect(port, host)
  socket.on('error', () => {})
  socket.resume()
  socket.write('GET /metrics HTTP/1.1\r\n')
  const drip = setInterval(() => socket.write('X-Slow: 1\r\n'), 500)
  t.teardown(() => clearInterval(drip))
  await closed(socket)
  t.ok(socket.bytesWritten < 500)
})

t.test('one that asks again before it has its answer is cut', async t => {
  let asked = 0
  let answer = (): void => {}
  const slow: Routes = new Map([
    [
      '/slow',
      {
        answer: () => {
          asked += 1
          return new Promise(resolve => {
            answer = () => resolve({ status: 200, contentType: 'text/plain', body: 'x' })
          })
        },
      },
    ],
  ])
  const { server } = await start(t, slow, anyPort)
  const { port = 0 } = splitHostPort(server.address()) ?? {}
  const client = connect(port, '127.0.0.1').on('error', () => {})
  client.write('GET /slow HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(1000))
  await once(client, 'close')
  t.equal(asked, 1)
  answer()
})

t.test('a client that does not take its answer is cut', async t => {
  const endless = Array<Buffer>(64).fill(Buffer.alloc(1024 * 1024))
  const large: Routes = new Map([
    ['/', { answer: () => ({ status: 200, contentType: 'text/plain', body: endless }) }],
  ])
  const { server, clock, records } = await start(t, large, anyPort)
  const { host, port } = splitHostPort(server.address()) ?? { host: '', port: 0 }
  const socket = connect(port, host)
  socket.on('error', () => {})
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await new Promise<void>(resolve => socket.once('readable', () => resolve()))
  clock.advance(60_000)
  socket.resume()
  await closed(socket)
  t.ok(socket.bytesRead < 64 * 1024 * 1024)
  t.match(records.at(-1), { level: 'debug' })
})

t.test('slow readers of large answers hold no more than 64 MiB', async t => {
  let made = 0
  const large = (): readonly Buffer[] => {
    made += 1
    return [Buffer.alloc(20 << 20, String(made))]
  }
  const { server } = await start(
    t,
    metricsRoutes(metrics, async () => large()),
    anyPort,
  )
  const { host, port } = splitHostPort(server.address()) ?? { host: '', port: 0 }
  const ends: number[] = []
  const readers: Socket[] = []
  for (let i = 0; i < 5; i += 1) {
    const socket = connect(port, host)
    t.teardown(() => socket.destroy())
    readers.push(socket)
    socket.write('GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n')
    await once(socket, 'readable')
    socket.on('error', () => {}).once('close', () => ends.push(i))
  }
  for (const socket of readers) socket.resume()
  await until('the oldest are cut', () => ends.length === 2)
  t.strictSame(new Set(ends), new Set([0, 1]))
  t.equal(made, 5)
})

t.test('who asks while an answer is made gets the same', async t => {
  let made = 0
  const status = async (): Promise<readonly Buffer[]> => {
    const mine = (made += 1)
    await sleep(100)
    return [Buffer.from(`${mine}`)]
  }
  const { server } = await start(t, metricsRoutes(metrics, status), anyPort)
  const answers = ['a', 'b', 'c'].map(() => ask(server.address(), '/status'))
  t.match(await Promise.all(answers), [{ body: '1' }, { body: '1' }, { body: '1' }])
  t.match(await ask(server.address(), '/status'), { body: '2' })
  // What a route does not go by makes no answer of its own; what it goes by does.
  const others = [
    '/status?x=1',
    '/status?x=2',
    '/status?service=a',
    '/status?service=a&x',
  ]
  const bodies = await Promise.all(others.map(path => ask(server.address(), path)))
  t.strictSame(
    bodies.map(({ body }) => body),
    ['3', '3', '4', '4'],
  )
})

t.test('connections beyond the cap are refused, and idle ones give way', async t => {
  const { server } = await start(t, routes, anyPort)
  const { host, port } = splitHostPort(server.address()) ?? { host: '', port: 0 }
  const sockets: Socket[] = []
  t.teardown(() => sockets.forEach(socket => socket.destroy()))
  const open = async (text: string) => {
    const socket = connect(port, host)
    socket.on('error', () => {})
    sockets.push(socket)
    socket.write(text)
    await new Promise<void>(resolve => {
      socket.once('data', () => resolve())
      socket.once('close', () => resolve())
      if (!text.endsWith('\r\n\r\n')) socket.once('connect', () => resolve())
    })
    return socket
  }
  const request = 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n'
  for (let i = 0; i < 80; i += 1) await open(request)
  const last = sockets.at(-1)
  t.ok((last?.bytesRead ?? 0) > 0, 'idle connections do not lock a probe out')
  for (const socket of sockets) socket.destroy()
  for (const socket of sockets) if (!socket.closed) await closed(socket)
  await new Promise(resolve => setTimeout(resolve, 50))
  for (let i = 0; i < 32; i += 1) await open('GET /')
  const newcomer = await open(request)
  t.ok(newcomer.bytesRead > 0, 'slow connections do not lock a probe out')
  t.ok((sockets.at(80) as Socket).closed, 'the oldest gave way')
})

t.test('a port in use is said once, with advice, and tried again', async t => {
  const other = createServer()
  await new Promise<void>(resolve => other.listen(0, '127.0.0.1', resolve))
  const { port } = other.address() as AddressInfo
  const bind = { address: '127.0.0.1', port }
  const { server, clock, records } = await start(t, routes, bind)
  t.equal(server.address(), '')
  t.match(records[0], {
    level: 'error',
    address: `127.0.0.1:${port}`,
    error: /EADDRINUSE/,
    advice: /another process listens there.*--metrics-bind-address/,
  })
  clock.advance(5000)
  await until('the second try', () => records.length === 2)
  t.match(records[1], { level: 'debug' })
  await new Promise<void>(resolve => other.close(() => resolve()))
  clock.advance(4999)
  t.equal(clock.waiting, 1)
  clock.advance(1)
  await until('it listens', () => server.address() === `127.0.0.1:${port}`)
  t.match(await ask(server.address(), '/healthz'), { status: 200 })
})

t.test('closing while the port is in use ends the tries', async t => {
  const other = createServer()
  await new Promise<void>(resolve => other.listen(0, '127.0.0.1', resolve))
  t.teardown(() => other.close())
  const { port } = other.address() as AddressInfo
  const { server, clock } = await start(t, routes, { address: '127.0.0.1', port })
  t.equal(clock.waiting, 1)
  await server.close()
  t.equal(clock.waiting, 0)
})

t.test('closing ends open connections too', async t => {
  const { server } = await start(t, routes, anyPort)
  const { host, port } = splitHostPort(server.address()) ?? { host: '', port: 0 }
  const socket = connect(port, host)
  socket.on('error', () => {})
  await new Promise<void>(resolve => socket.once('connect', () => resolve()))
  const gone = closed(socket.resume())
  await server.close()
  await gone
  t.equal(server.address(), '')
})
