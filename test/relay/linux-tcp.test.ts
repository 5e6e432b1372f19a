// A process of its own: long.
import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { makeLinuxRelay, makeLinuxRelayWith } from '../support/linux-relay.ts'
import { testHost } from '../support/ports.ts'
import { tcpChoiceContract } from './contract/tcp-choice.ts'
import { tcpCopyContract } from './contract/tcp-copy.ts'
import { tcpEndContract } from './contract/tcp-end.ts'
import { tcpSpawnsContract } from './contract/tcp-spawns.ts'

t.test('the Linux relay carries TCP', { skip: linuxRelaySkip() }, async t => {
  t.test('over IPv4', async t => tcpCopyContract(t, makeLinuxRelay, testHost))
  t.test('over IPv6', async t => tcpCopyContract(t, makeLinuxRelay, '::1'))
  tcpEndContract(t, makeLinuxRelay)
  tcpChoiceContract(t, makeLinuxRelay)
  tcpSpawnsContract(t, makeLinuxRelayWith({ workers: 2 }))
})
