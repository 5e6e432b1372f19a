import t from 'tap'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { makeLinuxRelayWith, mortalWorker } from '../../support/linux-relay.ts'
import { until } from '../../support/until.ts'
import {
  connectionLimitsContract,
  limitedListener,
} from '../contract/tcp-connection-limits.ts'

t.test('limits over all workers', { skip: linuxRelaySkip() }, async t => {
  t.test('four of them', async t =>
    connectionLimitsContract(t, makeLinuxRelayWith({ workers: 4 })),
  )

  t.test('each client comes to one worker, also when that begins later', async t => {
    const make = makeLinuxRelayWith({ workers: 4 })
    const { come, served, listen } = await limitedListener(t, make, undefined)
    await listen({ clientConnections: 2 })
    for (let i = 1; i <= 30; i += 1) await come(4, `127.0.1.${i}`)
    t.equal(served.size, 60)
  })

  t.test('what workers had taken that are no more is free again', async t => {
    const { program, tell } = mortalWorker(t, 'throw new Error("told to die")')
    const make = makeLinuxRelayWith({ workers: 2, workerProgram: program })
    const limits = { routeConnections: 16 }
    const { come, served, faults, counters } = await limitedListener(t, make, limits)
    await come(20)
    t.equal(served.size, 16)
    await tell(1)
    await until('it has died', () => faults.length === 1)
    await until('all clients are reset', () => served.size === 0)
    t.equal(counters().active, 0)
    await until('there is room again', async () => {
      await come(16)
      return served.size === 16
    })
    t.equal(counters().active, 16)
  })
})
