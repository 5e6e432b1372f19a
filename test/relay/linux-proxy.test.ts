// A process of its own: it mostly waits.
import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { makeLinuxRelay, makeLinuxRelayOfTwo } from '../support/linux-relay.ts'
import { tcpAcceptProxyContract } from './contract/tcp-accept-proxy.ts'
import { tcpProxyHeaderContract } from './contract/tcp-proxy-header.ts'
import { tcpServerNamesContract } from './contract/tcp-server-names.ts'

t.test('the Linux relay among proxies', { skip: linuxRelaySkip() }, async t => {
  t.test('headers that it sends', async t => tcpProxyHeaderContract(t, makeLinuxRelay))
  t.test('headers that it takes', async t =>
    tcpAcceptProxyContract(t, makeLinuxRelay, makeLinuxRelayOfTwo),
  )
  t.test('server names', async t => tcpServerNamesContract(t, makeLinuxRelay))
})
