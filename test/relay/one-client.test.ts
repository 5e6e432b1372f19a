import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { makeLinuxRelay } from '../support/linux-relay.ts'
import { makePortableRelay } from '../support/portable-relay.ts'
import { tcpOneClientContract } from './contract/tcp-one-client.ts'

t.test('the Linux relay', { skip: linuxRelaySkip() }, async t =>
  tcpOneClientContract(t, makeLinuxRelay),
)
t.test('the portable relay', async t => tcpOneClientContract(t, makePortableRelay))
