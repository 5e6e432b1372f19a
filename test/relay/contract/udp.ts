import type { Test } from 'tap'
import { testHost } from '../../support/ports.ts'
import type { MakeRelay } from '../../support/relay-fixture.ts'
import { udpChoiceContract } from './udp-choice.ts'
import { udpCopyContract } from './udp-copy.ts'
import { udpFlowsContract } from './udp-flows.ts'
import { udpIdleContract } from './udp-idle.ts'
import { udpRefusalContract } from './udp-refusal.ts'
import { udpSilenceContract } from './udp-silence.ts'

/** What a relay does with UDP. */
export const udpContract = (t: Test, make: MakeRelay): void => {
  t.test('over IPv4', async t => udpCopyContract(t, make, testHost))
  t.test('over IPv6', async t => udpCopyContract(t, make, '::1'))
  udpChoiceContract(t, make)
  udpRefusalContract(t, make)
  udpSilenceContract(t, make)
  udpIdleContract(t, make)
  udpFlowsContract(t, make)
}
