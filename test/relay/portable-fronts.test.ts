// A process of its own: long.
import t from 'tap'
import { makePortableRelay } from '../support/portable-relay.ts'
import { tcpFrontsContract } from './contract/tcp-fronts.ts'
import { udpFrontsContract } from './contract/udp-fronts.ts'

t.test('TCP', async t => tcpFrontsContract(t, makePortableRelay))
t.test('UDP', async t => udpFrontsContract(t, makePortableRelay))
