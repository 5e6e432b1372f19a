// A process of its own: long.
import t from 'tap'
import { makePortableRelay } from '../support/portable-relay.ts'
import { clientListsContract } from './contract/client-lists.ts'
import { connectionLimitsContract } from './contract/tcp-connection-limits.ts'
import { tcpAgesContract } from './contract/tcp-ages.ts'

t.test('lists', async t => clientListsContract(t, makePortableRelay))
t.test('limits', async t => connectionLimitsContract(t, makePortableRelay))
t.test('ages', async t => tcpAgesContract(t, makePortableRelay))
