// A process of its own: long.
import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { reloadContract } from './contract/reload.ts'
import { tcpCrowdContract } from './contract/tcp-crowd.ts'
import { tcpLimitsContract } from './contract/tcp-limits.ts'

const relay = {
  file: new URL('../support/linux-relay.ts', import.meta.url),
  exported: 'makeLinuxRelay',
}

t.test('the Linux relay has limits', { skip: linuxRelaySkip() }, async t => {
  tcpLimitsContract(t, relay)
  tcpCrowdContract(t, { ...relay, exported: 'makeLinuxRelayOfTwo' })
  reloadContract(t, relay)
})
