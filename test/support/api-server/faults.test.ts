import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { serviceObject } from './builders.ts'
import { certificate } from './certificates.ts'
import type { Fault } from './faults.ts'
import { startApiServer } from './for-test.ts'
import type { KubeconfigOptions } from './kubeconfig.ts'
import type { ApiServer, ApiServerOptions } from './server.ts'
import type { Disturbance } from './watch.ts'
import { until } from '../until.ts'
import { apiClient, type Client, type Stream } from './test-client.ts'

const path = '/api/v1/services'

interface Kubeconfig {
  readonly clusters: readonly { readonly cluster: { readonly server: string } }[]
  readonly users: readonly { readonly user: unknown }[]
}
const marked = `${path}?watch=true&allowWatchBookmarks=true`

const set = async (
  t: Test,
  options: ApiServerOptions = {},
): Promise<{ server: ApiServer; client: Client }> => {
  const server = await startApiServer(t, { bookmarkEveryMs: 5, ...options })
  server.apply(serviceObject('web', '10.96.0.1'))
  return { server, client: apiClient(t, server) }
}

/** As one word: what became of a request. */
const outcome = async (request: Promise<{ status: number; complete: boolean }>) => {
  try {
    const { status, complete } = await request
    return complete ? status : 'cut'
  } catch (error) {
    return (error as NodeJS.ErrnoException).code
  }
}

/** Whether nothing comes any more although bookmarks are due many times. */
const silent = async (read: () => number): Promise<boolean> => {
  // What was on its way may still arrive.
  await sleep(30)
  const before = read()
  await sleep(60)
  return read() === before
}

const onLists: readonly [Fault, unknown][] = [
  [{ kind: 'status', code: 403 }, 403],
  [{ kind: 'cut', how: 'rst', afterBytes: 0 }, 'ECONNRESET'],
  [{ kind: 'cut', how: 'fin', afterBytes: 0 }, 'ECONNRESET'],
  [{ kind: 'cut', how: 'rst', afterBytes: 300 }, 'cut'],
  [{ kind: 'cut', how: 'fin', afterBytes: 300 }, 'cut'],
  [{ kind: 'delay', ms: 5 }, 200],
]

const onWatches: readonly [Fault, (stream: Stream) => boolean][] = [
  [{ kind: 'close' }, stream => stream.ended() === 'complete'],
  [{ kind: 'cut', how: 'rst', afterBytes: 300 }, stream => stream.ended() === 'cut'],
  [{ kind: 'truncate', afterBytes: 300 }, stream => stream.ended() === 'complete'],
  [{ kind: 'garbage' }, ({ lines }) => lines[0]?.startsWith('<html>') ?? false],
  [{ kind: 'huge-line', bytes: 1e6 }, ({ lines }) => (lines[0]?.length ?? 0) > 1e6],
]

const inMidLife: readonly [Disturbance, (stream: Stream) => boolean][] = [
  ['close', stream => stream.ended() === 'complete'],
  ['truncate', stream => stream.ended() === 'complete'],
  ['fin', stream => stream.ended() === 'cut'],
  ['rst', stream => stream.ended() === 'cut'],
  ['garbage', ({ lines }) => lines.some(line => line.startsWith('<html>'))],
  ['duplicate', stream => stream.events().length === 3],
  ['stale', stream => stream.events().length === 3],
  ['huge-line', ({ lines }) => lines.some(line => line.length > 8_000_000)],
  ['gone', stream => stream.events().at(-1)?.object.code === 410],
]

