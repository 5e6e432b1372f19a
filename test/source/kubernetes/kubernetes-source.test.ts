import { setTimeout as sleep } from 'node:timers/promises'
import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import {
  endpoint,
  endpointsObject,
  nodeObject,
  serviceCidrObject,
  serviceObject,
  sliceObject,
} from '../../support/api-server/builders.ts'
import { Dialled } from '../../../src/source/kubernetes/api-client.ts'
import { until } from '../../support/until.ts'
import { fixture } from './fixture.ts'

t.test('what it holds', async t => {
  const web = serviceObject('web', '10.96.0.10')
  const webSlice = sliceObject('web', 'web-1', [endpoint('10.244.0.1')])

  t.test('Services, slices, the Node and ServiceCIDRs are told, then synced', async t => {
    const { api, world, source, sync } = await fixture(t, {}, { nodeName: 'node-1' })
    api.apply(web)
    api.apply(webSlice)
    api.apply(nodeObject('node-1'))
    api.apply(nodeObject('node-2'))
    api.apply(serviceCidrObject('kubernetes', ['10.96.0.0/16']))
    await sync()
    await until('ServiceCIDRs', () => world.objects.size === 4)
    t.strictSame(world.names, [
      'EndpointSlice default/web-1',
      'Node node-1',
      'Service default/web',
      'ServiceCIDR kubernetes',
    ])
    t.match(source.status(), { name: `kubernetes ${api.url}`, synced: true, error: '' })
    t.match(source.status().lastGoodAt, Number)
  })

  t.test('it is not synced while slices are missing', async t => {
    const { api, world, clock, source } = await fixture(t, {}, { pumpedAnswers: true })
    const remove = api.faults.add({ kind: 'stall' }, { resources: ['endpointslices'] })
    api.apply(web)
    const started = source.start(world.sink)
    await until('the Service', () => world.objects.size === 1)
    t.equal(world.synced, 0)
    t.equal(source.status().synced, false)
    remove()
    await clock.pump('the slices', () => world.synced === 1, 1000)
    await started
    t.equal(world.synced, 1)
  })

  t.test('a Node that can not be had delays the start by three seconds', async t => {
    const { api, world, clock, source } = await fixture(t, {}, { nodeName: 'node-1' })
    api.faults.add({ kind: 'status', code: 500 }, { resources: ['nodes'] })
    void source.start(world.sink)
    await until('all the rest', () =>
      ['services', 'endpointslices', 'servicecidrs'].every(resource =>
        world.log.includes(`connected ${resource}`),
      ),
    )
    t.equal(world.synced, 0)
    clock.advance(2999)
    t.equal(world.synced, 0)
    clock.advance(1)
    t.equal(world.synced, 1)
    t.match(source.status().error, /^cannot list nodes: 500 /)
  })

  t.test('a Node that may not be read is not said to be missing', async t => {
    const { api, world, clock, source } = await fixture(t, {}, { nodeName: 'node-1' })
    const remove = api.faults.add({ kind: 'status', code: 403 }, { resources: ['nodes'] })
    void source.start(world.sink)
    await clock.pump('the source to sync', () => world.synced === 1)
    t.strictSame(world.problems, [])
    t.match(
      source.status().error,
      /^cannot list nodes: 403 Forbidden: nodes is forbidden/,
    )
    t.notMatch(source.status().error, /serving/, 'nothing of it was ever had')
    t.match(source.nodeProblem(), /^cannot list nodes: 403 /)
    remove()
    await clock.pump('the answer', () => world.problems.length === 1)
    t.match(world.problems, [{ object: 'Node node-1', message: /has no Node/ }])
    t.match(source.nodeProblem(), /^the API server has no Node node-1; /)
    api.apply(nodeObject('node-1'))
    await until('the Node', () => world.names.includes('Node node-1'))
    api.delete('nodes', 'node-1')
    await until('its end', () => !world.names.includes('Node node-1'))
    t.match(
      source.nodeProblem(),
      /^the Node node-1 was deleted; /,
      'nobody gave its name',
    )
  })

  t.test('how old the state is goes by what can not be read', async t => {
    const options = { streamingLists: 'refused' } as const
    const { api, world, clock, source, sync } = await fixture(t, options)
    await sync()
    const resources = ['endpointslices']
    // A list that begins and breaks off is no newer state.
    api.faults.add({ kind: 'truncate', afterBytes: 100 }, { resources, verbs: ['list'] })
    source.reload()
    const reloadedAt = Date.now()
    await until('the loss', () => world.lost.has('endpointslices'))
    const before = world.lost.get('endpointslices') ?? Infinity
    t.ok(before <= reloadedAt)
    await sleep(1100)
    await clock.pump('some lists', () => api.requests.of('endpointslices').length > 6)
    api.apply(web)
    await until('what is newer', () => world.objects.size === 1)
    t.equal(source.status().lastGoodAt, before)
    const time = new Date(before).toISOString().slice(11, 19)
    const { error } = source.status()
    t.ok(error.endsWith(`; serving endpointslices as of ${time}Z`), error)
  })

  t.test('changes and deletions are told as they come', async t => {
    const { api, world, sync } = await fixture(t)
    await sync()
    api.apply(web)
    await until('the Service', () => world.names.includes('Service default/web'))
    api.apply(serviceObject('web', '10.96.0.10', { spec: { ports: [{ port: 81 }] } }))
    await until('its port', () =>
      JSON.stringify([...world.objects]).includes('"port":81'),
    )
    api.delete('services', 'web')
    await until('its end', () => world.objects.size === 0)
  })

  t.test('what means nothing to Usher is not told', async t => {
    const { api, world, sync } = await fixture(t)
    api.apply(web)
    await sync()
    const told = world.told
    api.apply(serviceObject('web', '10.96.0.10', { annotations: { note: 'new' } }))
    api.apply(serviceObject('last', '10.96.0.11'))
    await until('the last', () => world.names.includes('Service default/last'))
    t.equal(world.told, told + 1)
  })

  t.test('a Service that goes to another proxy is deleted', async t => {
    const { api, world, sync } = await fixture(t)
    api.apply(web)
    await sync()
    const labels = { 'service.kubernetes.io/service-proxy-name': 'other' }
    api.apply(serviceObject('web', '10.96.0.10', { labels }))
    await until('its end', () => world.objects.size === 0)
  })

  t.test('a Service that becomes an ExternalName is deleted', async t => {
    const { api, world, sync } = await fixture(t)
    api.apply(web)
    await sync()
    api.apply(serviceObject('web', '10.96.0.10', { spec: { type: 'ExternalName' } }))
    await until('its end', () => world.objects.size === 0)
  })

  t.test(
    'it says where it dials, by name too, and which of this host refuses',
    async t => {
      const { api, source, sync } = await fixture(t)
      await sync()
      const port = Number(new URL(api.url).port)
      t.strictSame(source.dials(), [{ address: '127.0.0.1', port }])
      const dialled = new Dialled()
      let told = 0
      dialled.changed = () => void (told += 1)
      const socket = connect({ host: 'localhost', port })
      dialled.watch(socket, port)
      await once(socket, 'connect')
      socket.destroy()
      dialled.add('::ffff:127.0.0.1', port)
      dialled.add('fe80::1%eth0', port)
      t.ok(dialled.all.some(({ address }) => address === '127.0.0.1'))
      t.ok(dialled.all.some(({ address }) => address === 'fe80::1'))
      t.equal(told, dialled.all.length, 'each once')
    },
  )

  t.test('an object with bad values keeps its last good version', async t => {
    const { api, world, source, sync } = await fixture(t)
    api.apply(web)
    await sync()
    const told = world.told
    api.apply(serviceObject('web', '10.96.0.10', { spec: { ports: [{ port: 'x' }] } }))
    await until('a problem', () => world.problems.length === 1)
    t.match(world.problems, [
      { object: 'Service default/web', field: 'spec.ports[0].port' },
    ])
    t.equal(world.told, told)
    source.reload()
    await until('a list', () => world.relists('services') === 1)
    t.equal(world.told, told, 'also through a relist')
    t.equal(world.problems.length, 1)
    api.apply(serviceObject('web', '10.96.0.99'))
    await until('the mended one', () => world.problems.length === 0)
    t.equal(world.told, told + 1)
  })

  for (const address of ['127.0.0.1', '127.9.9.9', '169.254.169.254', '::1', 'fe80::1'])
    t.test(`an endpoint ${address} is refused, as by an API server`, async t => {
      const { api, world, sync } = await fixture(t)
      api.apply(webSlice)
      await sync()
      const good = JSON.stringify([...world.objects])
      const v6 = address.includes(':') ? { addressType: 'IPv6' } : {}
      api.apply({ ...sliceObject('web', 'web-1', [endpoint(address)]), ...v6 })
      await until('the problem', () => world.problems.length === 1)
      t.match(world.problems, [
        {
          object: 'EndpointSlice default/web-1',
          field: 'endpoints[0].addresses[0]',
          message:
            /^".*" is (loopback|link-local) \(.*give the address of a pod or a host$/,
        },
      ])
      t.equal(JSON.stringify([...world.objects]), good, 'the last good one stands')
      api.apply(sliceObject('new', 'new-1', [endpoint('10.244.0.9')]))
      await until('another', () => world.objects.size === 2)
    })

  t.test('also in Endpoints, where there are no slices', async t => {
    const off = new Set(['endpointslices'])
    const { api, world, sync } = await fixture(t, { off })
    api.apply(endpointsObject('web', ['10.244.0.1', '169.254.169.254']))
    await sync()
    t.match(Object.fromEntries(world.objects), {
      'EndpointSlice default/endpoints/web/0/IPv4': {
        endpoints: [{ address: '10.244.0.1' }],
      },
    })
    t.match(world.problems, [
      { object: 'Endpoints default/web', field: 'subsets[0].addresses[1].ip' },
    ])
  })

  for (const streamingLists of ['on', 'refused'] as const)
    t.test(`a relist tells only what differs (streaming ${streamingLists})`, async t => {
      const { api, world, clock, source, sync } = await fixture(t, { streamingLists })
      for (let i = 1; i <= 9; i++) api.apply(serviceObject(`s${i}`, `10.96.0.${i}`))
      await sync()
      const told = world.told
      t.equal(told, 9)
      api.shut()
      api.delete('services', 's1')
      api.apply(serviceObject('s2', '10.96.1.2'))
      api.compact()
      await api.reappear()
      await clock.pump('the new state', () => world.objects.size === 8)
      t.equal(world.told, told + 2)
      t.ok(world.logged(/^relisted services: 410 Expired/), world.log.join('\n'))
      t.equal(world.relists('services'), 1)
      await clock.pump('all watches', () => source.status().error === '')
    })

  t.test('a server that comes back from a backup is read anew', async t => {
    const { api, world, clock, sync } = await fixture(t)
    api.apply(web)
    await sync()
    const backup = api.backup()
    api.apply(serviceObject('young', '10.96.0.11'))
    await until('the young one', () => world.objects.size === 2)
    api.restore(backup)
    await clock.pump('it to vanish', () => world.objects.size === 1)
    t.strictSame(world.names, ['Service default/web'])
    t.ok(world.logged(/^relisted services: .*it holds an older state/))
  })

  t.test('also when it has caught up by the time it is asked', async t => {
    const { api, world, clock, sync } = await fixture(t)
    api.apply(web)
    await sync()
    const backup = api.backup()
    api.apply(serviceObject('lost', '10.96.0.11'))
    await until('the one that will be lost', () => world.objects.size === 2)
    await until('connections to be idle', () => api.watching.length === 3)
    api.restore(backup)
    for (const name of ['a', 'b', 'c']) api.apply(serviceObject(name, '10.96.0.20'))
    await clock.pump('the state of the server', () => world.objects.size === 4)
    t.notOk(world.names.includes('Service default/lost'))
    t.ok(world.logged(/^relisted services: Service default\/lost is not what it was/))
  })

  t.test('a server without streaming lists is read in pages', async t => {
    const { api, world, sync } = await fixture(t, { streamingLists: 'refused' })
    for (let i = 0; i < 2001; i++)
      api.apply(serviceObject(`s${i}`, `10.96.${i >> 8}.${i & 255}`))
    await sync()
    t.equal(world.objects.size, 2001)
    t.equal(api.requests.of('services', 'list').length, 2)
    t.ok(world.logged(/^fell back services: the server can't stream a list; reads pages/))
  })

  t.test('pages that expire in between are read again from the start', async t => {
    const f = await fixture(t, { streamingLists: 'refused' })
    const { api, world, clock, client, source } = f
    for (let i = 0; i < 2001; i++)
      api.apply(serviceObject(`s${i}`, `10.96.${i >> 8}.${i & 255}`))
    const request = client.request.bind(client)
    client.request = asked => {
      if (asked.query?.['continue'] !== undefined && world.objects.size === 0) {
        client.request = request
        api.apply(web)
        api.compact()
      }
      return request(asked)
    }
    void source.start(world.sink)
    await clock.pump('the source to sync', () => world.synced === 1)
    t.equal(world.objects.size, 2002)
    t.ok(world.logged(/^lost services: cannot list services: 410 Expired/))
  })

  t.test('a server that ignores the wish for a streaming list is found out', async t => {
    const { api, world, clock, source } = await fixture(t, { streamingLists: 'ignored' })
    api.apply(web)
    void source.start(world.sink)
    await clock.pump('the source to sync', () => world.synced === 1)
    t.strictSame(world.names, ['Service default/web'])
    t.ok(world.logged(/^fell back services: the server can't stream a list/))
  })

  t.test('where slices are not served Endpoints are read', async t => {
    const off = new Set(['endpointslices'])
    const { api, world, sync } = await fixture(t, { off })
    api.apply(endpointsObject('web', ['10.244.0.1']))
    await sync()
    t.strictSame(world.names, ['EndpointSlice default/endpoints/web/0/IPv4'])
    api.apply(endpointsObject('web', ['2001:db8::1']))
    const moved = 'EndpointSlice default/endpoints/web/0/IPv6'
    await until('the other family', () => world.names.includes(moved))
    t.strictSame(world.names, [moved])
    t.ok(world.logged(/^connected endpoints$/))
  })

  t.test('where ServiceCIDRs are not served they are looked for again', async t => {
    const { api, world, clock, source, sync } = await fixture(t, {
      off: new Set(['servicecidrs']),
    })
    api.apply(serviceCidrObject('kubernetes', ['10.96.0.0/16']))
    await sync()
    // There is no v1 and no v1beta1; then a timer is set for the next look.
    await until('the last answer', () =>
      api.requests.all.some(
        ({ path, status }) => path.endsWith('/v1beta1/servicecidrs') && status === 404,
      ),
    )
    await sleep(100)
    t.equal(source.status().error, '')
    const asked = api.requests.of('servicecidrs').length
    api.behaviour.off.clear()
    clock.advance(590_000)
    t.equal(api.requests.of('servicecidrs').length, asked)
    clock.advance(10_000)
    await until('ServiceCIDRs', () => world.names.includes('ServiceCIDR kubernetes'))
  })

  t.test(
    'ServiceCIDRs that may not be read are said once and no fault of the source',
    async t => {
      const timing = { silenceMs: Infinity }
      const { api, world, clock, source, sync } = await fixture(t, {}, { timing })
      const resources = ['servicecidrs']
      api.faults.add({ kind: 'status', code: 403 }, { resources })
      await sync()
      const asked = () => api.requests.of('servicecidrs').length
      await until('an answer', () => world.logged(/^lost servicecidrs: .* 403 /))
      await clock.pump('another attempt', () => asked() > 1, 60_000)
      t.equal(world.log.filter(line => line.startsWith('lost')).length, 1)
      t.equal(source.status().error, '')
    },
  )

  t.test('reload lists again at once, also while the server is away', async t => {
    const { api, world, clock, source, sync } = await fixture(t)
    await sync()
    api.shut()
    await clock.pump('a long wait', () => world.logged(/ECONNREFUSED/))
    await api.reappear()
    api.apply(web)
    source.reload()
    await until('the Service', () => world.objects.size === 1)
    t.ok(world.logged(/^relisted services: asked to/))
  })

  t.test('close ends a start that waits, and every connection', async t => {
    const { api, world, source } = await fixture(t)
    api.faults.add({ kind: 'stall' })
    const started = source.start(world.sink)
    await until('requests', () => api.requests.all.length > 0)
    await source.close()
    await started
    t.equal(world.synced, 0)
    await until('connections to end', () => api.connections === 0)
  })
})
