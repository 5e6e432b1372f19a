// A process of its own: long.
import t from 'tap'
import { makePortableRelay } from '../support/portable-relay.ts'
import { allFailedContract } from './contract/all-failed.ts'
import { tcpCutContract } from './contract/tcp-cut.ts'
import { tcpDialContract } from './contract/tcp-dial.ts'
import { tcpEarlyCloseContract } from './contract/tcp-early-close.ts'
import { tcpEarlyCloseHoldContract } from './contract/tcp-early-close-hold.ts'
import { tcpHoldContract } from './contract/tcp-hold.ts'
import { tcpNoAnswerContract } from './contract/tcp-no-answer.ts'
import { tcpPauseContract } from './contract/tcp-pause.ts'

tcpDialContract(t, makePortableRelay)
tcpCutContract(t, makePortableRelay)
t.test('all endpoints fail', async t => allFailedContract(t, makePortableRelay))
t.test('clients that are held', async t => tcpHoldContract(t, makePortableRelay))
t.test('listeners that are paused', async t => tcpPauseContract(t, makePortableRelay))
t.test('endpoints without an answer', async t =>
  tcpNoAnswerContract(t, makePortableRelay),
)
t.test('early closes', async t => tcpEarlyCloseContract(t, makePortableRelay))
t.test('early closes and clients that are held', async t =>
  tcpEarlyCloseHoldContract(t, makePortableRelay),
)
