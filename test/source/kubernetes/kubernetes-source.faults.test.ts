import t from 'tap'
import { serviceObject } from '../../support/api-server/builders.ts'
import type { Fault } from '../../support/api-server/faults.ts'
import type { Disturbance } from '../../support/api-server/watch.ts'
import { until } from '../../support/until.ts'
import { fixture } from './fixture.ts'

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

  t.test('a half-open connection is cut after 70 s of silence', async t => {
    const { api, world, clock, sync } = await fixture(t)
    api.apply(web)
    await sync()
    api.vanish()
    api.apply(later)
    clock.advance(69_000)
    t.notOk(world.logged(/^lost services/))
    clock.advance(1000)
    await until('the cut', () => world.logged(/^lost services: .*nothing came for 70 s/))
    await api.reappear()
    await clock.pump('the news', () => world.objects.size === 2)
  })

  t.test('a server from which nothing is heard after a resume is read anew', async t => {
    const { api, world, clock, sync } = await fixture(t)
    await sync()
    // As one that is behind without knowing: it takes the watch and says nothing.
    api.faults.add(
      { kind: 'silence' },
      { resources: ['services'], verbs: ['watch'], times: 1 },
    )
    api.disturb('close', 'services')
    await clock.pump('the silence', () => world.logged(/nothing came for 70 s/), 1000)
    await clock.pump('a list', () => world.logged(/^relisted services: .*never said/))
    t.pass()
  })

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
