import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { serviceObject } from '../../support/api-server/builders.ts'
import { startApiServer } from '../../support/api-server/for-test.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { until } from '../../support/until.ts'
import { connectToCluster } from '../../../src/source/kubernetes/cluster-access.ts'
import { fixture } from './fixture.ts'

// What the fault run has found.

t.test('all who are refused with an old token take the new one', async t => {
  const api = await startApiServer(t)
  const kubeconfig = api.kubeconfig({ user: 'token-file' })
  const client = await connectToCluster({ kubeconfig, master: '', version: '0' })
  t.teardown(() => client.close())
  const { signal } = new AbortController()
  const ask = async (): Promise<number> => {
    const { status, body } = await client.request({ path: '/api/v1/services', signal })
    body.resume()
    return status
  }
  t.equal(await ask(), 200)
  // This one hears of its refusal when another has found the new token already.
  api.faults.add({ kind: 'delay', ms: 200 }, { times: 1 })
  api.rotateToken()
  t.strictSame(await Promise.all([ask(), ask()]), [200, 200])
})

t.test('a request that is sent again on a fresh connection counts twice', async t => {
  const api = await startApiServer(t)
  const clock = new FakeClock()
  const access = { kubeconfig: api.kubeconfig(), master: '', version: '0' }
  const client = await connectToCluster({ ...access, qps: 1, burst: 2 }, { clock })
  t.teardown(() => client.close())
  const { signal } = new AbortController()
  const ask = async (): Promise<number> => {
    const { status, body } = await client.request({ path: '/api/v1/services', signal })
    for await (const _ of body);
    return status
  }
  t.equal(await ask(), 200)
  api.faults.add({ kind: 'cut', how: 'rst', afterBytes: 0 }, { times: 1 })
  const second = ask()
  await until('the reset', () => api.connections === 0)
  await sleep(50)
  t.equal(api.requests.all.length, 2)
  clock.advance(1000)
  t.equal(await second, 200)
})

for (const caughtUp of [false, true])
  t.test(
    `a server that refuses and then comes back from a backup is read anew${caughtUp ? ', when it has caught up, too' : ''}`,
    async t => {
      const { api, world, clock, sync } = await fixture(t)
      api.apply(serviceObject('web', '10.96.0.10'))
      await sync()
      const backup = api.backup()
      api.apply(serviceObject('young', '10.96.0.11'))
      await until('the young one', () => world.objects.size === 2)
      const watch = { resources: ['services'], verbs: ['watch'] } as const
      api.faults.add({ kind: 'status', code: 503 }, { ...watch, times: 1 })
      api.disturb('close', 'services')
      await clock.pump('the refusal', () => world.logged(/^lost services: .*503/))
      api.restore(backup)
      if (caughtUp)
        for (const ip of [12, 13, 14]) api.apply(serviceObject('other', `10.96.0.${ip}`))
      const names = caughtUp
        ? ['Service default/other', 'Service default/web']
        : ['Service default/web']
      const isRight = () => world.names.join() === names.join()
      const ms = await clock.pump('the older state', isRight)
      t.ok(ms < 40_000, `${ms} ms, without waiting for a silent watch to be cut`)
    },
  )

t.test('a server that can no longer select by clusterIP is followed on', async t => {
  const { api, world, clock, sync } = await fixture(t)
  await sync()
  api.behaviour.serviceFields = false
  api.disturb('close', 'services')
  api.apply(serviceObject('web', '10.96.0.10'))
  await clock.pump('the news', () => world.objects.size === 1)
  t.ok(world.logged(/^fell back services: the server can't select by spec.clusterIP/))
})

t.test('a server that calls a resumed watch nonsense is listed anew', async t => {
  const { api, world, clock, sync } = await fixture(t)
  await sync()
  const watch = { resources: ['endpointslices'], verbs: ['watch'] } as const
  api.faults.add({ kind: 'status', code: 400 }, { ...watch, times: 1 })
  api.disturb('close', 'endpointslices')
  await clock.pump('a list', () => world.logged(/^relisted endpointslices: 400/))
  t.pass()
})