/** Part of api-server.test.ts. */
t.test('the API server of the tests: faults', async t => {
  t.test('a token or a certificate of the authority lets in, nothing else', async t => {
    const { server } = await set(t)
    for (const [identity, status] of [
      [{ token: server.token }, 200],
      [{ certificate: 'client' }, 200],
      [{ token: 'wrong' }, 401],
      [{ token: 'wrong', certificate: 'client' }, 401],
      [{ certificate: 'stranger' }, 401],
      [{}, 401],
    ] as const)
      t.equal((await apiClient(t, server, identity).get(path)).status, status)
  })

  t.test('a token that was replaced is refused; the watch it began goes on', async t => {
    const { server, client } = await set(t)
    const stream = await client.watch(marked)
    const token = server.rotateToken()
    t.equal((await client.get(path)).status, 401)
    t.equal((await apiClient(t, server, { token }).get(path)).status, 200)
    server.apply(serviceObject('more', '10.96.0.2'))
    await until('the event', () => stream.events().length === 2)
  })

  t.test('files for clients are written, and follow the token', async t => {
    const { server } = await set(t)
    const read = (...parts: string[]) => readFileSync(join(...parts), 'utf8')
    const directory = server.serviceAccount()
    t.equal(read(directory, 'token'), server.token)
    t.equal(read(directory, 'ca.crt'), certificate('ca.crt'))
    const userIn = (user: NonNullable<KubeconfigOptions['user']>): unknown => {
      const config = JSON.parse(read(server.kubeconfig({ user }))) as Kubeconfig
      t.equal(config.clusters[0]?.cluster.server, server.url)
      return config.users[0]?.user
    }
    t.same(userIn('token'), { token: server.token })
    t.same(userIn('token-file'), { tokenFile: join(directory, 'token') })
    t.match(userIn('certificate'), { 'client-key-data': /./ })
    t.same(userIn('nobody'), {})
    const token = server.rotateToken()
    t.equal(read(directory, 'token'), token)
    server.close()
    t.notOk(existsSync(directory), 'they go with the server')
  })

  t.test('faults mean the verbs and resources of their scope, so many times', async t => {
    const { server, client } = await set(t)
    const status = { kind: 'status', code: 500 } as const
    server.faults.add(status, { resources: ['services'], verbs: ['list'], times: 2 })
    t.equal((await client.get('/api/v1/nodes')).status, 200)
    t.equal((await client.watch(marked)).status, 200)
    t.equal((await client.get(path)).status, 500)
    t.equal((await client.get(path)).status, 500)
    t.equal((await client.get(path)).status, 200)
    const undo = server.faults.add(status)
    t.equal((await client.get('/version')).status, 500)
    undo()
    t.equal((await client.get('/version')).status, 200)
  })

  t.test('refusals come with their Status, and with Retry-After', async t => {
    const { server, client } = await set(t)
    const refusal = async (code: number) => {
      server.faults.add({ kind: 'status', code, retryAfterSeconds: 3 }, { times: 1 })
      return client.get(path)
    }
    t.match(await refusal(503), {
      status: 503,
      headers: { 'retry-after': '3' },
      body: { kind: 'Status', reason: 'ServiceUnavailable' },
    })
    t.match(await refusal(429), {
      status: 429,
      headers: { 'retry-after': '3', 'content-type': 'text/plain; charset=utf-8' },
      text: 'Too many requests, please try again later.\n',
    })
    t.match((await refusal(403)).body, {
      reason: 'Forbidden',
      message:
        /^services is forbidden: User ".*" cannot list resource "services" in API group "" at the cluster scope$/,
    })
  })

  for (const [fault, expected] of onLists)
    t.test(`a list meets ${JSON.stringify(fault)}`, async t => {
      const { server, client } = await set(t)
      server.faults.add(fault, { times: 1 })
      t.equal(await outcome(client.get(path)), expected)
      t.equal(await outcome(client.get(path)), 200)
    })

  t.test('truncated and garbled lists are complete as HTTP, not as JSON', async t => {
    const { server, client } = await set(t)
    for (const fault of [
      { kind: 'truncate', afterBytes: 300 },
      { kind: 'garbage' },
    ] as const) {
      server.faults.add(fault, { times: 1 })
      const answer = await client.get(path)
      t.match(answer, { status: 200, complete: true })
      t.throws(() => JSON.parse(answer.text) as unknown)
    }
  })

  t.test('a slow list trickles, and is whole in the end', async t => {
    const { server, client } = await set(t)
    server.faults.add({ kind: 'slow', bytesPerSecond: 10_000 }, { times: 1 })
    const before = performance.now()
    const { body } = await client.get(path)
    t.equal(body.items?.length, 1)
    t.ok(performance.now() - before > 60)
  })

  for (const fault of [{ kind: 'stall' }, { kind: 'half-open' }] as const)
    t.test(`a request that meets ${fault.kind} is never answered`, async t => {
      const { server, client } = await set(t)
      server.faults.add(fault, { times: 1 })
      let answers = 0
      client.get(path).then(
        () => (answers += 1),
        () => undefined,
      )
      await until('it has arrived', () => server.requests.all.length === 1)
      t.ok(await silent(() => answers))
      t.equal(server.requests.all[0]?.status, 0)
      t.equal((await client.get(path)).status, 200, 'others are')
    })

  for (const [fault, shows] of onWatches)
    t.test(`a watch meets ${JSON.stringify(fault)}`, async t => {
      const { server, client } = await set(t)
      server.faults.add(fault, { verbs: ['watch'], times: 1 })
      const stream = await client.watch(marked)
      await until('the fault shows', () => shows(stream))
    })

  t.test('a watch that is silent after its headers stays open', async t => {
    const { server, client } = await set(t)
    server.faults.add({ kind: 'silence' })
    const stream = await client.watch(marked)
    t.ok(await silent(() => stream.lines.length))
    t.same([stream.lines.length, stream.ended()], [0, undefined])
  })

  t.test('events come twice, or are followed by older ones', async t => {
    const { server, client } = await set(t)
    const versionsWith = async (fault: Fault): Promise<(number | undefined)[]> => {
      server.faults.add(fault, { times: 1 })
      const from = server.version
      const stream = await client.watch(`${path}?watch=1&resourceVersion=${from}`)
      server.apply(serviceObject('web', '10.96.9.9'))
      server.delete('services', 'web')
      server.apply(serviceObject('web', '10.96.0.1'))
      const versions = () =>
        stream
          .events()
          .map(({ object }) => Number(object.metadata.resourceVersion) - from)
      await until('the last event', () => versions().includes(3))
      return versions()
    }
    t.same((await versionsWith({ kind: 'duplicate' })).slice(0, 5), [1, 1, 2, 2, 3])
    t.same(await versionsWith({ kind: 'stale' }), [1, 0, 2, 1, 3])
  })

  for (const [how, shows] of inMidLife)
    t.test(`a running watch meets ${how}`, async t => {
      const { server, client } = await set(t, { bookmarkEveryMs: 60_000 })
      const stream = await client.watch(marked)
      server.apply(serviceObject('web', '10.96.0.2'))
      await until('both events', () => stream.events().length === 2)
      t.equal(server.disturb(how, 'nodes'), 0)
      t.equal(server.disturb(how, 'services'), 1)
      await until('it shows', () => shows(stream))
    })

  t.test('a half-open watch says nothing more, and does not end', async t => {
    const { server, client } = await set(t)
    const stream = await client.watch(marked)
    await until('a bookmark', () => stream.bookmarks().length > 0)
    server.disturb('half-open')
    t.ok(await silent(() => stream.lines.length))
    t.equal(stream.ended(), undefined)
    stream.stop()
    const before = server.connections
    t.ok(await silent(() => server.connections))
    t.equal(server.connections, before, 'the FIN of the client is not heard')
  })

  t.test('a server that vanished takes connections and says nothing', async t => {
    const { server, client } = await set(t)
    t.equal((await client.get(path)).status, 200)
    server.vanish()
    let answers = 0
    const count = () => (answers += 1)
    client.get(path).then(count, count)
    apiClient(t, server).get(path).then(count, count)
    t.ok(await silent(() => answers))
    await server.reappear()
    await until('both are reset', () => answers === 2)
    t.equal((await client.get(path)).status, 200)
  })

  t.test('a server that was shut is back on the same port', async t => {
    const { server, client } = await set(t)
    const stream = await client.watch(marked)
    const { url } = server
    server.shut()
    await until('the watch is cut', () => stream.ended() === 'cut')
    t.equal(await outcome(client.get(path)), 'ECONNREFUSED')
    await server.reappear()
    t.equal(server.url, url)
    t.equal((await client.get(path)).status, 200)
  })

  t.test('requests are logged, and their rate is known', async t => {
    const { server, client } = await set(t)
    await client.get(`${path}?limit=5`)
    await client.get('/api/v1/nodes')
    t.match(server.requests.of('services', 'list'), [
      { verb: 'list', resource: 'services', status: 200, query: { limit: '5' } },
    ])
    t.equal(server.requests.peakPerSecond(), 2)
  })
})
