import t from 'tap'
import { serviceObject } from '../../support/api-server/builders.ts'
import type { Fault } from '../../support/api-server/faults.ts'
import type { ApiServer } from '../../support/api-server/server.ts'
import { until } from '../../support/until.ts'
import { fixture } from './fixture.ts'

t.test('how often it asks', async t => {
  const resources = ['services']

  const storms: [string, Fault][] = [
    ['ends each watch at once', { kind: 'close' }],
    ['says 410 to each watch', { kind: 'status', code: 410 }],
    ['fails with 500', { kind: 'status', code: 500 }],
    ['breaks each watch', { kind: 'garbage' }],
  ]
  for (const [what, fault] of storms)
    t.test(`a server that ${what} is asked less and less`, async t => {
      const { api, clock, sync } = await fixture(
        t,
        {
          streamingLists: 'refused',
        },
        { timing: { silenceMs: Infinity } },
      )
      await sync()
      api.requests.clear()
      api.faults.add(fault, { resources, verbs: ['watch'] })
      api.disturb('close', 'services')
      await clock.pump('ten minutes', () => clock.now() > 600_000, 500)
      const asked = api.requests.of('services', 'watch').length
      // 0.8 s doubling to 15 s, half as much again (random is 0.5): about 30 in ten minutes.
      t.ok(asked >= 15 && asked <= 40, `${asked} watches`)
      const lists = api.requests.of('services', 'list').length
      t.ok(lists <= asked + 1, `${lists} lists`)
    })

  t.test('Retry-After is waited for', async t => {
    const { api, clock, world, sync } = await fixture(t)
    await sync()
    api.faults.add(
      { kind: 'status', code: 429, retryAfterSeconds: 120 },
      { resources, verbs: ['watch'], times: 1 },
    )
    api.disturb('close', 'services')
    await clock.pump('the refusal', () => world.logged(/^lost services: .* 429 /))
    api.requests.clear()
    await clock.pump('119 s', () => clock.now() > 118_000, 500)
    t.equal(api.requests.of('services').length, 0)
    await clock.pump('the next', () => api.requests.of('services').length > 0, 500)
    t.ok(clock.now() >= 120_000)
  })

  for (const code of [401, 403])
    t.test(`${code} is said and asked again slowly`, async t => {
      const { api, clock, world, source } = await fixture(t)
      const remove = api.faults.add({ kind: 'status', code }, { resources })
      void source.start(world.sink)
      const why = new RegExp(`^lost services: cannot list services: ${code} `)
      await until('the refusal', () => world.logged(why))
      await clock.pump('a minute', () => clock.now() > 60_000, 250)
      const asked = api.requests.of('services').length
      t.ok(asked >= 3 && asked <= 6, `${asked} requests`)
      t.ok(world.log.filter(line => why.test(line)).length <= 2)
      remove()
      await clock.pump('the source to sync', () => world.synced === 1, 250)
      t.equal(source.status().error, '')
    })

  for (const goneAs of ['event', 'status'] as const)
    t.test(`after a long absence a 410, as ${goneAs}, is listed at once`, async t => {
      const { api, clock, world, sync } = await fixture(t, { goneAs })
      await sync()
      api.shut()
      await clock.pump('ten minutes', () => clock.now() > 600_000, 1000)
      api.apply(serviceObject('young', '10.96.0.11'))
      api.compact()
      await api.reappear()
      const gone = () => world.logged(/^lost services: .* 410 Expired/)
      await clock.pump('the 410', gone, 20)
      const ms = await clock.pump('the state', () => world.objects.size === 1, 20)
      t.ok(ms <= 1000, `${ms} ms`)
    })

  const refusals: [string, (api: ApiServer) => Promise<() => Promise<void>>][] = [
    [
      'credentials that were refused are taken again',
      async api => {
        const remove = api.faults.add({ kind: 'status', code: 401 })
        return async () => remove()
      },
    ],
    [
      'the server is there again',
      async api => {
        api.shut()
        return () => api.reappear()
      },
    ],
  ]
  for (const [what, refuse] of refusals)
    t.test(`when ${what}, the first who sees it wakes the others`, async t => {
      // Not in step, as they are with one number for all.
      let turn = 0
      const random = () => (turn += 0.37) % 1
      const options = { timing: { silenceMs: Infinity }, nodeName: 'node-1', random }
      const { api, world, clock, sync } = await fixture(t, {}, options)
      await sync()
      const mend = await refuse(api)
      api.disturb('rst')
      await clock.pump('all to be lost', () => world.lost.size === 4)
      const start = clock.now()
      await clock.pump('ten minutes', () => clock.now() > start + 600_000, 1000)
      await mend()
      await clock.pump('the first', () => world.lost.size < 4, 20)
      const ms = await clock.pump('the others', () => world.lost.size === 0, 20)
      t.ok(ms <= 1000, `${ms} ms`)
    })

  t.test('who was woken too early is woken again', async t => {
    let turn = 0
    const random = () => (turn += 0.37) % 1
    const options = { timing: { silenceMs: Infinity }, nodeName: 'node-1', random }
    const { api, world, clock, sync } = await fixture(t, {}, options)
    await sync()
    const mend = api.faults.add({ kind: 'status', code: 401 })
    api.disturb('rst')
    await clock.pump('all to be lost', () => world.lost.size === 4)
    const start = clock.now()
    await clock.pump('ten minutes', () => clock.now() > start + 600_000, 1000)
    mend()
    // As one of several servers that has not heard yet: each of the others is refused again.
    const others = ['endpointslices', 'nodes', 'servicecidrs']
    const asked = () =>
      others.reduce((sum, name) => sum + api.requests.of(name).length, 0)
    const mendOthers = api.faults.add(
      { kind: 'status', code: 401 },
      { resources: others },
    )
    await clock.pump('services', () => !world.lost.has('services'), 20)
    const before = asked()
    // As little time as can be: a watch that stood for long is renewed without a loss.
    await clock.pump('the others to be refused', () => asked() >= before + 3, 1)
    api.disturb('rst', 'services')
    await until('the loss', () => world.lost.size === 4)
    mendOthers()
    await clock.pump('services again', () => world.lost.size < 4, 20)
    const ms = await clock.pump('the others', () => world.lost.size === 0, 20)
    t.ok(ms <= 1000, `${ms} ms`)
  })

  t.test('those who wake each other do not do so all the time', async t => {
    const { api, clock, sync } = await fixture(t, {}, { timing: { silenceMs: Infinity } })
    await sync()
    api.requests.clear()
    api.faults.add({ kind: 'close' }, { verbs: ['watch'] })
    api.disturb('close')
    await clock.pump('ten minutes', () => clock.now() > 600_000, 500)
    for (const resource of ['services', 'endpointslices', 'servicecidrs']) {
      const asked = api.requests.of(resource, 'watch').length
      t.ok(asked >= 15 && asked <= 42, `${asked} watches of ${resource}`)
    }
  })

  t.test(
    'after a healthy minute a watch that is lost is renewed within two seconds',
    async t => {
      const { api, clock, world, sync } = await fixture(t, { bookmarkEveryMs: 20 })
      await sync()
      const lost = () => world.log.filter(line => line.startsWith('lost services')).length
      for (let i = 1; i <= 6; i++) {
        await until('the watch', () => api.watching.includes('services'))
        api.disturb('rst', 'services')
        await clock.pump(
          'the loss',
          () => lost() === i || !api.watching.includes('services'),
        )
        await clock.pump('the watch', () => api.watching.includes('services'), 1000)
      }
      const until70 = clock.now() + 70_000
      await clock.pump('a healthy minute', () => clock.now() > until70, 200)
      api.disturb('rst', 'services')
      await until('the loss', () => !api.watching.includes('services'))
      const ms = await clock.pump(
        'the watch',
        () => api.watching.includes('services'),
        20,
      )
      t.ok(ms <= 2000, `${ms} ms`)
    },
  )
})
