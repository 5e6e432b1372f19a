// A process of its own: long.
import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { makeLinuxRelay } from '../support/linux-relay.ts'
import { makePortableRelay } from '../support/portable-relay.ts'
import { ringsContract } from './contract/rings.ts'

t.test('portable relays', async t => ringsContract(t, makePortableRelay))
t.test('Linux relays', { skip: linuxRelaySkip() }, async t => {
  ringsContract(t, makeLinuxRelay)
  ringsContract(t, makeLinuxRelay, makePortableRelay)
})
