// A process of its own: long.
import t from 'tap'
import { makeLinuxRelay } from '../support/linux-relay.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { udpContract } from './contract/udp.ts'
import { udpFrontsContract } from './contract/udp-fronts.ts'
import { udpLimitsContract } from './contract/udp-limits.ts'
import { udpReturnContract } from './contract/udp-silence.ts'

const skip = linuxRelaySkip()

t.test('the contract', { skip }, async t => udpContract(t, makeLinuxRelay))
t.test('returns', { skip }, async t => udpReturnContract(t, makeLinuxRelay))
t.test('fronts', { skip }, async t => udpFrontsContract(t, makeLinuxRelay))
t.test('limits', { skip }, async t =>
  udpLimitsContract(
    t,
    {
      file: new URL('../support/linux-relay.ts', import.meta.url),
      exported: 'makeLinuxRelay',
    },
    // A thread needs some to load its modules.
    120,
  ),
)
