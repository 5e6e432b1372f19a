import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { makeLinuxRelay } from '../support/linux-relay.ts'
import { makePortableRelay } from '../support/portable-relay.ts'
import { tcpOneClientContract } from './contract/tcp-one-client.ts'
import { tcpPostgresNamesContract } from './contract/tcp-postgres-names.ts'

t.test('the Linux relay', { skip: linuxRelaySkip() }, async t => {
  tcpPostgresNamesContract(t, makeLinuxRelay)
  tcpOneClientContract(t, makeLinuxRelay)
})
t.test('the portable relay', async t => {
  tcpPostgresNamesContract(t, makePortableRelay)
  tcpOneClientContract(t, makePortableRelay)
})
