import { once } from 'node:events'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type Socket,
} from 'node:net'
import type { Duplex } from 'node:stream'
import t, { type Test } from 'tap'
import { connectToCluster } from '../../../src/source/kubernetes/cluster-access.ts'
import { environmentProxy } from '../../../src/source/kubernetes/proxy.ts'
import { certificate } from '../../support/api-server/certificates.ts'
import { startApiServer } from '../../support/api-server/for-test.ts'

t.test('the environment is read as Go reads it', async t => {
  const proxied = (server: string, env: NodeJS.ProcessEnv) =>
    environmentProxy(new URL(server), env)?.origin ?? 'direct'
  const env = (noProxy: string) => ({ HTTPS_PROXY: 'http://p:3128', NO_PROXY: noProxy })
  const p = 'http://p:3128'
  const cases: [server: string, env: NodeJS.ProcessEnv, wanted: string][] = [
    ['https://10.96.0.1', {}, 'direct'],
    ['https://10.96.0.1', env(''), p],
    ['https://10.96.0.1', { https_proxy: 'p:3128' }, p],
    ['https://10.96.0.1', { HTTPS_PROXY: '', https_proxy: 'p:3128' }, p],
    ['https://10.96.0.1', { HTTP_PROXY: 'p:3128', ALL_PROXY: 'p:1' }, 'direct'],
    ['http://10.96.0.1', { HTTP_PROXY: 'p:3128' }, p],
    ['http://10.96.0.1', { http_proxy: 'p:3128', HTTPS_PROXY: 'q' }, p],
    ['https://localhost:6443', env(''), 'direct'],
    ['https://127.0.0.9:6443', env(''), 'direct'],
    ['https://[::1]:6443', env(''), 'direct'],
    ['https://[::ffff:127.0.0.1]:6443', env(''), 'direct'],
    ['https://localhost.example', env(''), p],
    ['https://10.96.0.1', env('*'), 'direct'],
    ['https://10.96.0.1', env('192.168.0.0/16, 10.96.0.0/12'), 'direct'],
    ['https://11.0.0.1', env('10.0.0.0/8'), p],
    ['https://[fd00::1]', env('fd00::/8'), 'direct'],
    ['https://[fd00::1]', env('FD00:0::1'), 'direct'],
    ['https://[fd00::1]:6443', env('[fd00::1]:6443'), 'direct'],
    ['https://[fd00::1]:6443', env('[fd00::1]'), 'direct'],
    ['https://[fd00::1]:6443', env('[fd00::1]:443'), p],
    ['https://10.96.0.1', env('10.96.0.1'), 'direct'],
    ['https://10.96.0.1', env('10.96.0.1:443'), 'direct'],
    ['https://10.96.0.1:6443', env('10.96.0.1:443'), p],
    ['https://10.96.0.1', env('6.0.1'), p],
    ['https://api.Example.com', env('x,,example.COM'), 'direct'],
    ['https://example.com', env('example.com'), 'direct'],
    ['https://example.com', env('.example.com'), p],
    ['https://example.com', env('*.example.com'), p],
    ['https://api.example.com', env('*.example.com'), 'direct'],
    ['https://a.b.example.com', env('.example.com'), 'direct'],
    ['https://notexample.com', env('example.com'), p],
    ['https://api.example.com:6443', env('example.com:6443'), 'direct'],
    ['https://api.example.com', env('example.com:6443'), p],
    ['https://api.example.com', { HTTPS_PROXY: 'socks5://p:1', no_proxy: 'z' }, 'null'],
  ]
  for (const [server, given, wanted] of cases)
    t.equal(proxied(server, given), wanted, `${server} ${JSON.stringify(given)}`)
  for (const bad of ['ftp://p', 'http://', 'http://user:secret@p:99999'])
    t.throws(() => proxied('https://10.0.0.1', { HTTPS_PROXY: bad }), {
      message: /^HTTPS_PROXY: is not a proxy; give one like/,
    })
})

