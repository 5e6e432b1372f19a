// A process of its own: long.
import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { makeLinuxRelay } from '../support/linux-relay.ts'
import { clientListsContract } from './contract/client-lists.ts'
import { connectionLimitsContract } from './contract/tcp-connection-limits.ts'
import { tcpAgesContract } from './contract/tcp-ages.ts'

t.test('limits of routes and clients', { skip: linuxRelaySkip() }, async t => {
  t.test('lists', async t => clientListsContract(t, makeLinuxRelay))
  t.test('limits', async t => connectionLimitsContract(t, makeLinuxRelay))
  t.test('ages', async t => tcpAgesContract(t, makeLinuxRelay))
})
