// A process of its own: long.
import t from 'tap'
import { makePortableRelay } from '../support/portable-relay.ts'
import { explainContract } from './contract/explain.ts'
import { tcpConnectionsContract } from './contract/tcp-connections.ts'
import { tcpDrainContract } from './contract/tcp-drain.ts'
import { tcpEndedContract } from './contract/tcp-ended.ts'
import { udpDrainContract } from './contract/udp-drain.ts'

t.test('connections that are told', async t =>
  tcpConnectionsContract(t, makePortableRelay),
)
t.test('connections as they end', async t => tcpEndedContract(t, makePortableRelay))
t.test('endpoints that are drained', async t => tcpDrainContract(t, makePortableRelay))
t.test('of UDP', async t => udpDrainContract(t, makePortableRelay))
t.test('what is explained', async t => explainContract(t, makePortableRelay))
