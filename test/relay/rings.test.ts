import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { makePortableRelay } from '../support/portable-relay.ts'
import { makeLinuxRelay, makeLinuxRelayOfTwo } from '../support/linux-relay.ts'
import {
  clientOfRingLeavesContract,
  oneWayClientsContract,
  ringsContract,
} from './contract/rings.ts'

t.test('Linux relays', { skip: linuxRelaySkip() }, async t => {
  ringsContract(t, [makeLinuxRelay])
  ringsContract(t, [makeLinuxRelay, makeLinuxRelayOfTwo])
  ringsContract(t, [makeLinuxRelay, makeLinuxRelay], '::1')
  ringsContract(t, [makeLinuxRelay, makeLinuxRelay, makeLinuxRelay])
  oneWayClientsContract(t, makeLinuxRelay)
})

t.test('portable relays', async t => {
  clientOfRingLeavesContract(t, [makePortableRelay, makePortableRelay])
  oneWayClientsContract(t, makePortableRelay)
})

t.test('a Linux and a portable relay', { skip: linuxRelaySkip() }, async t => {
  clientOfRingLeavesContract(t, [makeLinuxRelay, makePortableRelay])
})
