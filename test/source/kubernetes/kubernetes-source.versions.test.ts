import t from 'tap'
import {
  endpoint,
  serviceCidrObject,
  serviceObject,
  sliceObject,
} from '../../support/api-server/builders.ts'
import { behaviourOf } from '../../support/api-server/options.ts'
import { until } from '../../support/until.ts'
import { fixture } from './fixture.ts'

/** API servers of other versions, with what they can't do. */
t.test('versions of the API', async t => {
  const web = serviceObject('web', '10.96.0.10')
  const webSlice = sliceObject('web', 'web-1', [endpoint('10.244.0.1')])

  t.test('an etcd that is too old for streaming lists is found out', async t => {
    const { api, world, source, clock } = await fixture(t, { streamingLists: 'unable' })
    api.apply(web)
    void source.start(world.sink)
    await clock.pump('the source to sync', () => world.synced === 1)
    t.strictSame(world.names, ['Service default/web'])
    t.ok(world.logged(/^fell back services: the server can't stream a list; reads pages/))
  })

  for (let minor = 25; minor <= 37; minor++)
    t.test(`the API server of Kubernetes 1.${minor} is read without a pause`, async t => {
      const { api, world, clock, source } = await fixture(t, behaviourOf(minor))
      api.apply(web)
      api.apply(serviceObject('headless', 'None'))
      api.apply(webSlice)
      if (minor >= 33) api.apply(serviceCidrObject('kubernetes', ['10.96.0.0/16']))
      void source.start(world.sink)
      await until('the source to sync', () => world.synced === 1)
      await until('ServiceCIDRs', () =>
        minor >= 33
          ? world.names.includes('ServiceCIDR kubernetes')
          : api.requests.of('servicecidrs').some(({ status }) => status === 404),
      )
      t.equal(clock.now(), 0)
      t.strictSame(world.names, [
        'EndpointSlice default/web-1',
        'Service default/web',
        ...(minor >= 33 ? ['ServiceCIDR kubernetes'] : []),
      ])
      t.strictSame(
        world.log.filter(line => line.startsWith('lost')),
        [],
      )
      const told = (pattern: RegExp) => world.logged(pattern)
      t.equal(told(/can't select by spec.clusterIP/), minor <= 30)
      t.equal(told(/can't stream a list/), ![32, 34, 35, 36, 37].includes(minor))
      api.apply(serviceObject('later', '10.96.0.11'))
      await until('a change', () => world.names.includes('Service default/later'))
    })

  t.test(
    'a server that refuses the selector in other words sends all Services',
    async t => {
      const { api, world, clock, source } = await fixture(t)
      api.apply(web)
      api.faults.add({ kind: 'status', code: 400 }, { resources: ['services'], times: 1 })
      void source.start(world.sink)
      await until('the source to sync', () => world.synced === 1)
      t.equal(clock.now(), 0)
      t.ok(world.logged(/^fell back services: the server can't select by spec.clusterIP/))
    },
  )
})
