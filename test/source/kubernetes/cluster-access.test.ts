import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import type { ApiClient } from '../../../src/source/kubernetes/api-client.ts'
import { ApiError } from '../../../src/source/kubernetes/api-error.ts'
import {
  connectToCluster,
  type ClusterAccess,
  type ClusterAccessDeps,
} from '../../../src/source/kubernetes/cluster-access.ts'
import { FileCredentials } from '../../../src/source/kubernetes/credentials.ts'
import { PluginCredentials } from '../../../src/source/kubernetes/exec-plugin.ts'
import type { Part } from '../../../src/source/kubernetes/kubeconfig.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { certificate } from '../../support/api-server/certificates.ts'
import { startApiServer } from '../../support/api-server/for-test.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { testHost } from '../../support/ports.ts'
import { until } from '../../support/until.ts'

const access = (given: Partial<ClusterAccess>): ClusterAccess => ({
  kubeconfig: '',
  master: '',
  qps: -1,
  version: '1.2.3',
  ...given,
})

const connected = async (
  t: Test,
  given: Partial<ClusterAccess>,
  deps: ClusterAccessDeps = {},
): Promise<ApiClient> => {
  const client = await connectToCluster(access(given), deps)
  t.teardown(() => client.close())
  return client
}

/** The status of a request; that of a refusal, too. */
const ask = async (client: ApiClient): Promise<number> => {
  const { signal } = new AbortController()
  try {
    const { status, body } = await client.request({ path: '/api/v1/services', signal })
    for await (const _ of body);
    return status
  } catch (error) {
    if (error instanceof ApiError) return error.status
    throw error
  }
}

type Json = Record<string, unknown>
interface Files {
  [name: string]: string | Files
}

