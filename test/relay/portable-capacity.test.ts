import t from 'tap'
import { makePortableRelay } from '../support/portable-relay.ts'
import { tcpBalanceContract } from './contract/tcp-balance.ts'
import { tcpCapacityContract } from './contract/tcp-capacity.ts'

t.test('ways to choose an endpoint', async t => tcpBalanceContract(t, makePortableRelay))
t.test('a limit for each endpoint', async t => tcpCapacityContract(t, makePortableRelay))
