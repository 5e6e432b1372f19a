import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { makeLinuxRelay, makeLinuxRelayOfTwo } from '../support/linux-relay.ts'
import { ringsContract } from './contract/rings.ts'

t.test('Linux relays', { skip: linuxRelaySkip() }, async t => {
  ringsContract(t, [makeLinuxRelay])
  ringsContract(t, [makeLinuxRelay, makeLinuxRelayOfTwo])
  ringsContract(t, [makeLinuxRelay, makeLinuxRelay], '::1')
  ringsContract(t, [makeLinuxRelay, makeLinuxRelay, makeLinuxRelay])
})