/** A kubeconfig whose cluster and user are as given. */
const kubeconfig = (t: Test, cluster: Json, user: Json, files: Files = {}): string => {
  const config = {
    clusters: [{ name: 'c', cluster }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
  const directory = t.testdir({ ...files, config: JSON.stringify(config) })
  return join(directory, 'config')
}

/** A plain HTTP server that keeps the headers of what it is asked. */
const echo = async (t: Test): Promise<{ url: string; asked: IncomingMessage[] }> => {
  const asked: IncomingMessage[] = []
  const server = createServer((request, response) => {
    asked.push(request)
    response.end('{}')
  })
  return { url: `http://${await listen(t, server)}`, asked }
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(-pid, 0)
  } catch {
    return false
  }
}

const listen = async (t: Test, server: Server): Promise<string> => {
  server.listen(0, testHost)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `${testHost}:${(server.address() as AddressInfo).port}`
}

const users = ['token', 'token-file', 'certificate', 'token-and-certificate'] as const
for (const user of users)
  t.test(`a kubeconfig with ${user} lets Usher in`, async t => {
    const api = await startApiServer(t)
    const client = await connected(t, { kubeconfig: api.kubeconfig({ user }) })
    t.equal(await ask(client), 200)
    t.equal(client.server, api.url)
    t.equal(api.requests.all[0]?.userAgent, 'usher/1.2.3')
  })

t.test('a stranger is refused, and nobody is', async t => {
  const api = await startApiServer(t)
  for (const user of ['stranger', 'nobody'] as const)
    t.equal(await ask(await connected(t, { kubeconfig: api.kubeconfig({ user }) })), 401)
})

t.test('a server with another certificate is not trusted', async t => {
  const api = await startApiServer(t)
  const file = api.kubeconfig({ authority: 'wrong' })
  await t.rejects(ask(await connected(t, { kubeconfig: file })), /certificate|signature/)
})

t.test('with insecure-skip-tls-verify any server is trusted', async t => {
  const api = await startApiServer(t)
  const cluster = { server: api.url, 'insecure-skip-tls-verify': true }
  const file = kubeconfig(t, cluster, { token: api.token })
  t.equal(await ask(await connected(t, { kubeconfig: file })), 200)
})

t.test("an auth-provider's token is sent, by Kubernetes' own client", async t => {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const token = `${part({ alg: 'none' })}.${part({ exp: 4e9 })}.x`
  const config = {
    'id-token': token,
    'client-id': 'c',
    'idp-issuer-url': 'https://[::1]',
  }
  const providers = { good: config, empty: {} }
  const headersBy = async (name: keyof typeof providers) => {
    const provider = { name: 'oidc', config: providers[name] }
    const user = {
      title: 'users[0]',
      raw: (field: string) => (field === 'auth-provider' ? provider : undefined),
    } as unknown as Part
    const own = new FileCredentials({ tls: {}, headers: { 'impersonate-user': 'me' } })
    const credentials = new PluginCredentials({ own, user, clock: systemClock })
    return (await credentials.current()).headers
  }
  t.strictSame(await headersBy('good'), {
    'impersonate-user': 'me',
    authorization: `Bearer ${token}`,
  })
  await t.rejects(headersBy('empty'), /^users\[0\]\.auth-provider: /)
})

t.test('tls-server-name may be an IP address', async t => {
  const warnings: Error[] = []
  const warned = (warning: Error) => void warnings.push(warning)
  process.on('warning', warned)
  t.teardown(() => process.off('warning', warned))
  const api = await startApiServer(t)
  const ca = Buffer.from(certificate('ca.crt')).toString('base64')
  const cluster = { server: api.url, 'certificate-authority-data': ca }
  const askAs = async (name: string): Promise<number> => {
    const named = { ...cluster, 'tls-server-name': name }
    const file = kubeconfig(t, named, { token: api.token })
    return ask(await connected(t, { kubeconfig: file }))
  }
  t.equal(await askAs('127.0.0.1'), 200)
  await t.rejects(askAs('10.9.9.9'), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
  await t.rejects(askAs('fd00::9'), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
  await new Promise(setImmediate)
  t.strictSame(warnings, [])
})

t.test('with tls-server-name the certificate must carry that name', async t => {
  const api = await startApiServer(t)
  const ca = Buffer.from(certificate('ca.crt')).toString('base64')
  const cluster = { server: api.url, 'certificate-authority-data': ca }
  const named = { ...cluster, 'tls-server-name': 'elsewhere.example' }
  const file = kubeconfig(t, named, { token: api.token })
  await t.rejects(ask(await connected(t, { kubeconfig: file })), /elsewhere\.example/)
})

t.test('paths of a kubeconfig begin where it is', async t => {
  const api = await startApiServer(t)
  const cluster = { server: api.url, 'certificate-authority': 'pki/ca.crt' }
  const user = { 'client-certificate': 'pki/me.crt', 'client-key': 'pki/me.key' }
  const pki = {
    'ca.crt': certificate('ca.crt'),
    'me.crt': certificate('client.crt'),
    'me.key': certificate('client.key'),
  }
  const file = kubeconfig(t, cluster, user, { pki })
  t.equal(await ask(await connected(t, { kubeconfig: file })), 200)
})

t.test('one file may hold certificate and key', async t => {
  const api = await startApiServer(t)
  const cluster = { server: api.url, 'certificate-authority': 'ca.crt' }
  const user = { 'client-certificate': 'me.pem', 'client-key': 'me.pem' }
  const file = kubeconfig(t, cluster, user, {
    'ca.crt': `# ours\n${certificate('ca.crt')}`,
    'me.pem': certificate('client.crt') + certificate('client.key'),
  })
  t.equal(await ask(await connected(t, { kubeconfig: file })), 200)
})

t.test('requests go through proxy-url', async t => {
  const api = await startApiServer(t)
  const tunnels: string[] = []
  const proxy = createServer()
  proxy.on('connect', (request, client) => {
    tunnels.push(request.url ?? '')
    const upstream = connect(Number(new URL(api.url).port), '127.0.0.1', () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n')
      upstream.pipe(client)
      client.pipe(upstream)
    })
    upstream.on('error', () => client.destroy())
    client.on('error', () => upstream.destroy())
  })
  const address = await listen(t, proxy)
  const ca = Buffer.from(certificate('ca.crt')).toString('base64')
  const cluster = {
    server: api.url,
    'certificate-authority-data': ca,
    'proxy-url': `http://${address}`,
  }
  const client = await connected(t, {
    kubeconfig: kubeconfig(t, cluster, { token: api.token }),
  })
  t.equal(await ask(client), 200)
  t.strictSame(tunnels, [new URL(api.url).host])
})

t.test('username and impersonation become headers', async t => {
  const { url, asked } = await echo(t)
  const user = { username: 'me', password: 'pw', as: 'you', 'as-groups': ['a', 'b'] }
  const file = kubeconfig(t, { server: `${url}/prefix/` }, user)
  t.equal(await ask(await connected(t, { kubeconfig: file })), 200)
  t.match(asked[0], {
    url: '/prefix/api/v1/services',
    headers: {
      authorization: 'Basic bWU6cHc=',
      'impersonate-user': 'you',
      'impersonate-group': 'a, b',
    },
  })
})

t.test('master goes before the server of the kubeconfig', async t => {
  const api = await startApiServer(t)
  const file = kubeconfig(
    t,
    { server: 'https://192.0.2.1', 'insecure-skip-tls-verify': true },
    { token: api.token },
  )
  const client = await connected(t, { kubeconfig: file, master: new URL(api.url).host })
  t.equal(await ask(client), 200)
})

t.test(
  'master alone is asked without credentials, over plain HTTP if need be',
  async t => {
    const { url, asked } = await echo(t)
    const client = await connected(t, { master: new URL(url).host })
    t.equal(await ask(client), 200)
    t.equal(asked[0]?.headers.authorization, undefined)
  },
)

t.test('a pod uses its token, and the new one after a 401 or a minute', async t => {
  const api = await startApiServer(t)
  const serviceAccountDir = api.serviceAccount()
  const { hostname, port } = new URL(api.url)
  const env = { KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port }
  const clock = new FakeClock()
  const client = await connected(t, {}, { env, serviceAccountDir, clock })
  t.equal(await ask(client), 200)
  api.rotateToken()
  t.equal(await ask(client), 200, 'after a 401')
  t.equal(client.requests().find(({ code }) => code === '401')?.count, 1)
  api.rotateToken()
  clock.advance(60_000)
  t.equal(await ask(client), 200, 'after a minute')
  t.equal(client.requests().find(({ code }) => code === '401')?.count, 1)
})

const plugin = `#!${process.execPath}
const fs = require('node:fs')
fs.appendFileSync(__dirname + '/runs', '.')
if (!process.env.KUBERNETES_EXEC_INFO.includes('ExecCredential')) process.exit(2)
const token = fs.readFileSync(__dirname + '/token', 'utf8')
const status = { token, expirationTimestamp: '2100-01-01T00:00:00Z' }
console.log(JSON.stringify({ apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential', status }))
`

t.test('an exec plugin is run beside the kubeconfig, and again after a 401', async t => {
  const api = await startApiServer(t)
  const exec = { command: './plugin.cjs', args: ['token'] }
  const cluster = { server: api.url, 'insecure-skip-tls-verify': true }
  const files = { 'plugin.cjs': plugin, token: api.token, runs: '' }
  const file = kubeconfig(t, cluster, { exec }, files)
  const directory = dirname(file)
  chmodSync(join(directory, 'plugin.cjs'), 0o755)
  const client = await connected(t, { kubeconfig: file })
  t.equal(await ask(client), 200)
  t.equal(await ask(client), 200)
  writeFileSync(join(directory, 'token'), api.rotateToken())
  t.equal(await ask(client), 200)
  t.equal(client.requests().find(({ code }) => code === '401')?.count, 1)
  t.equal(readFileSync(join(directory, 'runs'), 'utf8'), '..')
})

t.test('an answer that switches protocols is an error of the request', async t => {
  const server = createServer()
  server.on('upgrade', () => {})
  server.on('request', ({ socket }) =>
    socket.end('HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'),
  )
  const client = await connected(t, { master: await listen(t, server) })
  await t.rejects(ask(client), /ended without an answer/)
})

t.test('a proxy that never answers is given up like any server', async t => {
  const silent = createServer()
  silent.on('connect', (_, socket) => {
    t.teardown(() => socket.destroy())
  })
  const proxy = `http://${await listen(t, silent)}`
  const cluster = { server: 'https://127.0.0.1:1', 'proxy-url': proxy }
  const clock = new FakeClock()
  const client = await connected(t, { kubeconfig: kubeconfig(t, cluster, {}) }, { clock })
  const asked = ask(client)
  const given = t.rejects(asked, /no answer within 30 s/)
  await once(silent, 'connect')
  clock.advance(30_000)
  await given
})

t.test('an exec plugin that hangs is ended with the client', async t => {
  const script = '#!/bin/sh\necho $$ > "$(dirname "$0")/pid"\nsleep 60 | cat\n'
  const files = { 'hang.sh': script, pid: '' }
  const exec = { command: './hang.sh' }
  const file = kubeconfig(t, { server: `http://${testHost}:1` }, { exec }, files)
  const directory = dirname(file)
  chmodSync(join(directory, 'hang.sh'), 0o755)
  const client = await connectToCluster(access({ kubeconfig: file }))
  const asked = ask(client)
  const refused = t.rejects(asked, /users\["u"\]\.user\.exec: /)
  const pid = () => Number(readFileSync(join(directory, 'pid'), 'utf8'))
  await until('it runs', () => pid() > 0)
  client.close()
  await refused
  await until('it is gone', () => !isAlive(pid()))
})

t.test('what an exec plugin prints is not shown, and not kept without bound', async t => {
  for (const body of ['echo eyJhbGciOi', 'exec yes'] as const) {
    const exec = { command: './plugin.sh' }
    const files = { 'plugin.sh': `#!/bin/sh\n${body}\n` }
    const file = kubeconfig(t, { server: `http://${testHost}:1` }, { exec }, files)
    chmodSync(join(dirname(file), 'plugin.sh'), 0o755)
    const why: Error = await ask(await connected(t, { kubeconfig: file })).catch(e => e)
    t.match(why.message, /users\["u"\]\.user\.exec: .*ExecCredential/)
    t.notMatch(why.message, /eyJ/)
  }
})

t.test('an exec plugin that fails is an error of the request', async t => {
  const cluster = { server: 'https://127.0.0.1:1' }
  const file = kubeconfig(t, cluster, { exec: { command: './missing' } })
  const client = await connected(t, { kubeconfig: file })
  await t.rejects(ask(client), /users\["u"\]\.user\.exec: .*ENOENT/)
})

t.test('connections are kept', async t => {
  const api = await startApiServer(t)
  const client = await connected(t, { kubeconfig: api.kubeconfig() })
  for (let i = 0; i < 5; i++) t.equal(await ask(client), 200)
  t.equal(api.connections, 1)
})

const wrong: [string, Json | string, RegExp][] = [
  ['is not YAML', '{}\na: [', /kubeconfig .*: is not YAML: line 2: /],
  [
    'is a manifest',
    { kind: 'Service' },
    /kind "Service" and is not a kubeconfig.*--manifests/,
  ],
  [
    'is nested too deeply',
    '['.repeat(200_000),
    /is not YAML: line 1: .*nested too deeply/,
  ],
  ['is empty', '', /is not a kubeconfig; it needs current-context/],
  [
    'has no current context',
    { contexts: [{ name: 'a' }, { name: 'b' }] },
    /current-context is missing; name one of the contexts \(a, b\)/,
  ],
  [
    'has a current context that is none',
    { 'current-context': 'c', contexts: [{ name: 'a' }] },
    /current-context "c" is not among the contexts \(a\)/,
  ],
  [
    'names an unknown cluster',
    { 'current-context': 'a', contexts: [{ name: 'a', context: { cluster: 'c' } }] },
    /contexts\["a"\]\.context\.cluster "c" is not among the clusters \(there are none\)/,
  ],
  [
    'names an unknown user',
    {
      'current-context': 'a',
      contexts: [{ name: 'a', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server: 'https://[::1]' } }],
    },
    /contexts\["a"\]\.context\.user "u" is not among the users/,
  ],
]
for (const [what, config, message] of wrong)
  t.test(`a kubeconfig that ${what} is refused`, async t => {
    const text = typeof config === 'string' ? config : JSON.stringify(config)
    const file = join(t.testdir({ config: text }), 'config')
    await t.rejects(connectToCluster(access({ kubeconfig: file })), {
      code: 'BAD_SOURCE',
    })
    await t.rejects(connectToCluster(access({ kubeconfig: file })), { message })
  })

const base64 = (text: string): string => Buffer.from(text).toString('base64')

const wrongParts: [string, Json, Json, RegExp][] = [
  ['no server', {}, {}, /clusters\["c"\]\.cluster\.server is missing; give the URL/],
  ['a server that is none', { server: 'ftp://x' }, {}, /"ftp:\/\/x" is not a server/],
  [
    'a CA and no wish for one',
    { server: 'x', 'certificate-authority': 'a', 'insecure-skip-tls-verify': true },
    {},
    /give one of them/,
  ],
  [
    'a CA that is missing',
    { server: 'x', 'certificate-authority': 'a' },
    {},
    /no such file/,
  ],
  [
    'a CA file without a certificate',
    { server: 'x', 'certificate-authority': 'other.txt' },
    {},
    /clusters\["c"\]\.cluster\.certificate-authority: cannot use \/.*other\.txt: it holds no certificate; give PEM/,
  ],
  [
    'a CA in it that is no certificate',
    { server: 'x', 'certificate-authority-data': base64('no PEM') },
    {},
    /certificate-authority-data: what it says in base64 holds no certificate/,
  ],
  [
    'a CA that is broken',
    {
      server: 'x',
      'certificate-authority-data': base64(
        '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
      ),
    },
    {},
    /holds no certificate/,
  ],
  [
    'a CA file without a certificate, and a plugin',
    { server: 'x', 'certificate-authority': 'other.txt' },
    { exec: { command: 'true', apiVersion: 'client.authentication.k8s.io/v1' } },
    /holds no certificate/,
  ],
  [
    'a client certificate that is a key',
    { server: 'x' },
    { 'client-certificate-data': base64(certificate('client.key')) },
    /user\.client-certificate-data: .*holds no certificate/,
  ],
  [
    'a client key that is a certificate',
    { server: 'x' },
    { 'client-key-data': base64(certificate('client.crt')) },
    /user\.client-key-data: .*holds no private key/,
  ],
  [
    'a token file that is missing',
    { server: 'x' },
    { tokenFile: 'a' },
    /tokenFile: .*no such/,
  ],
  [
    'a token that is a number',
    { server: 'x' },
    { token: 1 },
    /user\.token: number is given/,
  ],
]
for (const [what, cluster, user, message] of wrongParts)
  t.test(`a kubeconfig with ${what} is refused`, async t => {
    const file = kubeconfig(t, cluster, user, { 'other.txt': 'no PEM' })
    await t.rejects(connectToCluster(access({ kubeconfig: file })), {
      code: 'BAD_SOURCE',
      message,
    })
  })

t.test('without a kubeconfig, a master and a pod there is no server', async t => {
  const missing = connectToCluster(access({ kubeconfig: '/nowhere/config' }))
  await t.rejects(missing, /there is no such file or directory; give --kubeconfig/)
  const nowhere = connectToCluster(access({}), { env: {} })
  await t.rejects(
    nowhere,
    /give --kubeconfig or --master, --manifests for .*, or run in a pod/,
  )
  const env = { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '443' }
  const pod = connectToCluster(access({}), { env, serviceAccountDir: '/nowhere' })
  await t.rejects(
    pod,
    /service account: cannot use \/nowhere\/token: there is no such file/,
  )
})
