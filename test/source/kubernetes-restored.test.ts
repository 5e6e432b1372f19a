import t from 'tap'
import { serviceObject } from '../support/api-server/builders.ts'
import { until } from '../support/until.ts'
import { fixture } from './parts/kubernetes-fixture.ts'

// Found by the fault run: a server that says no in between may be another one afterwards.

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
