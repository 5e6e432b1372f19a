// A process of its own: long.
import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { makeLinuxRelay } from '../support/linux-relay.ts'
import { allFailedContract } from './contract/all-failed.ts'
import { tcpCutContract } from './contract/tcp-cut.ts'
import { tcpDialContract } from './contract/tcp-dial.ts'
import { tcpEarlyCloseContract } from './contract/tcp-early-close.ts'
import { tcpEarlyCloseHoldContract } from './contract/tcp-early-close-hold.ts'
import { tcpHoldContract } from './contract/tcp-hold.ts'
import { tcpNoAnswerContract } from './contract/tcp-no-answer.ts'
import { tcpPauseContract } from './contract/tcp-pause.ts'
import { tcpFrontsContract } from './contract/tcp-fronts.ts'
import { udpFrontsContract } from './contract/udp-fronts.ts'

t.test('the Linux relay dials', { skip: linuxRelaySkip() }, async t => {
  tcpDialContract(t, makeLinuxRelay)
  tcpCutContract(t, makeLinuxRelay)
  t.test('all endpoints fail', async t => allFailedContract(t, makeLinuxRelay))
  t.test('clients that are held', async t => tcpHoldContract(t, makeLinuxRelay))
  t.test('listeners that are paused', async t => tcpPauseContract(t, makeLinuxRelay))
  t.test('endpoints without an answer', async t => tcpNoAnswerContract(t, makeLinuxRelay))
  t.test('early closes', async t => tcpEarlyCloseContract(t, makeLinuxRelay))
  t.test('early closes and clients that are held', async t =>
    tcpEarlyCloseHoldContract(t, makeLinuxRelay),
  )
  t.test('TCP fronts', async t => tcpFrontsContract(t, makeLinuxRelay))
  t.test('UDP fronts', async t => udpFrontsContract(t, makeLinuxRelay))
})
