import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { makeLinuxRelay } from '../support/linux-relay.ts'
import { tcpAccessLogContract } from './contract/tcp-access-log.ts'

t.test('the access log of the Linux relay', { skip: linuxRelaySkip() }, async t => {
  tcpAccessLogContract(t, makeLinuxRelay)
})
