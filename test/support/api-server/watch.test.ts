import t from 'tap'
import { serviceObject } from './builders.ts'
import { startApiServer } from './for-test.ts'
import { until } from '../until.ts'
import { apiClient, type Event, type Stream } from './test-client.ts'

const path = '/api/v1/services?watch=true'
const streaming = `${path}&allowWatchBookmarks=true&sendInitialEvents=true`

const service = (name: string, labels: Record<string, string> = {}, ip = '10.96.0.1') =>
  serviceObject(name, ip, { labels })

const brief = (events: readonly Event[]): string[] =>
  events.map(({ type, object }) => `${type} ${object.metadata.name}`)

/** Waits for so many events, and says them. */
const told = async (stream: Stream, count: number): Promise<string[]> => {
  await until(`${count} events`, () => stream.events().length >= count)
  return brief(stream.events())
}

/** Part of api-server.test.ts. */
t.test('the API server of the tests: watches', async t => {
  t.test('a watch goes on from a version', async t => {
    const server = await startApiServer(t)
    const first = server.apply(service('a'))
    server.apply(service('b'))
    const stream = await apiClient(t, server).watch(`${path}&resourceVersion=${first}`)
    t.same(await told(stream, 1), ['ADDED b'])
    server.apply(service('b', {}, '10.96.0.2'))
    server.delete('services', 'b')
    t.same(await told(stream, 3), ['ADDED b', 'MODIFIED b', 'DELETED b'])
    const versions = stream.events().map(({ object }) => object.metadata.resourceVersion)
    t.same(versions, [first + 1, first + 2, first + 3].map(String))
    t.match(stream.events()[0], { object: { kind: 'Service', apiVersion: 'v1' } })
  })

  t.test('a watch without a version begins with what there is', async t => {
    const server = await startApiServer(t)
    server.apply(service('a'))
    const stream = await apiClient(t, server).watch(path)
    server.apply(service('b'))
    t.same(await told(stream, 2), ['ADDED a', 'ADDED b'])
  })

  t.test('an object that begins to match is added, one that ends is deleted', async t => {
    const server = await startApiServer(t)
    const version = server.apply(service('a', { hidden: '' }))
    const stream = await apiClient(t, server).watch(
      `${path}&labelSelector=%21hidden&resourceVersion=${version}`,
    )
    server.apply(service('a', { hidden: '' }, '10.96.0.2'))
    server.apply(service('a', {}, '10.96.0.2'))
    server.apply(service('a', {}, '10.96.0.3'))
    server.apply(service('a', { hidden: '' }, '10.96.0.4'))
    server.delete('services', 'a')
    server.apply(service('b'))
    t.same(await told(stream, 4), ['ADDED a', 'MODIFIED a', 'DELETED a', 'ADDED b'])
    // The last state that matched, with the version at which it ended.
    t.match(stream.events()[2]?.object, {
      metadata: { resourceVersion: String(version + 4) },
      spec: { clusterIP: '10.96.0.3' },
    })
  })

  t.test('bookmarks come when they are asked for, with the newest version', async t => {
    const server = await startApiServer(t, { bookmarkEveryMs: 5 })
    const client = apiClient(t, server)
    const version = server.apply(service('a'))
    const plain = await client.watch(`${path}&resourceVersion=${version}`)
    const marked = await client.watch(
      `${path}&resourceVersion=${version}&allowWatchBookmarks=true`,
    )
    server.apply({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' } })
    await until('a bookmark', () => marked.bookmarks().length > 2)
    t.match(marked.bookmarks().at(-1), {
      object: { kind: 'Service', metadata: { resourceVersion: String(version + 1) } },
    })
    t.same(plain.lines, [])
  })

  t.test('timeoutSeconds ends a watch in good order', async t => {
    const server = await startApiServer(t)
    const stream = await apiClient(t, server).watch(`${path}&timeoutSeconds=1`)
    await until('the end', () => stream.ended() !== undefined)
    t.equal(stream.ended(), 'complete')
    await until('the server forgets it', () => server.watching.length === 0)
  })

  for (const [goneAs, status] of [
    ['status', 410],
    ['event', 200],
  ] as const)
    t.test(`a forgotten version is 410, as ${goneAs}`, async t => {
      const server = await startApiServer(t, { goneAs })
      const version = server.apply(service('a'))
      server.apply(service('b'))
      server.compact()
      const client = apiClient(t, server)
      const stream = await client.watch(`${path}&resourceVersion=${version}`)
      t.equal(stream.status, status)
      await until('the end', () => stream.ended() === 'complete')
      const error = { type: 'ERROR', object: { kind: 'Status', code: 410 } }
      t.match(stream.events(), goneAs === 'event' ? [error] : [])
      const current = await client.watch(`${path}&resourceVersion=${server.version}`)
      server.apply(service('c'))
      t.same(await told(current, 1), ['ADDED c'])
    })

  t.test('the history is bounded', async t => {
    const server = await startApiServer(t, { historyLimit: 10, goneAs: 'status' })
    const first = server.apply(service('a'))
    for (let n = 0; n < 30; n += 1) server.apply(service('a', {}, `10.96.1.${n}`))
    const client = apiClient(t, server)
    t.equal((await client.watch(`${path}&resourceVersion=${first}`)).status, 410)
    const recent = await client.watch(`${path}&resourceVersion=${server.version - 5}`)
    t.equal((await told(recent, 5)).length, 5)
  })

  t.test('a streaming list ends with a bookmark that says so', async t => {
    const server = await startApiServer(t, { bookmarkEveryMs: 60_000 })
    server.apply(service('a'))
    server.apply(service('b'))
    const client = apiClient(t, server)
    t.equal((await client.watch(streaming)).status, 422, 'wants NotOlderThan')
    const stream = await client.watch(`${streaming}&resourceVersionMatch=NotOlderThan`)
    await until('the bookmark', () => stream.bookmarks().length === 1)
    t.equal(stream.lines.length, 3)
    t.match(stream.bookmarks()[0], {
      object: {
        metadata: {
          resourceVersion: String(server.version),
          annotations: { 'k8s.io/initial-events-end': 'true' },
        },
      },
    })
    server.apply(service('c'))
    t.same(await told(stream, 3), ['ADDED a', 'ADDED b', 'ADDED c'])
  })

  t.test('streaming lists may be refused, or not be known at all', async t => {
    const server = await startApiServer(t, { streamingLists: 'refused' })
    server.apply(service('a'))
    const client = apiClient(t, server)
    const asked = `${streaming}&resourceVersionMatch=NotOlderThan`
    t.equal((await client.watch(asked)).status, 422)
    server.behaviour.streamingLists = 'unknown'
    t.equal((await client.watch(asked)).status, 422)
    server.behaviour.streamingLists = 'unable'
    const unable = await client.watch(asked)
    await until('the refusal', () => unable.ended() === 'complete')
    t.match(unable.events(), [{ type: 'ERROR', object: { code: 500 } }])
    server.behaviour.streamingLists = 'ignored'
    server.behaviour.bookmarkEveryMs = 5
    const stream = await client.watch(asked)
    await until('a bookmark', () => stream.bookmarks().length > 0)
    t.same(brief(stream.events()), ['ADDED a'])
    t.notOk(stream.bookmarks()[0]?.object.metadata.annotations)
  })

  t.test('after a restored backup versions are older, and watches wait', async t => {
    const server = await startApiServer(t, { bookmarkEveryMs: 5 })
    const old = server.apply(service('a'))
    const backup = server.backup()
    const newest = server.apply(service('b'))
    const client = apiClient(t, server)
    const before = await client.watch(`${path}&resourceVersion=${newest}`)
    // By clients of their own, since the connections they keep are going to be reset.
    const both = await apiClient(t, server).get('/api/v1/services')
    t.equal(both.body.items?.length, 2)
    server.restore(backup)
    await until('the watch is cut', () => before.ended() === 'cut')
    t.equal(server.version, old)
    const list = await client.get('/api/v1/services')
    t.match(list.body, { metadata: { resourceVersion: String(old) } })
    t.equal(list.body.items?.length, 1)
    t.equal((await client.get(`/api/v1/services?resourceVersion=${newest}`)).status, 504)
    const future = `${path}&allowWatchBookmarks=true&resourceVersion=${newest}`
    const silent = await client.watch(future)
    server.apply(service('c'))
    const again = await apiClient(t, server).get('/api/v1/services')
    t.match(again.body.items, [{}, { metadata: { name: 'c' } }], 'not b of that version')
    server.apply(service('d'))
    t.same(await told(silent, 1), ['ADDED d'], 'c is lost on such a client')
    server.restore(backup)
    server.behaviour.futureWatch = 'too-large'
    t.equal((await client.watch(future)).status, 504)
    server.behaviour.futureWatch = 'gone'
    server.behaviour.goneAs = 'status'
    t.equal((await client.watch(future)).status, 410)
  })
})
