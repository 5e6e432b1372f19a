// A process of its own: long.
import t from 'tap'
import { makePortableRelay } from '../support/portable-relay.ts'
import { tcpCutContract } from './contract/tcp-cut.ts'
import { tcpDialContract } from './contract/tcp-dial.ts'
import { tcpEarlyCloseContract } from './contract/tcp-early-close.ts'

tcpDialContract(t, makePortableRelay)
tcpCutContract(t, makePortableRelay)
t.test('early closes', async t => tcpEarlyCloseContract(t, makePortableRelay))
