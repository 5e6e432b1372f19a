import t from 'tap'
import {
  endpointsObject,
  nodeObject,
  serviceCidrObject,
  serviceObject,
  sliceObject,
} from './builders.ts'
import { startApiServer } from './for-test.ts'
import type { ApiServer } from './server.ts'
import { apiClient, type Client } from './test-client.ts'

const path = '/api/v1/services'

const fill = (server: ApiServer, count: number): void => {
  for (let n = 0; n < count; n += 1)
    server.apply(serviceObject(`s${n}`, `10.96.0.${n + 1}`))
}

const names = async (client: Client, query: string): Promise<string> => {
  const { body, status } = await client.get(`${path}?${query}`)
  if (status !== 200) return String(status)
  return (body.items ?? []).map(({ metadata }) => metadata.name).join(' ')
}

/** Part of api-server.test.ts. */
t.test('the API server of the tests: lists', async t => {
  t.test('a list holds the objects, its version, and no kind in its items', async t => {
    const server = await startApiServer(t, { firstVersion: 41 })
    fill(server, 2)
    const { body } = await apiClient(t, server).get(path)
    t.equal(body.kind, 'ServiceList')
    t.equal(body.metadata.resourceVersion, '43')
    t.match(body.items, [
      { kind: undefined, metadata: { name: 's0', resourceVersion: '42' } },
      { metadata: { name: 's1', resourceVersion: '43', namespace: 'default' } },
    ])
  })

  t.test('the path of a namespace and of a name choose', async t => {
    const server = await startApiServer(t)
    fill(server, 1)
    server.apply(serviceObject('other', '10.96.0.9', { namespace: 'elsewhere' }))
    const client = apiClient(t, server)
    const { body } = await client.get('/api/v1/namespaces/elsewhere/services')
    t.match(body.items, [{ metadata: { name: 'other' } }])
    t.equal(body.items?.length, 1)
    const one = await client.get('/api/v1/namespaces/default/services/s0')
    t.match(one.body, { kind: 'Service', metadata: { name: 's0' } })
    t.match(await client.get('/api/v1/namespaces/default/services/none'), { status: 404 })
    t.match(await client.get('/apis/nothing.io/v1/things'), { status: 404 })
  })

  t.test('objects of the whole cluster have no namespace in their path', async t => {
    const server = await startApiServer(t)
    server.apply(serviceCidrObject('kubernetes', ['10.96.0.0/16']))
    server.apply(nodeObject('node-1'))
    server.apply(endpointsObject('web', ['10.0.0.1']))
    const client = apiClient(t, server)
    const cidrs = await client.get('/apis/networking.k8s.io/v1/servicecidrs')
    t.match(cidrs.body.items, [{ spec: { cidrs: ['10.96.0.0/16'] } }])
    t.equal((await client.get('/api/v1/nodes/node-1')).status, 200)
    t.equal((await client.get('/api/v1/namespaces/default/nodes')).status, 404)
    const endpoints = await client.get('/api/v1/namespaces/default/endpoints/web')
    t.match(endpoints.body, { subsets: [{ addresses: [{ ip: '10.0.0.1' }] }] })
    t.ok(server.delete('nodes', 'node-1'))
    t.notOk(server.delete('nodes', 'node-1'))
  })

  t.test('label selectors choose', async t => {
    const server = await startApiServer(t)
    const labelled = (name: string, labels: Record<string, string>) =>
      server.apply(serviceObject(name, '10.96.0.1', { labels }))
    labelled('none', {})
    labelled('a1', { a: '1' })
    labelled('a2', { a: '2', 'x.io/b': '' })
    const client = apiClient(t, server)
    for (const [selector, expected] of [
      ['a', 'a1 a2'],
      ['!a', 'none'],
      ['a=1', 'a1'],
      ['a==1', 'a1'],
      ['a!=1', 'a2 none'],
      ['a in (1,2)', 'a1 a2'],
      ['a notin (1)', 'a2 none'],
      ['a,!x.io/b', 'a1'],
      ['!a,!x.io/b', 'none'],
      ['a in (2,3),x.io/b', 'a2'],
      ['=?', '400'],
    ] as const)
      t.equal(
        await names(client, `labelSelector=${encodeURIComponent(selector)}`),
        expected,
        selector,
      )
  })

  t.test('field selectors choose, where they are known and allowed', async t => {
    const server = await startApiServer(t)
    fill(server, 2)
    server.apply(serviceObject('headless', 'None'))
    const client = apiClient(t, server)
    t.equal(await names(client, 'fieldSelector=metadata.name%3Ds1'), 's1')
    const withAddress = 'fieldSelector=spec.clusterIP%21%3DNone'
    t.equal(await names(client, withAddress), 's0 s1')
    t.equal(await names(client, 'fieldSelector=spec.ports%3D1'), '400')
    server.behaviour.serviceFields = false
    t.match(await client.get(`${path}?${withAddress}`), {
      status: 400,
      body: {
        reason: 'BadRequest',
        message:
          '"spec.clusterIP" is not a known field selector: only "metadata.name", "metadata.namespace"',
      },
    })
    t.equal(await names(client, 'fieldSelector=metadata.name%3Ds1'), 's1')
  })

  t.test('the pages of a list are of one moment', async t => {
    const server = await startApiServer(t)
    fill(server, 5)
    const client = apiClient(t, server)
    const first = await client.get(`${path}?limit=2`)
    t.equal(first.body.metadata.remainingItemCount, 3)
    server.delete('services', 's3')
    server.apply(serviceObject('s2', '10.96.0.99'))
    server.apply(serviceObject('s9', '10.96.0.10'))
    const second = await client.get(
      `${path}?limit=2&continue=${first.body.metadata.continue}`,
    )
    t.match(second.body.items, [
      { metadata: { name: 's2' }, spec: { clusterIP: '10.96.0.3' } },
      { metadata: { name: 's3' } },
    ])
    t.equal(second.body.metadata.resourceVersion, first.body.metadata.resourceVersion)
    const third = await client.get(
      `${path}?limit=2&continue=${second.body.metadata.continue}`,
    )
    t.match(third.body.items, [{ metadata: { name: 's4' } }])
    t.equal(third.body.items?.length, 1)
    t.equal(third.body.metadata.continue, undefined)
  })

  t.test('after a compaction a further page is 410', async t => {
    const server = await startApiServer(t)
    fill(server, 3)
    const client = apiClient(t, server)
    const { body } = await client.get(`${path}?limit=2`)
    server.apply(serviceObject('more', '10.96.0.77'))
    server.compact()
    const next = await client.get(`${path}?limit=2&continue=${body.metadata.continue}`)
    t.match(next, { status: 410, body: { reason: 'Expired', code: 410 } })
    const rest = `continue=${next.body.metadata.continue}`
    t.equal(await names(client, rest), 's2', 'what is there now, by the token it gave')
    t.match(await client.get(`${path}?continue=nonsense`), { status: 400 })
  })

  t.test('resourceVersion says how old a list may be', async t => {
    const server = await startApiServer(t, { firstVersion: 0 })
    fill(server, 3)
    const client = apiClient(t, server)
    t.equal(await names(client, 'resourceVersion=0&limit=1'), 's0 s1 s2', 'no pages')
    t.equal(await names(client, 'resourceVersion=3'), 's0 s1 s2')
    t.equal(await names(client, 'resourceVersion=2&resourceVersionMatch=Exact'), 's0 s1')
    t.match(await client.get(`${path}?resourceVersion=4`), {
      status: 504,
      headers: { 'retry-after': '1' },
      body: {
        reason: 'Timeout',
        message: 'Timeout: Too large resource version: 4, current: 3',
        details: { causes: [{ reason: 'ResourceVersionTooLarge' }] },
      },
    })
    t.equal(await names(client, 'resourceVersionMatch=Exact'), '422')
    t.equal(await names(client, 'resourceVersion=abc'), '400')
    server.compact()
    t.equal(await names(client, 'resourceVersion=2&resourceVersionMatch=Exact'), '410')
  })

  t.test('a collection that is not served is 404, also in discovery', async t => {
    const server = await startApiServer(t)
    server.behaviour.off.add('endpointslices')
    const client = apiClient(t, server)
    t.equal((await client.get('/apis/discovery.k8s.io/v1/endpointslices')).status, 404)
    t.equal((await client.get('/apis/discovery.k8s.io/v1')).status, 404)
    t.match((await client.get('/apis')).body, { kind: 'APIGroupList' })
    t.equal((await client.get(path)).status, 200)
  })

  t.test('objects are written over HTTP with the codes of the API', async t => {
    const server = await startApiServer(t)
    const client = apiClient(t, server)
    const all = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices'
    const slice = sliceObject('web', 'web-1', [])
    t.equal((await client.call('PUT', `${all}/web-1`, { body: slice })).status, 404)
    t.equal((await client.call('POST', all, { body: slice })).status, 201)
    const again = await client.call('POST', all, { body: slice })
    t.match(again, { status: 409, body: { reason: 'AlreadyExists' } })
    const old = { ...slice, metadata: { ...slice.metadata, resourceVersion: '1' } }
    const late = await client.call('PUT', `${all}/web-1`, { body: old })
    t.match(late, { status: 409, body: { reason: 'Conflict' } })
    const body = { metadata: { labels: { a: 'b' } }, ports: null }
    t.equal((await client.call('PATCH', `${all}/web-1`, { body })).status, 415)
    const type = 'application/merge-patch+json'
    t.equal((await client.call('PATCH', `${all}/web-1`, { body, type })).status, 200)
    const patched = server.get('endpointslices', 'web-1')
    t.match(patched, { metadata: { labels: { a: 'b' } }, ports: undefined })
    t.equal((await client.call('DELETE', `${all}/web-1`)).status, 200)
    t.equal((await client.call('DELETE', `${all}/web-1`)).status, 404)
    t.equal((await client.call('POST', all, { body: 'text' })).status, 400)
  })

  t.test('Events that clients send can be read', async t => {
    const server = await startApiServer(t)
    const events = '/apis/events.k8s.io/v1/namespaces/default/events'
    const body = { metadata: { generateName: 'node-1.' }, reason: 'Starting' }
    t.equal((await apiClient(t, server).call('POST', events, { body })).status, 201)
    t.match(server.objects('events'), [{ kind: 'Event', reason: 'Starting' }])
  })

  t.test('a write that changes nothing makes no new version', async t => {
    const server = await startApiServer(t)
    const version = server.apply(serviceObject('web', '10.96.0.1'))
    t.equal(server.apply(serviceObject('web', '10.96.0.1')), version)
    t.equal(server.apply(serviceObject('web', '10.96.0.2')), version + 1)
  })
})
