// A process of its own: it mostly waits.
import t from 'tap'
import { makePortableRelay } from '../support/portable-relay.ts'
import { tcpAcceptProxyContract } from './contract/tcp-accept-proxy.ts'
import { tcpProxyHeaderContract } from './contract/tcp-proxy-header.ts'
import { tcpServerNamesContract } from './contract/tcp-server-names.ts'

t.test('headers that it sends', async t => tcpProxyHeaderContract(t, makePortableRelay))
t.test('headers that it takes', async t => tcpAcceptProxyContract(t, makePortableRelay))
t.test('server names', async t => tcpServerNamesContract(t, makePortableRelay))
