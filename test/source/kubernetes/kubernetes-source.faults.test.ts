import t from 'tap'
import {
  endpoint,
  nodeObject,
  serviceCidrObject,
  serviceObject,
  sliceObject,
} from '../../support/api-server/builders.ts'
import type { Fault } from '../../support/api-server/faults.ts'
import type { ApiServer } from '../../support/api-server/server.ts'
import type { Disturbance } from '../../support/api-server/watch.ts'
import { until } from '../../support/until.ts'
import { fixture } from './fixture.ts'

/** Whether so many watches more have been asked for. */
const asked = (api: ApiServer, more: number, resource?: string): (() => boolean) => {
  const count = () =>
    api.requests.all.filter(
      one =>
        one.verb === 'watch' && (resource === undefined || one.resource === resource),
    ).length
  const wanted = count() + more
  return () => count() >= wanted
}

t.test('faults', async t => {
  const web = serviceObject('web', '10.96.0.10')
  const later = serviceObject('later', '10.96.0.11')
  const both = ['Service default/later', 'Service default/web']

  const disturbances: [Disturbance, string, RegExp][] = [
    ['truncate', 'ends in the middle of a line', /^lost services: .*middle of a line/],
    ['fin', 'breaks off', /^lost services: .*the connection was cut/],
    ['rst', 'is reset', /^lost services: .*the connection was cut/],
    ['garbage', 'holds what is not JSON', /^lost services: .*line that is not JSON/],
    ['huge-line', 'holds a line of 8 MiB', /^lost services: .*more than 4 MiB/],
    ['close', 'is ended early', /^lost services: .*the server ended the watch/],
    ['gone', 'has expired', /^lost services: .*410 Expired/],
  ]

  for (const [how, what, why] of disturbances)
    t.test(`a watch that ${what} goes on from where it was`, async t => {
      const { api, world, clock, source, sync } = await fixture(t)
      api.apply(web)
      await sync()
      await until('the watch', () => api.watching.includes('services'))
      const told = world.told
      api.disturb(how, 'services')
      await until('the end of the watch', () => world.logged(why))
      t.match(
        source.status().error,
        /^cannot watch services: .*; serving services as of \d\d:\d\d:\d\dZ$/,
      )
      api.apply(later)
      await clock.pump('the news', () => world.objects.size === 2)
      t.strictSame(world.names, both)
      t.equal(world.told, told + 1, 'nothing is told twice')
      t.equal(source.status().error, '')
      t.equal(world.relists('services'), how === 'gone' ? 1 : 0)
    })

  for (const how of ['duplicate', 'stale'] as const)
    t.test(`events that come ${how} change nothing`, async t => {
      const { api, world, source, sync } = await fixture(t)
      api.faults.add({ kind: how }, { resources: ['services'], verbs: ['watch'] })
      api.apply(web)
      await sync()
      const listening = (port: number) =>
        serviceObject('web', '10.96.0.10', { spec: { ports: [{ port }] } })
      for (let i = 81; i < 90; i++) api.apply(listening(i))
      api.delete('services', 'web')
      api.apply(later)
      api.apply(serviceObject('z', '10.96.0.12'))
      // What came before it has come a second time, too.
      await until('the last', () => world.names.includes('Service default/z'))
      t.strictSame(world.names, ['Service default/later', 'Service default/z'])
      const ports = world.batches
        .flat()
        .flatMap(({ name, object }) =>
          name === 'web' && object !== undefined && 'ports' in object
            ? object.ports.map(({ port }) => port)
            : [],
        )
      t.strictSame(
        ports,
        [...new Set(ports)].toSorted((a, b) => a - b),
        'none is told again',
      )
      t.equal(source.status().error, '')
      t.equal(world.relists('services'), 0)
    })

  t.test('a half-open connection is given up after 70 s of silence', async t => {
    const { api, world, clock, sync } = await fixture(t)
    api.apply(web)
    await sync()
    api.disturb('half-open')
    api.apply(later)
    clock.advance(69_000)
    await new Promise(setImmediate)
    t.equal(world.objects.size, 1)
    clock.advance(1000)
    await until('the news', () => world.objects.size === 2)
    // Half-open ones never end by themselves.
    api.shut()
    t.notOk(world.logged(/^lost services/), 'the server answers: nothing is lost')
    t.equal(world.relists('services'), 0)
  })

  t.test('a server that is gone after silence is a loss', async t => {
    const { api, world, clock, source, sync } = await fixture(t)
    await sync()
    api.disturb('half-open')
    api.shut()
    clock.advance(70_000)
    await until('the loss', () => world.logged(/^lost services: .*ECONNREFUSED/))
    t.match(source.status().error, /^cannot watch services: .*; serving services as of/)
    await api.reappear()
    await clock.pump('it is over', () => source.status().error === '')
  })

  t.test('a quiet watch is no loss, and nothing is read anew', async t => {
    const { api, world, clock, sync } = await fixture(t)
    await sync()
    for (let times = 0; times < 5; times += 1) {
      await clock.pump('they are opened anew', asked(api, 3), 1000)
    }
    api.apply(web)
    await until('the news', () => world.objects.size === 1)
    t.strictSame(
      world.log.filter(line => !line.startsWith('connected')),
      [],
    )
  })

  for (const [how, seconds] of [
    ['fin', 20],
    ['rst', 35],
    ['close', 55],
  ] as const)
    t.test(`watches that are cut after ${seconds} s (${how})`, async t => {
      const { api, world, clock, source, sync } = await fixture(t)
      await sync()
      const late: number[] = []
      for (let cuts = 0; cuts < 6; cuts += 1) {
        api.apply(sliceObject(`s${cuts}`, `s${cuts}-1`, [endpoint('10.244.0.1')]))
        await until('the news', () => world.objects.size === cuts + 1)
        const again = asked(api, 1, 'services')
        clock.advance(seconds * 1000)
        api.disturb(how, 'services')
        late.push(await clock.pump('it is opened anew', again, 50))
        await until(
          'it stands',
          () => source.status().error === '' && api.watching.includes('services'),
        )
      }
      t.ok(Math.max(...late) < 1500, `changes are late by ${late.join()} ms`)
      t.notOk(world.logged(/^lost services/), world.log.join('\n'))
      const limits = world.log.filter(line => line.startsWith('idle limit'))
      t.equal(limits.length, 1, limits.join())
      t.match(limits[0], new RegExp(`^idle limit ${seconds}`))
      const last = api.requests.all.findLast(
        ({ verb, resource }) => verb === 'watch' && resource === 'services',
      )
      t.ok(Number(last?.query['timeoutSeconds']) < seconds - 1)
    })

  t.test(
    'a watch that brings something and is cut at once is asked for slowly',
    async t => {
      const { api, world, clock, sync } = await fixture(t)
      api.apply(web)
      await sync()
      const began = clock.now()
      for (let i = 0; i < 10; i += 1) {
        api.apply(
          serviceObject('web', '10.96.0.10', { spec: { ports: [{ port: i + 1 }] } }),
        )
        await until('it is told', () => world.told > i + 1)
        const again = asked(api, 1, 'services')
        api.disturb('fin', 'services')
        await clock.pump('it is opened anew', again, 20)
      }
      const ms = clock.now() - began
      t.ok(ms > 5000, `10 times in ${ms} ms`)
      t.ok(world.logged(/^lost services: .*cut/), 'that is no way to serve')
    },
  )

  const starts: [string, Fault][] = [
    ['is not there yet', { kind: 'status', code: 503 }],
    ['never answers', { kind: 'stall' }],
    ['answers with a broken page', { kind: 'garbage' }],
    ['breaks off', { kind: 'cut', how: 'rst', afterBytes: 100 }],
    ['ends in the middle', { kind: 'truncate', afterBytes: 100 }],
  ]
  for (const streamingLists of ['on', 'refused'] as const)
    for (const [what, fault] of starts)
      t.test(
        `a list that ${what} is asked for again (streaming ${streamingLists})`,
        async t => {
          const pumpedAnswers = fault.kind === 'stall'
          const { api, world, clock, source } = await fixture(
            t,
            { streamingLists },
            { pumpedAnswers },
          )
          const verb = streamingLists === 'on' ? 'watch' : 'list'
          api.faults.add(fault, { resources: ['services'], verbs: [verb], times: 2 })
          api.apply(web)
          void source.start(world.sink)
          await clock.pump('the source to sync', () => world.synced === 1)
          t.strictSame(world.names, ['Service default/web'])
          t.ok(world.logged(/^lost services: cannot list services: /))
        },
      )

  t.test('slices that were there once are not looked for among Endpoints', async t => {
    const { api, world, clock, source, sync } = await fixture(t)
    api.apply(sliceObject('web', 'web-1', [endpoint('10.244.0.1')]))
    await sync()
    // As of a proxy before the API servers that knows none of them for the moment.
    api.faults.add(
      { kind: 'status', code: 404 },
      { resources: ['endpointslices'], times: 3 },
    )
    source.reload()
    await clock.pump('the slices', () => world.relists('endpointslices') === 1)
    t.strictSame(world.names, ['EndpointSlice default/web-1'])
    t.equal(world.batches.flat().length, 1)
    t.ok(world.logged(/^lost endpointslices: .*404/))
    t.notOk(world.logged(/^fell back/))
  })

  t.test('nor are other Nodes and ServiceCIDRs gone that are not found', async t => {
    const options = { nodeName: 'n1', otherNodes: true }
    const { api, world, clock, source, sync } = await fixture(t, {}, options)
    api.apply(nodeObject('n1'))
    api.apply(nodeObject('n2'))
    api.apply(serviceCidrObject('all', ['10.96.0.0/16']))
    await sync()
    const names = ['Node n1', 'Node n2', 'ServiceCIDR all']
    await until('all is read', () => world.names.length === 3)
    const resources = ['nodes', 'servicecidrs']
    const restore = api.faults.add({ kind: 'status', code: 404 }, { resources })
    source.reload()
    await clock.pump('two refusals', () => world.logged(/^lost servicecidrs: .*404/))
    t.strictSame(world.names, names)
    t.notOk(world.batches.flat().some(({ object }) => object === undefined))
    restore()
    await clock.pump('they are read again', () => world.relists('servicecidrs') > 0)
    t.strictSame(world.names, names)
  })

  t.test('an API server that is away at the start is waited for', async t => {
    const { api, world, clock, source } = await fixture(t)
    api.shut()
    void source.start(world.sink)
    const away = () => source.status().error.includes('ECONNREFUSED')
    await until('the first attempt', away)
    t.equal(source.status().lastGoodAt, undefined)
    await clock.pump('a minute', () => clock.now() > 60_000)
    t.ok(away())
    t.equal(world.synced, 0)
    t.equal(world.batches.length, 0)
    api.apply(web)
    await api.reappear()
    await clock.pump('the source to sync', () => world.synced === 1)
    t.equal(source.status().error, '')
    t.ok(world.logged(/^connected services/))
  })

  t.test('what is lost is said once a minute at most', async t => {
    const { api, world, clock, sync } = await fixture(t)
    await sync()
    api.shut()
    await clock.pump('ten minutes', () => clock.now() > 600_000, 1000)
    const said = world.log.filter(line => /^lost services: .*ECONNREFUSED/.test(line))
    t.ok(said.length >= 5 && said.length <= 10, `${said.length} times`)
  })
})