/** Pipes a client of a proxy to the server behind it, whatever it asked for. */
const piped = (client: Duplex, url: string, hello: string | Buffer): void => {
  const upstream = connect(Number(new URL(url).port), '127.0.0.1', () => {
    client.write(hello)
    upstream.pipe(client).pipe(upstream)
  })
  upstream.on('error', () => client.destroy())
  client.on('error', () => upstream.destroy())
}

const listening = async (t: Test, server: ReturnType<typeof createTcpServer>) => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

/** A proxy that lets in whoever has this password, to the API server alone. */
const connectProxy = async (t: Test, url: string, secure = false) => {
  const key = { cert: certificate('server.crt'), key: certificate('server.key') }
  const proxy = secure ? createTlsServer(key) : createServer()
  const asked: (string | undefined)[] = []
  proxy.on('connect', (request, client) => {
    asked.push(request.url)
    const login = Buffer.from('me:s3 cret').toString('base64')
    if (request.headers['proxy-authorization'] === `Basic ${login}`)
      return piped(client, url, 'HTTP/1.1 200 Connection established\r\n\r\n')
    client.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')
  })
  return { port: await listening(t, proxy), asked }
}

/** A pod whose API server is at an address that only its proxy reaches. */
const inCluster = async (
  t: Test,
  token: string,
  env: NodeJS.ProcessEnv,
  host = '10.96.0.1',
) => {
  const serviceAccountDir = t.testdir({ token, 'ca.crt': certificate('ca.crt') })
  const KUBERNETES = { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: '6443' }
  const client = await connectToCluster(
    { kubeconfig: '', master: '', qps: -1, version: '1' },
    { env: { ...KUBERNETES, ...env }, serviceAccountDir },
  )
  t.teardown(() => client.close())
  const { signal } = new AbortController()
  return async () => {
    const { status, body } = await client.request({ path: '/api/v1/services', signal })
    for await (const _ of body);
    return status
  }
}

t.test('a pod reaches its API server through HTTPS_PROXY', async t => {
  const api = await startApiServer(t)
  const { port, asked } = await connectProxy(t, api.url)
  const proxy = `http://me:s3%20cret@127.0.0.1:${port}`
  const ask = await inCluster(t, api.token, { HTTPS_PROXY: proxy }, 'localhost.')
  t.equal(await ask(), 200)
  t.equal(await ask(), 200)
  t.strictSame(asked, ['localhost.:6443'], 'a connection is kept')
  const stranger = await inCluster(t, api.token, { HTTPS_PROXY: `127.0.0.1:${port}` })
  await t.rejects(stranger(), { message: /^407 Proxy Authentication Required/ })
  const ipv6 = await inCluster(t, api.token, { HTTPS_PROXY: proxy }, 'fd00::1')
  await t.rejects(ipv6(), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
  t.equal(asked.at(-1), '[fd00::1]:6443')
})

t.test('a proxy that is away is named', async t => {
  const api = await startApiServer(t)
  const ask = await inCluster(t, api.token, { HTTPS_PROXY: 'http://127.0.0.1:1' })
  await t.rejects(ask(), { message: /ECONNREFUSED 127\.0\.0\.1:1$/ })
})

t.test('SOCKS', async t => {
  const api = await startApiServer(t)
  const asked: string[] = []
  const proxy = createTcpServer((client: Socket) => {
    client.once('data', () => {
      client.write(Buffer.of(5, 0))
      client.once('data', request => {
        asked.push(request.subarray(5, 5 + (request[4] ?? 0)).toString())
        piped(client, api.url, Buffer.of(5, 0, 0, 1, 0, 0, 0, 0, 0, 0))
      })
    })
  })
  const HTTPS_PROXY = `socks5h://127.0.0.1:${await listening(t, proxy)}`
  const ask = await inCluster(t, api.token, { HTTPS_PROXY }, 'localhost.')
  t.equal(await ask(), 200)
  t.strictSame(asked, ['localhost.'])
})
