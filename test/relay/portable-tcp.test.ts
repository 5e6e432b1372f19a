// A process of its own: long.
import t from 'tap'
import { testHost } from '../support/ports.ts'
import { makePortableRelay } from '../support/portable-relay.ts'
import { tcpCopyContract } from './contract/tcp-copy.ts'
import { tcpChoiceContract } from './contract/tcp-choice.ts'
import { tcpEndContract } from './contract/tcp-end.ts'
import { tcpSpawnsContract } from './contract/tcp-spawns.ts'

t.test('over IPv4', async t => tcpCopyContract(t, makePortableRelay, testHost))
t.test('over IPv6', async t => tcpCopyContract(t, makePortableRelay, '::1'))
tcpEndContract(t, makePortableRelay)
tcpChoiceContract(t, makePortableRelay)

const skip =
  process.platform === 'win32' && 'Windows tells the end of a process otherwise'
t.test('processes', { skip }, async t => tcpSpawnsContract(t, makePortableRelay))
