// A process of its own: long.
import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import {
  makeLinuxRelay,
  makeLinuxRelayWith,
  mortalWorker,
} from '../support/linux-relay.ts'
import { until } from '../support/until.ts'
import { clientListsContract } from './contract/client-lists.ts'
import {
  connectionLimitsContract,
  limitedListener,
} from './contract/tcp-connection-limits.ts'
import { tcpAgesContract } from './contract/tcp-ages.ts'

t.test('limits of routes and clients', { skip: linuxRelaySkip() }, async t => {
  t.test('lists', async t => clientListsContract(t, makeLinuxRelay))
  t.test('limits', async t => connectionLimitsContract(t, makeLinuxRelay))
  t.test('what connections of a dead worker counted is free again', async t => {
    const { program, tell } = mortalWorker(t, 'throw new Error("told to die")')
    const make = makeLinuxRelayWith({ workers: 2, workerProgram: program })
    const limits = { routeConnections: 6 }
    const { come, served, faults } = await limitedListener(t, make, limits)
    await come(12)
    t.equal(served.size, 6)
    for (const thread of [1, 2]) {
      await tell(thread)
      await until('it has died', () => faults.length === thread)
    }
    await until('its clients are reset', () => served.size === 0)
    await come(12)
    t.equal(served.size, 6)
  })
  t.test('ages', async t => tcpAgesContract(t, makeLinuxRelay))
})
