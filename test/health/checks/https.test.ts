import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, renameSync } from 'node:fs'
import { createServer } from 'node:https'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { decodeCheck } from '../../../src/health/check-option.ts'
import { makeCheck } from '../../../src/health/make-check.ts'
import { missingPrograms } from '../../support/installed.ts'
import { ask } from '../ask.ts'

const skip = missingPrograms('openssl')

/** Certificates of two authorities, as Patroni's `restapi.certfile` and `cafile` would be. */
const certificates = (t: Test) => {
  const dir = t.testdir({})
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { cwd: dir, stdio: 'pipe' })
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  for (const ca of ['ca', 'other'])
    openssl(
      'req',
      '-x509',
      ...key,
      '-keyout',
      `${ca}.key`,
      '-out',
      `${ca}.pem`,
      '-subj',
      `/CN=${ca}`,
    )
  const issue = (name: string, ca: string, names: string) =>
    openssl(
      'req',
      '-x509',
      ...key,
      '-keyout',
      `${name}.key`,
      '-out',
      `${name}.pem`,
      '-subj',
      `/CN=${name}`,
      '-CA',
      `${ca}.pem`,
      '-CAkey',
      `${ca}.key`,
      '-addext',
      `subjectAltName=${names}`,
      '-addext',
      'basicConstraints=CA:FALSE',
    )
  issue('server', 'ca', 'DNS:db.example,IP:127.0.0.1')
  issue('client', 'ca', 'DNS:client')
  issue('stranger', 'other', 'DNS:client')
  return (name: string): string => `${dir}/${name}`
}

t.test('HTTP over TLS', { skip }, async t => {
  const at = certificates(t)
  const heard: string[] = []
  const serve = async (t: Test, requestCert: boolean) => {
    const [cert, key, ca] = ['server.pem', 'server.key', 'ca.pem'].map(name =>
      readFileSync(at(name)),
    )
    const server = createServer(
      { cert, key, ca, requestCert, rejectUnauthorized: requestCert },
      (request, response) => {
        const { method, headers } = request
        heard.push(`${method} ${headers.host} ${String(headers['x-a'])}`)
        response.writeHead(request.url === '/primary' ? 200 : 503).end('words')
      },
    ).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    return (server.address() as { port: number }).port
  }
  const check = {
    type: 'http',
    tls: true,
    path: '/primary',
    caFile: at('ca.pem'),
  } as const

  t.test('the certificate has to be for the endpoint', async t => {
    const port = await serve(t, false)
    t.equal(await ask(check, port), 'up')
    t.equal(
      await ask({ ...check, path: '/' }, port),
      'down: HTTP status 503, expected 200',
    )
    t.equal(await ask({ ...check, host: 'db.example:8008' }, port), 'up')
    t.match(
      await ask({ ...check, host: 'other.example' }, port),
      /^down: TLS: .*altnames: Host: other.example/,
    )
    t.match(
      await ask(`https://:${port}/primary`, 1),
      /^down: TLS: unable to verify|^down: TLS: self/,
    )
    const { caFile: _, ...system } = check
    t.equal(await ask({ ...system, verify: 'none' }, port), 'up')
    t.match(await ask({ ...check, caFile: at('other.pem') }, port), /^down: TLS: /)
    const run = makeCheck(decodeCheck(check).check)
    const limits = { timeoutMs: 2000, signal: new AbortController().signal }
    const named = (host: string) => run({ address: '127.0.0.1', port, host }, limits)
    t.match(await named('db.example'), { ok: true })
    t.match(await named('db2.example'), { ok: false })
    heard.length = 0
    const more = { host: 'db.example:8008', headers: { 'X-A': 'b' } } as const
    for (const method of ['HEAD', 'POST'] as const)
      t.equal(await ask({ ...check, ...more, method }, port), 'up')
    t.strictSame(heard, ['HEAD db.example:8008 b', 'POST db.example:8008 b'])
    t.match(
      await ask({ type: 'http', path: '/primary' }, port),
      /^down: /,
      'in the clear',
    )
  })

  t.test('who is not verified is told nothing', async t => {
    const port = await serve(t, false)
    heard.length = 0
    const secret = { headers: { Authorization: 'Bearer x' }, caFile: at('other.pem') }
    for (let i = 0; i < 5; i += 1)
      t.match(await ask({ ...check, ...secret }, port), /^down: TLS/)
    t.strictSame(heard, [])
  })

  t.test('with a certificate of its own, which may be renewed', async t => {
    const port = await serve(t, true)
    const own = (name: string) => ({
      certFile: at(`${name}.pem`),
      keyFile: at(`${name}.key`),
    })
    t.match(await ask(check, port), /^down: (TLS: |connection reset|closed)/)
    t.match(
      await ask({ ...check, ...own('stranger') }, port),
      /^down: (TLS: |connection reset|closed)/,
    )
    const run = makeCheck(decodeCheck({ ...check, ...own('client') }).check)
    const endpoint = { address: '127.0.0.1', port, host: '' }
    const limits = { timeoutMs: 2000, signal: new AbortController().signal }
    t.match(await run(endpoint, limits), { ok: true })
    renameSync(at('client.pem'), at('client.old'))
    t.match(await run(endpoint, limits), {
      ok: false,
      here: true,
      reason: /client.pem can't be read: ENOENT/,
    })
    renameSync(at('client.old'), at('client.pem'))
    t.match(await run(endpoint, limits), { ok: true })
    const mixed = { ...own('client'), keyFile: at('server.key') }
    t.match(await ask({ ...check, ...mixed }, port), /^down: not checked: /)
  })

  t.test('a server that says nothing in TLS is found by the time', async t => {
    const port = await serve(t, false)
    const silent = (await import('node:net'))
      .createServer(() => {})
      .listen(0, '127.0.0.1')
    await once(silent, 'listening')
    t.teardown(() => silent.close())
    const { port: other } = silent.address() as { port: number }
    t.equal(await ask(check, other, '127.0.0.1', 300), 'down: no answer within 0.3 s')
    t.equal(await ask(check, port), 'up')
    connect(port, '127.0.0.1').destroy()
  })
})
