import t from 'tap'
import { makePortableRelay } from '../support/portable-relay.ts'
import { tcpAccessLogContract } from './contract/tcp-access-log.ts'

t.test('the access log of the portable relay', async t => {
  tcpAccessLogContract(t, makePortableRelay)
})
