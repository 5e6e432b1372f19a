// A process of its own: long.
import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { makeLinuxRelay, makeLinuxRelayWith } from '../support/linux-relay.ts'
import { explainContract } from './contract/explain.ts'
import { tcpConnectionsContract } from './contract/tcp-connections.ts'
import { tcpDrainContract } from './contract/tcp-drain.ts'
import { tcpEndedContract } from './contract/tcp-ended.ts'
import { udpDrainContract } from './contract/udp-drain.ts'

t.test('what operators order', { skip: linuxRelaySkip() }, async t => {
  t.test('connections that are told', async t =>
    tcpConnectionsContract(t, makeLinuxRelayWith({ workers: 2 })),
  )
  t.test('connections as they end', async t =>
    tcpEndedContract(t, makeLinuxRelayWith({ workers: 2 })),
  )
  t.test('endpoints that are drained', async t => tcpDrainContract(t, makeLinuxRelay))
  t.test('what is explained', async t =>
    explainContract(t, makeLinuxRelayWith({ workers: 4 })),
  )
  t.test('of UDP', async t => udpDrainContract(t, makeLinuxRelay))
})
