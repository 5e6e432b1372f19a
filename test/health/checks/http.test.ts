import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import { createServer as createTcp } from 'node:net'
import t, { type Test } from 'tap'
import { makeCheck } from '../../../src/health/make-check.ts'
import { decodeCheck } from '../../../src/health/check-option.ts'
import { freeTcpPort } from '../../support/ports.ts'
import { ask } from '../ask.ts'

const serve = async (
  t: Test,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<number> => {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as { port: number }).port
}

t.test('the status decides', async t => {
  const port = await serve(t, ({ url }, response) => {
    response.writeHead(Number(url?.slice(1, 4)), { Location: '/200' }).end('words')
  })
  const table = [
    ['http://:P/200', 'up'],
    ['http://:P/503', 'down: HTTP status 503, expected 200'],
    ['http://:P/302', 'down: HTTP status 302, expected 200'],
    ['http://:P/204?lag=10MB', 'down: HTTP status 204, expected 200'],
  ] as const
  for (const [check, wanted] of table)
    t.equal(await ask(check.replace('P', String(port)), 9), wanted)
  const list = { type: 'http', port, path: '/429', expectStatus: [200, 429] } as const
  t.equal(await ask(list, 9), 'up')
  const other = { ...list, path: '/500' }
  t.equal(await ask(other, 9), 'down: HTTP status 500, expected 200 or 429')
})

t.test('it asks by the name of the endpoint', async t => {
  const asked: string[] = []
  const port = await serve(t, ({ method, url, headers }, response) => {
    asked.push(`${method} ${url} ${headers.host}`)
    response.end()
  })
  const run = makeCheck(decodeCheck(`http://:${port}/replica?lag=10MB`).check)
  const { signal } = new AbortController()
  for (const host of ['db-1.example', ''])
    await run({ address: '127.0.0.1', port: 5432, host }, { timeoutMs: 2000, signal })
  t.same(asked, [
    `GET /replica?lag=10MB db-1.example:${port}`,
    `GET /replica?lag=10MB 127.0.0.1:${port}`,
  ])
})

t.test('an endless body or one that drips ends with the check', async t => {
  let closed = 0
  const port = await serve(t, ({ url }, response) => {
    response.on('close', () => (closed += 1))
    const text = url === '/much' ? 'x'.repeat(16_384) : 'x'
    const timer = setInterval(() => response.write(text), 5)
    response.on('close', () => clearInterval(timer))
  })
  for (const path of ['/much', '/drip']) {
    const began = performance.now()
    t.equal(await ask(`http://:${port}${path}`, 9, '127.0.0.1', 2000), 'up')
    t.ok(performance.now() - began < 1000)
  }
  await new Promise(resolve => setTimeout(resolve, 50))
  t.equal(closed, 2)
})

t.test('a server that is still writing is not told of an end', async t => {
  let endedBefore: boolean | undefined
  const server = createTcp({ allowHalfOpen: true }, socket => {
    let isEnded = false
    socket.on('error', () => {})
    socket.on('end', () => (isEnded = true))
    socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\n\r\n'))
    setTimeout(() => {
      endedBefore = isEnded
      socket.end('the rest')
    }, 50)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  t.equal(await ask('http', (server.address() as { port: number }).port), 'up')
  t.equal(endedBefore, false)
})

t.test('headers without end are no answer, and 101 is a status', async t => {
  const answers = [
    'HTTP/1.1 200 OK\r\nX: '.padEnd(40_000, 'x'),
    'HTTP/1.1 101 Hm\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n',
  ]
  const server = createTcp(socket => {
    socket.on('error', () => {})
    socket.once('data', () => socket.write(answers.shift() ?? ''))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as { port: number }
  t.match(await ask('http', port), /^down: no HTTP answer/)
  t.equal(await ask('http', port), 'down: HTTP status 101, expected 200')
})

t.test('a port that nobody has is down', async t => {
  const port = await freeTcpPort()
  for (const check of ['http', 'tcp', 'redis'])
    t.equal(await ask(check, port), 'down: connection refused')
})

t.test('a status that is not wanted is an answer, silence is none', async t => {
  const status = await serve(t, (_, response) => response.writeHead(503).end())
  const silent = await serve(t, (_, response) => response.destroy())
  const run = makeCheck(decodeCheck('http').check)
  const limits = { timeoutMs: 5000, signal: new AbortController().signal }
  const asked = (port: number) => run({ address: '127.0.0.1', port, host: '' }, limits)
  t.match(await asked(status), { ok: false, answered: true })
  t.notMatch(await asked(silent), { answered: true })
})

t.test('a check is given up by its signal', async t => {
  const port = await serve(t, () => {})
  const limits = { timeoutMs: 20_000, signal: AbortSignal.timeout(50) }
  for (const check of ['http', 'redis', 'tcp']) {
    const run = makeCheck(decodeCheck(check).check)
    const outcome = await run({ address: '127.0.0.1', port, host: '' }, limits)
    if (!outcome.ok)
      t.same(outcome, { ok: false, reason: 'not checked: ended', here: true })
  }
})
